"""Where a layer of TensorFlow keeps a number away from a pole, and its gradient if it did not.

Every operation of the forward pass is seen: those that bound a number are written down, and whether
an operation with a pole close by is given what comes of it. In a second run the bound is lifted:
the number goes on as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.custom import MOST_BOUNDS, NEAR_POLES, UnclippedGradients
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.tensorflow.casts import Run, around_operations, tensors
from gradcheck_cli.engines.tensorflow.state import numbers

BOUNDS = frozenset(["Maximum", "Minimum", "ClipByValue"])
POLES: Mapping[str, tuple[tuple[int, float], ...]] = {
    **dict.fromkeys(["Log", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Pow"], ((0, 0.0),)),
    **dict.fromkeys(["Acos", "Asin", "Atanh"], ((0, 1.0), (0, -1.0))),
    "Acosh": ((0, 1.0),),
    **dict.fromkeys(["RealDiv", "Div", "DivNoNan", "Xlogy", "Xdivy"], ((1, 0.0),)),
    "Log1p": ((0, -1.0),),
}
"""Which argument of an operation has a pole or a vertical tangent, and where."""


@dataclass(eq=False, slots=True)
class _Bound:
    """One operation that holds back some entries of its argument `which`."""

    serial: int
    which: int
    place: Place
    beyond: Any
    pole: str = ""


class _Bounds:
    """Numbers the operations that bound; writes them down, or lifts one of them. `followed` are
    what the layer is differentiated with respect to."""

    def __init__(self, followed: Sequence[Any], lifted: _Bound | None = None) -> None:
        self._lifted = lifted
        self._serial = 0
        self._places = Places(__name__, around_operations.__module__)
        self._kept: list[Any] = []  # a tensor's own number is given again when it is gone
        self._moving = _ids(followed)
        self._after: dict[int, frozenset[_Bound]] = {}
        self.found: list[_Bound] = []

    def handle(self, name: str, inputs: Sequence[Any], attributes: Sequence[Any], run: Run) -> Any:
        result = run(inputs, attributes)
        self._serial += name in BOUNDS
        if self._lifted is None:
            self._seen(name, inputs, result)
        elif name in BOUNDS and self._serial == self._lifted.serial:
            return tf.where(self._lifted.beyond, inputs[self._lifted.which], result)
        return result

    def _seen(self, name: str, inputs: Sequence[Any], result: Any) -> None:
        moving = [i for i, x in enumerate(inputs) if not self._moving.isdisjoint(_ids([x]))]
        if not moving or name == "StopGradient":
            return
        after = frozenset(b for number in _ids(inputs) for b in self._after.get(number, ()))
        for which, at in POLES.get(name, ()):
            bounds = [b for number in _ids([inputs[which]]) for b in self._after.get(number, ())]
            off = np.abs(numbers(inputs[which]) - at) if bounds else np.zeros(0)
            if np.any((off > 0) & (off <= NEAR_POLES)):
                for bound in bounds:
                    bound.pole = bound.pole or name.lower()
        if name in BOUNDS and len(moving) == 1 and inputs[moving[0]].shape == result.shape:
            beyond = numbers(inputs[moving[0]]) != numbers(result)
            place = self._places.running()
            if place is not None and np.any(beyond):
                self.found.append(_Bound(self._serial, moving[0], place, beyond))
                after |= {self.found[-1]}
        self._kept.append(result)
        self._moving.update(_ids([result]))
        self._after.update((number, after) for number in _ids([result]))


def unclipped_gradients(
    followed: Sequence[Any], forward: Callable[[], Any], run: Callable[[], Mapping[str, Any]]
) -> list[UnclippedGradients]:
    """The gradients with each bound lifted that stands by a pole. `forward` makes a forward pass
    of what is `followed`; `run` one with backward passes, and gives the gradients by leaf."""
    seen = _Bounds(followed)
    with around_operations(seen.handle):
        forward()
    found = []
    for bound in [one for one in seen.found if one.pole][:MOST_BOUNDS]:
        with around_operations(_Bounds((), bound).handle):
            found.append(UnclippedGradients(bound.pole, bound.place, run()))
    return found


def _ids(arrays: Sequence[Any]) -> set[int]:
    return {x._id for x in tensors(arrays)}
