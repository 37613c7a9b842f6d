"""What PyTorch itself composes an operation of, where the op table has no rows for it.

Recording imports PyTorch's table of decompositions when it meets the first such operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from gradcheck_cli.engines.torch.kernels import CHOSEN, DATA_MOVEMENT, KERNELS, RANDOM, ZEROS

_KNOWN = DATA_MOVEMENT.union(ZEROS, RANDOM, KERNELS, CHOSEN)
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


@cache
def composition(func: Any) -> Callable[..., Any] | None:
    """The operation as a function that runs others; None where it is to run by itself."""
    if not isinstance(func, torch._ops.OpOverload):
        return None
    if func.namespace == "prims":  # what decompositions call: each is an operation of ATen
        primitive: Callable[..., Any] = func.impl_aten
        return primitive
    name = func.overloadpacket.__name__
    if _KNOWN & {name, name.removesuffix("_")} or func.is_view:
        return None
    if func in _table():
        return _table()[func]
    return func.decompose if func.has_kernel_for_dispatch_key(_COMPOSITE) else None


@contextmanager
def unfused() -> Iterator[None]:
    """Inside the block, recurrent cells and attention run the operations that they consist of."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    fused = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch._C._set_mkldnn_enabled(fused)


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    import torch._refs  # noqa: F401 - fills the table
    from torch._decomp import decomposition_table

    table: dict[Any, Callable[..., Any]] = decomposition_table
    return table
