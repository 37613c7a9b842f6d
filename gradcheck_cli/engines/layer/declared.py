"""Intended deviations inside a layer, followed while finite differences of the layer are taken.

At the layer's own point, every call that a declaration is about is recorded. At other points, a
detached number keeps its value from there, and a declared function equals its value there plus its
declared derivative times the change of its arguments. Differences of this layer give the declared
gradient; everything else moves as usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import numpy as np

from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.implementation import ByDesign
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import Residue
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.specfile.stretches import Stretch

ROWS = 256  # backward passes for the whole derivative of one call
ENTRIES = 2**20  # of such a derivative: 8 MB
MOST_CALLS = 1024  # that are followed; each keeps its arguments and its derivative
DRAWS = 3  # of random signs: a derivative that is not entry by entry shows in each
SAME: Residue = 1e-10  # of a gradient: signs change no digit but in the order of sums


class NotDeclarable(EngineFault):
    """A declaration cannot be followed in this layer. The message says why."""

    def __init__(self, design: ByDesign, reason: str) -> None:
        super().__init__(f"by_design: `{design.name}` {reason}")
        self.design = design


Pull = Callable[[Array], Sequence[Array | None]]
"""From a cotangent (m,) of all floating results to the gradient of each floating argument."""

Formula = Callable[[Mapping[str, Any]], Array]
"""The value of a surrogate where the arguments of the function have these values."""


@dataclass(slots=True)
class Given:
    """The arguments and results of one call of a function: floating `args` by name, `others` that
    are plain numbers, and the floating results, flattened and joined."""

    args: Values
    others: Mapping[str, Any]
    results: Array

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        args: Sequence[Any],
        is_floating: Callable[[Any], bool],
        numbers: Callable[[Any], Array],
    ) -> Given:
        """A call before it returns. `names` are those of the first arguments; `is_floating` and
        `numbers` apply to values and arrays of the framework."""
        behind = [f"argument {i}" for i in range(len(names), len(args))]
        named = list(zip([*names[: len(args)], *behind], args, strict=True))
        return cls(
            {n: numbers(a) for n, a in named if is_floating(a)},
            {n: a for n, a in named if isinstance(a, bool | int | float)},
            np.zeros(0),
        )


def joined_results(results: Iterable[Any], numbers: Callable[[Any], Array]) -> Array:
    """Arrays of the framework, flattened and joined."""
    return np.concatenate([np.zeros(0), *(numbers(y).reshape(-1) for y in results)])


def separate(
    flat: Array, likes: Iterable[Any], is_complex: Callable[[Any], bool]
) -> Iterator[tuple[Array, Any]]:
    """The numbers of each array that `joined_results` joined, and the array. Complex numbers are
    pairs."""
    start = 0
    for like in likes:
        shape = (*like.shape, 2) if is_complex(like) else tuple(like.shape)
        end = start + math.prod(shape)
        yield flat[start:end].reshape(shape), like
        start = end


@dataclass(slots=True)
class _Call:
    """A call at the layer's own point, and its declared derivative: for each argument a matrix (m,
    n), or a diagonal (n,)."""

    given: Given
    pull: Pull
    slopes: dict[str, Array] = field(default_factory=dict)


@dataclass
class _One:
    """The calls that one declaration has matched, and their lines. `moved` are the lines whose
    detached numbers were others at another point."""

    design: ByDesign
    calls: list[_Call] = field(default_factory=list)
    cuts: list[Any] = field(default_factory=list)
    places: dict[str, None] = field(default_factory=dict)
    moved: dict[str, None] = field(default_factory=dict)
    next: int = 0
    stops_tangents: bool = True

    @property
    def count(self) -> int:
        return len(self.calls) + len(self.cuts)


class Declared:
    """`designs` by their places in the spec, `stretches` the lines of those that are about some
    (None: the only design is about every number that leaves the graph), `formulas` the surrogates
    of those that have one."""

    def __init__(
        self,
        designs: Mapping[int, ByDesign],
        stretches: Mapping[int, Stretch] | None,
        formulas: Mapping[int, Formula],
    ) -> None:
        self.found = {index: _One(design) for index, design in designs.items()}
        self._functions = {d.function: i for i, d in designs.items() if d.function}
        self._stretches = stretches
        self._formulas = formulas
        self.is_recording = False
        self.names: dict[str, None] = {}
        """Of all functions with a custom gradient that were seen."""

    @property
    def any(self) -> bool:
        """Whether a declaration matched something."""
        return any(one.count for one in self.found.values())

    @property
    def is_every_cut(self) -> bool:
        """Whether the only design is about every number that leaves the graph."""
        return self._stretches is None

    # Runs

    @contextmanager
    def recording(self) -> Iterator[None]:
        """The run at the layer's own point."""
        with temporarily(self, is_recording=True):
            yield
        for index, declared in self.found.items():
            if index not in self._formulas:
                for call in declared.calls:
                    call.slopes = _slopes(declared.design, call)

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """A run at another point. Raises NotDeclarable if it makes fewer calls than were
        recorded."""
        for declared in self.found.values():
            declared.next = 0
        yield
        for declared in self.found.values():
            if declared.next != declared.count:
                raise _other_calls(declared)

    # What a run meets

    def function(self, name: str) -> int | None:
        """The declaration about the function with this name."""
        self.names[name] = None
        return self._functions.get(name)

    def line(self, lines: Iterator[tuple[str, int]]) -> int | None:
        """The declaration about one of these lines, each given with its file."""
        if self._stretches is None:  # every line
            return next(iter(self.found))
        for path, line in lines if self._stretches else ():
            for index, stretch in self._stretches.items():
                if stretch.has(path, line):
                    return index
        return None

    def detach(
        self,
        index: int,
        value: Any,
        copy: Callable[[Any], Any],
        same: Callable[[Any, Any], bool],
        place: str,
        stops: bool,
    ) -> Any:
        """The result of a call that detaches `value`. `same` compares two such values; `stops`: it
        also stops tangents of forward mode."""
        declared = self.found[index]
        if self.is_recording:
            _check_count(declared)
            declared.cuts.append(copy(value))
            declared.stops_tangents &= stops
            declared.places[place] = None
            return value
        if declared.next >= len(declared.cuts):
            raise _other_calls(declared)
        kept = declared.cuts[declared.next]
        declared.next += 1
        if not same(value, kept):
            declared.moved[place] = None
        return copy(kept)

    def declared_results(self, index: int, given: Given, pull: Pull, place: str) -> Array | None:
        """The results of a declared function, flattened; None if the call returns its own
        results."""
        declared = self.found[index]
        if self.is_recording:
            _check_count(declared)
            declared.calls.append(_Call(given, pull))
            declared.places[place] = None
            return None
        if declared.next >= len(declared.calls):
            raise _other_calls(declared)
        call = declared.calls[declared.next]
        declared.next += 1
        if {n: a.shape for n, a in call.given.args.items()} != {
            n: a.shape for n, a in given.args.items()
        }:
            raise NotDeclarable(declared.design, "is called with arrays of different shapes nearby")
        if index in self._formulas:
            return self._by_formula(index, call, given)
        results = call.given.results.copy()
        for name, slope in call.slopes.items():
            moved = (given.args[name] - call.given.args[name]).reshape(-1)
            if np.any(moved):
                results += slope @ moved if slope.ndim == 2 else slope * moved
        return results

    def _by_formula(self, index: int, call: _Call, given: Given) -> Array:
        design, formula, before = self.found[index].design, self._formulas[index], call.given
        there = formula({**given.others, **given.args})
        here = formula({**before.others, **before.args})
        if there.size != before.results.size:
            raise NotDeclarable(
                design,
                f"has results of {before.results.size} entries, and its surrogate has {there.size}",
            )
        return np.asarray(before.results + (there - here).reshape(-1))


