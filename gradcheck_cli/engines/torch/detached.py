"""Where a PyTorch layer takes a value out of autograd's graph, and what its gradient would be
otherwise.

A function mode sees every call above autograd, with the `requires_grad` of arguments and results. A
second run lets one of these calls through: it returns its argument unchanged. Outputs that an
`autograd.Function` marks as not differentiable cannot be let through.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from types import FrameType
from typing import Any

import torch
from torch.autograd.function import FunctionCtx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import CauseKind
from gradcheck_cli.engines.layer.custom import MOST_CUTS, GradientBarrier
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.torch.hooks import Hook, saving
from gradcheck_cli.engines.torch.recomputed import RECOMPUTED, recomputing

_DATA = torch.Tensor.data.__get__
_SWITCH = torch._C._set_grad_enabled  # the mode sees it as a call
_NO_GRAD = "torch.no_grad()"
HOOK = "register_hook()"
HOOKED: CauseKind = "gradient hook"
_MARK = "mark_non_differentiable()"
_SAVED = "saved_tensors_hooks()"
_MADE_NEW = ("_like", "new_")  # calls that take a shape from a tensor, but no numbers
_AFTER_ANOTHER = ("to", "type_as", "view_as", "expand_as", "reshape_as")  # of their first argument
AS_NUMBERS = ("item", "tolist", "numpy", "__float__", "__array__")
CUTS = ("detach", "detach_", "data", "no_grad", *AS_NUMBERS)


@dataclass(slots=True)
class _Cut:
    """The calls on one line that take a value out of the graph. `serials` are their numbers among
    all calls."""

    name: str
    place: Place
    serials: set[int] = field(default_factory=set)


class _Mode(TorchFunctionMode):  # type: ignore[misc]
    """Numbers the calls. Records those that take a value out of the graph, or lets the calls of
    `opened` through."""

    def __init__(self, opened: _Cut | None = None) -> None:
        super().__init__()
        self._opened = opened
        self._serial = 0
        self._places = Places(__name__)
        self.cuts: dict[tuple[str, Place | None], _Cut] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._serial += 1
        serial, kwargs = self._serial, kwargs or {}
        opened = self._opened
        if opened is None:
            numbers = args[:1] if name_of(func) in _AFTER_ANOTHER else (args, kwargs)
            asking = any(map(asks, tree_leaves(numbers)))
            result = func(*args, **kwargs)
            if asking:
                self._look(serial, func, result)
            return result
        if func is not _SWITCH and self._is_lifted(opened):
            with torch.enable_grad():
                return func(*args, **kwargs)
        if serial in opened.serials and args:
            if opened.name == HOOK:
                return func(args[0], lambda gradient: None)
            return args[0]
        return func(*args, **kwargs)

    @staticmethod
    def _is_lifted(opened: _Cut) -> bool:
        return opened.name == _NO_GRAD and not torch.is_grad_enabled() and not in_a_function()

    def _look(self, serial: int, func: Any, result: Any) -> None:
        name = name_of(func)
        if name is None or not (name == HOOK or is_cut(name, result)):
            return
        if not torch.is_grad_enabled() and name not in ("detach()", "data"):
            if in_a_function():
                return
            name = _NO_GRAD
        place = self._places.running()
        if place is None:  # not in the user's code
            return
        key = name, None if name == _NO_GRAD else place
        self.cuts.setdefault(key, _Cut(name, place)).serials.add(serial)


def uncut(
    run: Callable[[], Mapping[str, Any]], hooks: Sequence[Hook]
) -> tuple[Mapping[str, Any], list[GradientBarrier]]:
    """The gradients as they are, and with each cut let through, each hook left out and each part of
    the forward run only once in turn. `run` makes a forward and a backward pass, and returns the
    gradients by leaf. `hooks` are those that are there before."""
    places = Places(__name__)
    marks: dict[Place | None, None] = {}
    again: dict[Place, bool] = {}
    saved: dict[Place, bool] = {}
    with (
        _Mode() as seen,
        marking(lambda _: marks.setdefault(places.running())),
        recomputing(lambda place: again.setdefault(place, True)),
        saving(lambda place: saved.setdefault(place, True)),
    ):
        plain = run()
    barriers = []

    def without(
        name: str, place: Place, kind: CauseKind, inside: AbstractContextManager[Any] | None
    ) -> None:
        gradients, overwrites = None, False
        if inside is not None:
            try:
                with inside:
                    gradients = run()
            except Exception as error:  # such as a write to a saved value or to a leaf
                overwrites = "modified by an inplace operation" in str(error)
        barriers.append(GradientBarrier(name, place, gradients, overwrites, kind))

    for place in list(again)[:MOST_CUTS]:
        without(RECOMPUTED, place, "recomputed forward", recomputing(place.__ne__))
    for cut in list(seen.cuts.values())[:MOST_CUTS]:
        opened = _Mode(cut) if cut.name in ("detach()", "data", _NO_GRAD, HOOK) else None
        without(cut.name, cut.place, HOOKED if cut.name == HOOK else "detached path", opened)
    for place in list(saved)[:MOST_CUTS]:
        without(_SAVED, place, HOOKED, saving(place.__ne__))
    for hook in hooks[:MOST_CUTS]:
        if hook.place is not None:
            without(HOOK, hook.place, HOOKED, hook.removed())
    for marked in filter(None, marks):
        without(_MARK, marked, "detached path", None)
    return plain, barriers


@contextmanager
def marking(meet: Callable[[Any], None]) -> Iterator[None]:
    """Inside the block, `meet` is told each floating tensor that the forward of an
    `autograd.Function` marks as not differentiable."""
    mark = FunctionCtx.mark_non_differentiable

    def told(ctx: Any, *tensors: Any) -> None:
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                meet(tensor)
        mark(ctx, *tensors)

    with temporarily(FunctionCtx, mark_non_differentiable=told):
        yield


def asks(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def name_of(func: Any) -> str | None:
    """The call in the user's words if it can take a value out of the graph, or None."""
    if func == _DATA:
        return "data"
    name = getattr(func, "__name__", "")
    if name == "register_hook":
        return HOOK
    if name in ("detach", "detach_", *AS_NUMBERS):
        return "detach()" if name == "detach" else f"{name}()"
    if name == "__get__" or any(part in name for part in _MADE_NEW):
        return None
    return name


def is_cut(name: str, result: Any) -> bool:
    """Whether the result has floating numbers and none of them requires a gradient."""
    if name.removesuffix("()") in AS_NUMBERS:
        return True
    tensors = [y for y in tree_leaves(result) if isinstance(y, torch.Tensor)]
    return any(y.is_floating_point() for y in tensors) and not any(map(asks, tensors))


def in_a_function() -> bool:
    """Whether the forward or backward of an `autograd.Function` is running. These run outside the
    graph on purpose."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.autograd.function":
            return True
        frame = frame.f_back
    return False
