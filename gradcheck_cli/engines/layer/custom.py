"""Calls inside a layer that are not differentiated like other operations: functions with a custom
derivative, and calls that detach a value. The records of searches for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from gradcheck_cli.domain.dtypes import Values, ValuesOrNone
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import CauseKind

Path = tuple[int | str, ...]
"""Numbers and names that lead to a part of nested tuples, lists, dictionaries and named tuples."""

MOST_CALLS = 256  # that are kept; a layer that calls one function in a long loop has more


class IsolatedCall:
    """`call(*args)`, a call of the run in which only the arguments at these `places` can change. An
    array that was given twice is given twice again.

    It has no attributes, so that its arguments cannot be mistaken for captured objects. `captured`
    are those that its gradient is taken of, too, as the engine describes them.
    """

    __slots__ = ("__name__", "_call", "captured")

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        args: Sequence[Any],
        places: Sequence[int],
        captured: Sequence[Any] = (),
    ) -> None:
        def isolated(arrays: Sequence[Any]) -> Any:
            filled = list(args)
            for place, array in zip(places, arrays, strict=True):
                for same in (i for i, one in enumerate(args) if one is args[place]):
                    filled[same] = array
            return call(*filled)

        self._call = isolated
        self.captured = captured
        self.__name__ = name

    def __call__(self, *arrays: Any) -> Any:
        return self._call(arrays)


@dataclass(frozen=True, slots=True)
class CustomCall:
    """One call. `live` can be called with arrays of the framework in the place of `values`, and is
    differentiated as the user stated; what else the call was given is in it. None: the layer itself
    is this function, and nothing else.

    values     its floating arguments as they were in the run, by the names of the forward
    complex_values   those of them that are complex: their parts are along the last axis
    moving     those of them that are differentiated
    reaches    the layer's leaves whose gradients pass through it
    through    which of those leaves each of `values` depends on, where that is known
    positions  where the backward returns the gradient of each of them: `(0, "w")` is the entry "w"
               of the first part of what it returns
    backward   the user's function that states the derivative, where it is known
    jvp        the same for forward mode
    tangent    where that returns the tangent
    terms      the user's functions that state one summand of the jvp each, by argument
               (`jax.custom_jvp.defjvps`)
    place      the line of the call
    once       the framework was asked to refuse derivatives of the backward
    lone_jvp   the framework runs its jvp without an outer forward mode
    saves      where it keeps a value of its forward that is neither an input nor an output, and so
               has no derivative
    broken     how the functions that it was given break what its derivative relies on
    stops      where it takes a value out of the graph, in its forward or in its rule, by the mode
               of that rule
    """

    name: str
    live: Any
    values: Values
    moving: tuple[str, ...]
    reaches: frozenset[str]
    positions: Mapping[str, Path]
    backward: Any = None
    jvp: Any = None
    tangent: Path = ()
    terms: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = None
    once: bool = False
    lone_jvp: bool = False
    saves: Place | None = None
    through: Mapping[str, frozenset[str]] = field(default_factory=dict)
    broken: str | None = None
    stops: Mapping[Mode, Place | None] = field(default_factory=dict)
    complex_values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """The derivative of a function as the user wrote it: the part of what `function` returns that
    `path` leads to. `moving` are the differentiated arguments; a vjp is the derivative
    with respect to the one called `name`. `line` is where it returned in a run, if known."""

    function: Any
    path: Path
    is_jvp: bool
    name: str
    moving: tuple[str, ...]
    line: int | None = None


@dataclass(frozen=True, slots=True)
class GradientBarrier:
    """A call that detaches a value, a hook that may change a gradient, or a part of the forward
    that the backward runs once more, as `kind` says. `name` is the user's code for it ("detach()");
    empty where numbers become arrays of the framework.

    `gradients` are those of the layer without it, (n,) by leaf (None: no gradient); None if that is
    impossible. `overwrites`: without the call, the framework would notice that a value needed by
    the derivative is overwritten.
    """

    name: str
    place: Place
    gradients: ValuesOrNone | None
    overwrites: bool = False
    kind: CauseKind = "detached path"


@dataclass(frozen=True, slots=True)
class Lines:
    """Where a forward and a backward pass do what leaves no trace in their numbers.

    writes    the first write to a leaf, by its name
    upstream  the first write to a cotangent
    draws     the first random number
    redraws   the first random number that the backward pass draws, or else the forward that draws
              it, if the backward pass runs that once more
    """

    writes: Mapping[str, Place] = field(default_factory=dict)
    upstream: Place | None = None
    draws: Place | None = None
    redraws: Place | None = None


MOST_CUTS = 16  # that are let through, each in a run of its own


@dataclass(frozen=True, slots=True)
class UnclippedGradients:
    """A bound that keeps a number away from the `pole` of an operation, and the `gradients` (k, n)
    by leaf (None: no gradient) of the layer without the bound."""

    pole: str
    place: Place
    gradients: ValuesOrNone


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """A layer that is ready to run without a graph: `call` makes the forward pass and returns its
    floating outputs. `leaves` are the arrays of the framework that it is called with."""

    leaves: Mapping[str, Any]
    call: Callable[[], list[Any]]


@dataclass(frozen=True, slots=True)
class Passes:
    """A layer that is ready to run: `call` makes the forward pass and returns its floating outputs,
    `pull` makes the backward pass of the last call and returns a gradient (or None) for each of
    `wrt`. `leaves` are the arrays of the framework that it starts from. `reached` names those of
    `wrt` that given arrays depend on, for frameworks whose graph does not show it."""

    leaves: Mapping[str, Any]
    wrt: Sequence[str]
    call: Callable[[], list[Any]]
    pull: Callable[[], list[Any]]
    reached: Callable[[Sequence[Any]], frozenset[str]] | None = None
