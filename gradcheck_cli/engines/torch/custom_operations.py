"""Operations of `torch.library` in forward mode.

An operation may have a derivative for reverse mode only. PyTorch makes this derivative an
`autograd.Function`, which refuses tangents, but calls that Function only if an argument requires a
gradient. Otherwise the operation runs on the primals, and the tangent is lost without an error.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gradcheck_cli.engines.temporarily import temporarily

_HOME = "torch._library.autograd"  # as of PyTorch 2.4


def custom_operations_refusing() -> AbstractContextManager[None]:
    """Make these operations refuse tangents, as their Functions do, at levels of dual numbers
    inside the block."""
    home = sys.modules.get(_HOME)
    return nullcontext() if home is None else temporarily(home, _C=_Asked(home._C))


class _Asked:
    """Stands in for `torch._C` when an operation asks whether a derivative is wanted."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def is_grad_enabled(self) -> bool:
        return True  # `torch.no_grad()` does not stop tangents

    def _any_requires_grad(self, *arguments: Any) -> bool:
        wanted = self._own.is_grad_enabled() and self._own._any_requires_grad(*arguments)
        return wanted or _have_tangents(arguments)


def _have_tangents(arguments: Any) -> bool:
    import torch
    from torch.autograd import forward_ad

    if isinstance(arguments, list | tuple):
        return any(map(_have_tangents, arguments))
    is_tensor = isinstance(arguments, torch.Tensor)
    return is_tensor and forward_ad.unpack_dual(arguments).tangent is not None
