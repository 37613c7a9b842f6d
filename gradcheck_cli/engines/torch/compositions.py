"""PyTorch's own decompositions of operations for which the op table has no rows.

Recording imports PyTorch's table of decompositions when it meets the first of these operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, cast

import torch
from torch._library.custom_ops import OPDEFS
from torch.utils._pytree import tree_map_only

from gradcheck_cli.engines.torch.calls import tensors
from gradcheck_cli.engines.torch.kernels import (
    CHOICES,
    CHOSEN,
    DATA_MOVEMENT,
    FOURIER,
    KERNELS,
    RANDOM,
    ZEROS,
)

_KNOWN = DATA_MOVEMENT.union(ZEROS, RANDOM, CHOICES, KERNELS, CHOSEN)
_OF_PAIRS = DATA_MOVEMENT.union(ZEROS, RANDOM, FOURIER)
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def composition(func: Any, args: Any, kwargs: Any) -> Callable[..., Any] | None:
    """The operation as a function that runs other operations, or None if it must run as one: it has
    rows, or PyTorch has no decomposition."""
    arrays = list(tensors([args, *kwargs.values()]))
    if any(x.is_complex() for x in arrays):
        return _of_complex(func, all(type(x).__name__ != "ComplexTensor" for x in arrays))
    return _of_real(func) if any(x.is_floating_point() for x in arrays) else None


@cache
def _of_real(func: Any) -> Callable[..., Any] | None:
    if not isinstance(func, torch._ops.OpOverload):
        return None
    if func.namespace == "prims":  # called by decompositions; each equals an operation of ATen
        return cast(Callable[..., Any], func.impl_aten)
    name = func.overloadpacket.__name__
    if _KNOWN & {name, name.removesuffix("_")} or func.is_view:
        return None
    if func.has_kernel_for_dispatch_key(_COMPOSITE):
        return cast(Callable[..., Any], func.decompose)
    return _table().get(func)


@cache
def users_implementation(func: Any) -> Callable[..., Any] | None:
    """The Python function of an operator that was made with `torch.library.custom_op`."""
    if not isinstance(func, torch._ops.OpOverload):
        return None
    defined = OPDEFS.get(f"{func.namespace}::{func.overloadpacket.__name__}")
    if defined is None:
        return None
    functions: dict[str | None, Callable[..., Any]] = defined._backend_fns
    return functions.get(None, functions.get("cpu"))


@cache
def _of_complex(func: Any, interleaved: bool) -> Callable[..., Any] | None:
    """The operation on real and imaginary parts, by PyTorch's `ComplexTensor`. `interleaved` says
    that no argument is a `ComplexTensor` yet."""
    from torch._subclasses.complex_tensor import ComplexTensor
    from torch._subclasses.complex_tensor._ops.common import lookup_complex

    name = func.overloadpacket.__name__
    parts: Callable[..., Any] | None = lookup_complex(func)
    if not interleaved or parts is None:
        return parts
    if name in _OF_PAIRS or (func.is_view and name not in ("_conj", "_neg_view")):
        return None
    split = partial(
        tree_map_only,
        torch.Tensor,
        lambda x: ComplexTensor.from_interleaved(x) if x.is_complex() else x,
    )
    joined = partial(tree_map_only, ComplexTensor, ComplexTensor.as_interleaved)
    return lambda *args, **kwargs: joined(parts(*split(args), **split(kwargs)))


@contextmanager
def unfused() -> Iterator[None]:
    """Make recurrent cells and attention run the operations that they consist of inside the
    block."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    fast, fused = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(
        False
    )  # `mkldnn.flags` warns about settings that it does not change
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch._C._set_mkldnn_enabled(fused)
        torch.backends.mha.set_fastpath_enabled(fast)


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    import torch._refs  # noqa: F401 - fills the table
    from torch._decomp import decomposition_table

    return decomposition_table
