"""Where a layer of PyTorch keeps a number away from a pole, and its gradient if it did not.

A function mode sees the calls that bound a number, and whether an operation with a pole close by is
given what comes of it. In a second run the bound is lifted: the number goes on as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer.custom import MOST_BOUNDS, NEAR_POLES, UnclippedGradients
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.torch.custom_functions import below
from gradcheck_cli.engines.torch.detached import asks, in_a_function

BOUNDS = frozenset(
    ["clamp", "clip", "clamp_min", "clamp_max", "maximum", "minimum", "max", "min", "clamp_"]
)
POLES: Mapping[str, tuple[tuple[int, float], ...]] = {
    **dict.fromkeys(["log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"], ((0, 0.0),)),
    **dict.fromkeys(["acos", "arccos", "asin", "arcsin"], ((0, 1.0), (0, -1.0))),
    **dict.fromkeys(["atanh", "arctanh"], ((0, 1.0), (0, -1.0))),
    **dict.fromkeys(["acosh", "arccosh"], ((0, 1.0),)),
    **dict.fromkeys(["div", "divide", "true_divide", "__truediv__", "xlogy"], ((1, 0.0),)),
    **dict.fromkeys(["pow", "__pow__", "__rtruediv__", "__rdiv__"], ((0, 0.0),)),
    "log1p": ((0, -1.0),),
    **dict.fromkeys(["logit", "binary_cross_entropy"], ((0, 0.0), (0, 1.0))),
}
"""Which argument of an operation has a pole or a vertical tangent, and where."""


class _Bound:
    """One call that holds back some entries of its argument."""

    def __init__(self, serial: int, place: Place, result: Any, beyond: Any) -> None:
        self.serial = serial
        self.place = place
        self.node = result.grad_fn
        self.beyond = beyond
        self.pole = ""


class _Mode(TorchFunctionMode):  # type: ignore[misc]
    """Numbers the calls; writes down those that bound, or lifts the one with the number
    `opened`."""

    def __init__(self, opened: _Bound | None = None) -> None:
        super().__init__()
        self._opened = opened
        self._serial = 0
        self._places = Places(__name__)
        self.bounds: list[_Bound] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._serial += 1
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        result = func(*args, **kwargs)
        if self._opened is not None:
            if self._serial == self._opened.serial:
                return torch.where(self._opened.beyond, args[0], result)
            return result
        if name in BOUNDS:
            self._bounded(args, kwargs, result)
        elif name in POLES and self.bounds:
            self._by_a_pole(name, args)
        return result

    def _bounded(self, args: Any, kwargs: Any, result: Any) -> None:
        asking = [a for a in tree_leaves((args, kwargs)) if asks(a)]
        if len(asking) != 1 or not asks(result) or in_a_function():
            return
        (number,) = asking
        if args and number is args[0] and number.shape == result.shape:
            beyond, place = (number != result).detach(), self._places.running()
            if place is not None and bool(beyond.any()):
                self.bounds.append(_Bound(self._serial, place, result, beyond))

    def _by_a_pole(self, name: str, args: Any) -> None:
        for which, at in POLES[name]:
            value: Any = args[which] if which < len(args) else None
            if not asks(value) or value.grad_fn is None:
                continue
            off = (value.detach() - at).abs()
            if not bool(((off > 0) & (off <= NEAR_POLES)).any()):
                continue
            above = set(below([value.grad_fn]))
            for bound in self.bounds:
                if bound.node in above:
                    bound.pole = bound.pole or name.strip("_")


def unclipped_gradients(run: Callable[[], Mapping[str, Any]]) -> list[UnclippedGradients]:
    """The gradients with each bound lifted that stands by a pole. `run` makes a forward pass and
    backward passes, and gives the gradients by leaf."""
    with _Mode() as seen:
        run()
    found = []
    for bound in [one for one in seen.bounds if one.pole][:MOST_BOUNDS]:
        try:
            with _Mode(bound):
                found.append(UnclippedGradients(bound.pole, bound.place, run()))
        except RuntimeError:  # it does not run without the bound: nothing is known
            continue
    return found
