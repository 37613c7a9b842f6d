"""Casts to narrower dtypes in a PyTorch layer: where they are, and the layer without them.

A dispatch mode sees every operation below autograd, including those of `torch.autocast` and of
derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from gradcheck_cli.engines.layer.casts import Cast, History, Watch, is_narrower, narrowest
from gradcheck_cli.engines.layer.custom import Passes
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.torch.calls import written_positions
from gradcheck_cli.engines.torch.dispatch import WATCHER, OperationMode

_WIDE = {
    **dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64),
    **dict.fromkeys((torch.complex64, torch.complex32), torch.complex128),
}
_NAMES = {
    **{getattr(torch, name): name for name in ("float64", "float32", "float16", "bfloat16")},
    **{torch.complex128: "float64", torch.complex64: "float32", torch.complex32: "float16"},
}
_BITS = "aten::view.dtype"  # the same memory read as other numbers


class _Watching(OperationMode):
    """Follows the numbers that depend on tensors that require gradients and, in a backward pass,
    all numbers."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.casts = Watch(dtype)
        self._places = Places(__name__, WATCHER)
        self._followed = WeakIdKeyDictionary()  # tensor -> History

    def operation(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        result = func(*args, **kwargs)
        floats = [x for x in _floats((args, kwargs)) if self._follows(x)]
        if floats:
            history: History = frozenset().union(*(self.history(x) or () for x in floats))
            before = narrowest(_NAMES[x.dtype] for x in floats)
            made = _floats(result)
            for y in made:
                self._note(y, history)
                if is_narrower(_NAMES[y.dtype], before):
                    name = func.__name__.partition(".")[0].lstrip("_")
                    place = self._places.running()
                    self._note(y, self.casts.narrowed(_NAMES[y.dtype], name, place))
            if not made:
                self.casts.leaves(history)
        return result

    def history(self, tensor: Any) -> History | None:
        """The casts that the tensor depends on, or None if it was not followed."""
        return self._followed.get(tensor)

    def _note(self, tensor: Any, history: History) -> None:
        """Add to the history of a tensor and of its base: writing to a view changes the base."""
        for owner in (tensor, tensor._base):
            if owner is not None:
                self._followed[owner] = history | self._followed.get(owner, frozenset())

    def _follows(self, tensor: Any) -> bool:
        return self.casts.backward or tensor.requires_grad or tensor in self._followed


class Uncast(OperationMode):
    """Computes everything that depends on float64 numbers in float64. An operation without inputs
    computes in its own dtype, and its result is widened."""

    def operation(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        floats = _floats((args, kwargs))
        if not floats:
            return tree_map(_widened, func(*args, **kwargs))
        if func._schema.name == _BITS or all(x.dtype in _WIDE for x in floats):
            return func(*args, **kwargs)
        kept = written_positions(func)
        named = {func._schema.arguments[i].name for i in kept}
        args = [x if i in kept else tree_map(_widened, x) for i, x in enumerate(args)]
        wide = {n: x if n in named else tree_map(_widened, x) for n, x in kwargs.items()}
        return func(*args, **wide)


def casts_in_passes(passes: Passes, dtype: str) -> tuple[Cast, ...]:
    """The casts in a forward and a backward pass in `dtype`."""
    with _Watching(dtype) as mode:
        mode.casts.end_forward([mode.history(y) for y in passes.call()])
        passes.pull()
    return mode.casts.found()


def _floats(tree: Any) -> list[Any]:
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor) and x.dtype in _NAMES]


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return _WIDE.get(value, value)
    if isinstance(value, torch.Tensor) and value.dtype in _WIDE:
        return value.to(_WIDE[value.dtype])
    return value
