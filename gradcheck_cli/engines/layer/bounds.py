"""Finds where a layer keeps a number away from a pole, and its gradient without that bound.

Operations that bound a number are recorded, and so is whether the result goes to an operation with
a pole nearby. A second run leaves the bound out, and the number passes unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, ValuesOrNone
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import Step
from gradcheck_cli.engines.layer.custom import UnclippedGradients

BOUNDS = frozenset(
    ["clamp", "clip", "clamp_min", "clamp_max", "clipbyvalue", "maximum", "minimum", "max", "min"]
)
"""Operations that bound a number, by their words in all frameworks."""


def _with_pole(names: str, *poles: tuple[int, float]) -> dict[str, tuple[tuple[int, float], ...]]:
    return dict.fromkeys(names.split(), poles)


POLES: Mapping[str, tuple[tuple[int, float], ...]] = {
    **_with_pole("log log2 log10 sqrt rsqrt cbrt reciprocal inv rdiv rtruediv", (0, 0.0)),
    **_with_pole("pow integer_pow", (0, 0.0)),
    **_with_pole("acos arccos asin arcsin atanh arctanh", (0, 1.0), (0, -1.0)),
    **_with_pole("acosh arccosh", (0, 1.0)),
    **_with_pole("div divide true_divide truediv realdiv divnonan xlogy xdivy", (1, 0.0)),
    **_with_pole("log1p", (0, -1.0)),
    **_with_pole("logit binary_cross_entropy", (0, 0.0), (0, 1.0)),
}
"""Which argument of an operation has a pole or a vertical tangent, and where."""

NEAR_POLES: Step = 2.0**-9
"""How far from a pole a bound stands that is there for its sake. An epsilon is written as 1e-3 or
smaller; a floor of 1e-2 is a choice."""

MOST_BOUNDS = 16  # that are lifted, each in a run of its own


def word_of(name: str) -> str:
    """The name of an operation in these tables."""
    return name.strip("_").lower()


@dataclass(eq=False, slots=True)
class Bound:
    """The operation with this number, which limits some entries of its argument `which`."""

    serial: int
    which: int
    place: Place
    pole: str = ""


class Bounds:
    """Follows the differentiated leaves of a layer through its operations. `keys` are the numbers
    by which a framework identifies an array, `numbers` are its contents."""

    def __init__(
        self, keys: Callable[[Any], Collection[int]], numbers: Callable[[Any], Array]
    ) -> None:
        self._keys = keys
        self._numbers = numbers
        self._kept: list[Any] = []  # the key of an array is given again when it is gone
        self._after: dict[int, frozenset[Bound]] = {}  # of what moves, the bounds before it
        self.found: dict[int, Bound] = {}

    def follow(self, arrays: Iterable[Any], after: frozenset[Bound] = frozenset()) -> None:
        """Follows these arrays from now on."""
        for array in arrays:
            self._kept.append(array)
            self._after.update(dict.fromkeys(self._keys(array), after))

    def before(self, args: Iterable[Any]) -> frozenset[Bound] | None:
        """The bounds that these arrays passed, or None if none of them is followed."""
        keys = [key for x in args for key in self._keys(x) if key in self._after]
        return frozenset().union(*(self._after[key] for key in keys)) if keys else None

    def operation(
        self,
        serial: int,
        name: str,
        args: Sequence[Any],
        results: Sequence[Any],
        place: Callable[[], Place | None],
    ) -> None:
        """Notes an operation of the run, at this place in the user's code."""
        word, after = word_of(name), self.before(args)
        if after is None:
            return
        for which, at in POLES.get(word, ()):
            bounds = self.before([args[which]])
            if bounds and is_near(self._numbers(args[which]), at):
                for bound in bounds:
                    bound.pole = bound.pole or word
        moving = [i for i, x in enumerate(args) if self.before([x]) is not None]
        if word in BOUNDS and len(moving) == 1 and args[moving[0]].shape == results[0].shape:
            beyond = self._numbers(args[moving[0]]) != self._numbers(results[0])
            where = place() if np.any(beyond) else None
            if where is not None:
                after |= {self.found.setdefault(serial, Bound(serial, moving[0], where))}
        self.follow(results, after)


def is_near(numbers: Array, pole: float) -> bool:
    """Whether some of the numbers are close to a pole, but not at it."""
    off = np.abs(numbers - pole)
    return bool(np.any((off > 0) & (off <= NEAR_POLES)))


def lifted(
    bounds: Iterable[Bound], gradients: Callable[[Bound], ValuesOrNone | None]
) -> list[UnclippedGradients]:
    """Each bound next to a pole, with the `gradients` (k, n) by leaf of the layer without it.
    Bounds without which the layer does not run (None) are left out."""
    by_poles = [bound for bound in bounds if bound.pole][:MOST_BOUNDS]
    found = [(one, gradients(one)) for one in by_poles]
    return [UnclippedGradients(one.pole, one.place, g) for one, g in found if g is not None]