def _check_count(declared: _One) -> None:
    if declared.count >= MOST_CALLS:
        raise NotDeclarable(declared.design, f"is called more than {MOST_CALLS} times")


def _other_calls(one: _One) -> NotDeclarable:
    return NotDeclarable(
        one.design, "is called a different number of times nearby, so it cannot be followed"
    )


def _slopes(design: ByDesign, call: _Call) -> dict[str, Array]:
    """The derivative according to the function's own backward: the whole matrix if it is small,
    otherwise the diagonal if the function acts entry by entry. Raises NotDeclarable."""
    size, args = call.given.results.size, call.given.args
    if size <= ROWS and size * sum(a.size for a in args.values()) <= ENTRIES:
        rows = [call.pull(row) for row in np.eye(size)]
        return {
            name: np.stack([_filled(row[place], arg) for row in rows])
            for place, (name, arg) in enumerate(args.items())
            if any(row[place] is not None for row in rows)
        }
    diagonal = call.pull(np.ones(size))
    slopes = {n: g for n, g in zip(args, diagonal, strict=True) if g is not None}
    rng = generator(size, 31)
    for _ in range(DRAWS):
        along = signs(rng, size)
        for name, gradient in zip(args, call.pull(along), strict=True):
            if gradient is None and name not in slopes:
                continue
            slope = slopes.get(name)
            if slope is None or gradient is None or slope.size != size:
                raise _too_large(design, size)
            scale = SAME * np.max(np.abs(slope), initial=0.0)
            if not np.all(np.abs(gradient.reshape(-1) - along * slope.reshape(-1)) <= scale):
                raise _too_large(design, size)
    return {name: slope.reshape(-1) for name, slope in slopes.items()}


def _filled(gradient: Array | None, arg: Array) -> Array:
    return np.zeros(arg.size) if gradient is None else gradient.reshape(-1)


def _too_large(design: ByDesign, size: int) -> NotDeclarable:
    return NotDeclarable(
        design,
        f"has {size} results, too many for its whole derivative: give it a `surrogate`, or check "
        "it with fewer numbers",
    )
