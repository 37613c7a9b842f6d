"""The gradients of a JAX layer without its bounds, found by evaluating its equations one by one.

Short loops run turn by turn, and a custom_vjp runs its forward. Equations inside branches and
inside a custom_jvp are not examined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.jax.walk import CALLS, CUSTOM_VJP, STOP, Walk
from gradcheck_cli.engines.jax.wide import Pure, bound, inner_of, scanned
from gradcheck_cli.engines.layer.bounds import BOUNDS, POLES, Bound, Bounds, lifted, word_of
from gradcheck_cli.engines.layer.custom import UnclippedGradients
from gradcheck_cli.engines.layer.source_lines import Places

OPENED = (*CALLS, CUSTOM_VJP)
"""Primitives whose inner equations are examined."""

MOST_TURNS = 64  # of a loop: JAX takes milliseconds to differentiate one equation in one turn


class _Numbered(Walk):
    """Numbers the equations; those of a loop have the same numbers in each turn. Shows every
    equation to `bounds`, or skips the bound `opened_bound`."""

    def __init__(
        self,
        call: Callable[..., list[Any]],
        arrays: Sequence[Any],
        bounds: Bounds | None = None,
        opened_bound: Bound | None = None,
    ) -> None:
        super().__init__(call, arrays, Places(__name__))
        self._bounds = bounds
        self._opened_bound = opened_bound
        self._serial = 0

    @property
    def may_find(self) -> bool:
        """Whether the layer has any operation that bounds and any that has a pole."""
        words = set(map(word_of, _names(self._closed)))
        return not words.isdisjoint(BOUNDS) and not words.isdisjoint(POLES)

    def _equation(self, equation: Any, place: Place | None, args: list[Any]) -> list[Any]:
        name = equation.primitive.name
        if name in OPENED:
            return self._run(inner_of(equation), place, *args)
        if _is_short(equation):
            return self._turns(equation.params, place, args)
        self._serial += 1
        results = bound(equation, args)
        if self._bounds is not None and name != STOP:
            self._bounds.operation(self._serial, name, args, results, lambda: place)
        if self._opened_bound is not None and self._serial == self._opened_bound.serial:
            return [args[self._opened_bound.which]]
        return results

    def _turns(self, params: Mapping[str, Any], place: Place | None, args: list[Any]) -> list[Any]:
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
        """The result, marked as depending on the bounds that its arguments depend on."""
        after = None if self._bounds is None else self._bounds.before(args)
        if self._bounds is not None and after is not None:
            self._bounds.follow([result], after)
        return result


def unclipped_gradients(layer: Pure, rows: Sequence[list[Any]]) -> list[UnclippedGradients]:
    """The gradients without each bound that keeps a number from a pole. `rows` has the cotangents
    of each backward pass."""
    bounds = Bounds(lambda x: (id(x),), lambda x: np.asarray(x, np.float64))
    seen = _Numbered(layer.call, layer.arrays, bounds)
    if not seen.may_find:
        return []
    bounds.follow(layer.moving)
    seen(*layer.arrays)

    def gradients(opened: Bound) -> dict[str, Array | None]:
        _, pull = layer.vjp(_Numbered(layer.call, layer.arrays, opened_bound=opened))
        passes = zip(*(pull(row) for row in rows), strict=True)
        return {
            name: np.stack([np.asarray(g).astype(np.float64).reshape(-1) for g in parts])
            for name, parts in zip(layer.wrt, passes, strict=True)
        }

    return lifted(bounds.found.values(), gradients)


def _names(closed: core.ClosedJaxpr) -> list[str]:
    """The primitives that the walk meets."""
    names: list[str] = []
    for equation in closed.jaxpr.eqns:
        name = equation.primitive.name
        if name in OPENED:
            names += _names(inner_of(equation))
        elif _is_short(equation):
            names += _names(equation.params["jaxpr"])
        else:
            names.append(name)
    return names


def _is_short(equation: Any) -> bool:
    """Whether the equation is a loop that runs turn by turn."""
    return bool(equation.primitive.name == "scan" and 0 < equation.params["length"] <= MOST_TURNS)
