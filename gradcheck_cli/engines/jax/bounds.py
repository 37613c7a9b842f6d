"""Where a layer of JAX keeps a number away from a pole, and its gradient if it did not.

The layer's equations are evaluated one by one: those that bound a number are written down, and
whether an operation with a pole close by is given what comes of it. In a second run the bound is
lifted: the number goes on as it was. Short loops run turn by turn, and the forward of a custom_vjp
stands for it. Equations of branches and of a custom_jvp are not looked into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.jax.walk import CALLS, CUSTOM_VJP, STOP, Walk
from gradcheck_cli.engines.jax.wide import Pure, bound, inner_of, scanned
from gradcheck_cli.engines.layer.custom import MOST_BOUNDS, NEAR_POLES, UnclippedGradients
from gradcheck_cli.engines.layer.source_lines import Places

BOUNDS = frozenset(["max", "min", "clamp"])
OPENED = (*CALLS, CUSTOM_VJP)
"""Primitives whose equations are looked into."""
POLES: Mapping[str, tuple[tuple[int, float], ...]] = {
    **dict.fromkeys(["log", "sqrt", "rsqrt", "cbrt", "integer_pow", "pow"], ((0, 0.0),)),
    **dict.fromkeys(["acos", "asin", "atanh"], ((0, 1.0), (0, -1.0))),
    "acosh": ((0, 1.0),),
    "div": ((1, 0.0),),
    "log1p": ((0, -1.0),),
}
"""Which argument of a primitive has a pole or a vertical tangent, and where."""

MOST_TURNS = 64  # of a loop: JAX takes some milliseconds to differentiate an equation of a turn


@dataclass(eq=False, slots=True)
class _Bound:
    """One equation, in all turns of a loop, that holds back some entries of its argument
    `which`."""

    serial: int
    which: int
    place: Place
    pole: str = ""


class _Bounds(Walk):
    """Numbers the equations; writes down those that bound, or lifts one of them."""

    def __init__(
        self, call: Callable[..., list[Any]], arrays: Sequence[Any], lifted: _Bound | None = None
    ) -> None:
        super().__init__(call, arrays, Places(__name__))
        self._lifted = lifted
        self._serial = 0
        self._kept: list[Any] = []  # so that no two arrays are known by the same number
        self._moving: set[int] = set()
        self._after: dict[int, frozenset[_Bound]] = {}
        self.found: dict[int, _Bound] = {}

    @property
    def may_find(self) -> bool:
        """Whether there is anything of the kind in the layer."""
        names = set(_names(self._closed))
        return not names.isdisjoint(BOUNDS) and not names.isdisjoint(POLES)

    def follow(self, arrays: Sequence[Any]) -> None:
        """These are what the layer is differentiated with respect to."""
        self._kept += arrays
        self._moving.update(map(id, arrays))

    def _equation(self, equation: Any, place: Place | None, args: list[Any]) -> list[Any]:
        name = equation.primitive.name
        if name in OPENED:
            return self._run(inner_of(equation), place, *args)
        if _is_short(equation):
            return self._turns(equation.params, place, args)
        self._serial += 1
        results = bound(equation, args)
        if self._lifted is None:
            self._seen(name, place, args, results)
        elif self._serial == self._lifted.serial:
            return [jax.numpy.broadcast_to(args[self._lifted.which], results[0].shape)]
        return results

    def _turns(self, params: Mapping[str, Any], place: Place | None, args: list[Any]) -> list[Any]:
        """A scan; its equations have the same numbers in each turn."""
        first = self._serial

        def run(_: int, program: Any, given: list[Any]) -> list[Any]:
            self._serial = first
            return self._run(program, place, *given)

        return scanned(
            params,
            args,
            run,
            lambda row, turn: self._handed_on([row], row[turn]),
            lambda rows, _: self._handed_on(rows, jax.numpy.stack(rows)),
        )

    def _handed_on(self, args: Sequence[Any], result: Any) -> Any:
        """The result, which moves where an argument does, after the bounds of these."""
        if any(id(x) in self._moving for x in args):
            self.follow([result])
            self._after[id(result)] = self._bounds_of(args)
        return result

    def _bounds_of(self, args: Sequence[Any]) -> frozenset[_Bound]:
        return frozenset().union(*(self._after.get(id(x), ()) for x in args))

    def _seen(self, name: str, place: Place | None, args: list[Any], results: list[Any]) -> None:
        moving = [i for i, x in enumerate(args) if id(x) in self._moving]
        if not moving or name == STOP:
            return
        after = self._bounds_of(args)
        for which, at in POLES.get(name, ()):
            off = np.abs(np.asarray(args[which], np.float64) - at)
            if np.any((off > 0) & (off <= NEAR_POLES)):
                for bound in self._after.get(id(args[which]), ()):
                    bound.pole = bound.pole or name
        if name in BOUNDS and len(moving) == 1 and place is not None:
            (which,) = moving
            if np.any(np.asarray(args[which] != results[0])):
                known = _Bound(self._serial, which, place)
                after |= {self.found.setdefault(self._serial, known)}
        self.follow(results)
        self._after.update((id(y), after) for y in results)


def unclipped_gradients(layer: Pure, rows: Sequence[list[Any]]) -> list[UnclippedGradients]:
    """The gradients with each bound lifted that stands by a pole; `rows` has the cotangents of each
    backward pass."""
    seen = _Bounds(layer.call, layer.arrays)
    if not seen.may_find:
        return []
    seen.follow(layer.moving)
    seen(*layer.arrays)
    found = []
    for lifted in [one for one in seen.found.values() if one.pole][:MOST_BOUNDS]:
        _, pull = layer.vjp(_Bounds(layer.call, layer.arrays, lifted))
        passes = zip(*(pull(row) for row in rows), strict=True)
        gradients = {
            name: np.stack([np.asarray(g).astype(np.float64).reshape(-1) for g in parts])
            for name, parts in zip(layer.wrt, passes, strict=True)
        }
        found.append(UnclippedGradients(lifted.pole, lifted.place, gradients))
    return found


def _names(closed: core.ClosedJaxpr) -> list[str]:
    """The primitives that the walk meets."""
    found: list[str] = []
    for equation in closed.jaxpr.eqns:
        name = equation.primitive.name
        if name in OPENED:
            found += _names(inner_of(equation))
        elif _is_short(equation):
            found += _names(equation.params["jaxpr"])
        else:
            found.append(name)
    return found


def _is_short(equation: Any) -> bool:
    """Whether it is a loop that runs turn by turn."""
    return bool(equation.primitive.name == "scan" and 0 < equation.params["length"] <= MOST_TURNS)
