"""Makes PyTorch compute on a device, by PyTorch's own functions.

Several frameworks, each in its own process, share a device, so none may take more memory than it
needs. The settings apply to the whole process, and so does the context, which restores them at its
end. It raises EngineFault if the framework has no such device.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.engines.errors import EngineFault

Products: TypeAlias = tuple[Any, ...]
"""How PyTorch computes products."""


@contextmanager
def placed(placement: Placement) -> Iterator[None]:
    """Compute products of float32 matrices, and convolutions, in the requested precision inside the
    block. The device is passed to PyTorch with each array. Raises EngineFault if PyTorch has no
    such device."""
    import torch

    if placement.kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if placement.index >= count:
            built = torch.version.cuda
            why = f"is built for CUDA {built}" if built else "is built without CUDA"
            raise EngineFault(
                f"PyTorch {torch.__version__} {why} and finds {count} GPUs: "
                "https://pytorch.org/get-started says how to install it for yours"
            )
    full = placement.matmul == "full"
    with products_restored(torch), _convolutions(torch, tf32=not full):
        torch.set_float32_matmul_precision("highest" if full else "high")
        if full:  # also sum products of half precision in full
            for setting in _REDUCED:
                setattr(torch.backends.cuda.matmul, setting, False)
        yield


def _convolutions(torch: Any, tf32: bool) -> AbstractContextManager[None]:
    """Set cuDNN's precision by PyTorch's own context manager. This is the only way after
    `torch.backends.disable_global_flags()`, which PyTorch's test helpers call on import."""
    flags = torch.backends.cudnn.flags
    unchanged = dict.fromkeys(inspect.signature(flags).parameters)
    return flags(**{**unchanged, "allow_tf32": tf32})


_REDUCED = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")


@contextmanager
def products_restored(torch: Any) -> Iterator[None]:
    """Restore the settings of PyTorch's products at the end of the block."""
    before = products_of(torch)
    try:
        yield
    finally:
        put_products(torch, before)


def products_of(torch: Any) -> Products:
    """The settings of PyTorch's products."""
    matmul, tf32 = torch.backends.cuda.matmul, torch.backends.cudnn.allow_tf32
    reduced = [getattr(matmul, setting) for setting in _REDUCED]
    return _as_they_are(torch), _precision(torch), tf32, *reduced


def put_products(torch: Any, wanted: Products) -> None:
    """Restore the settings that `products_of` returned."""
    as_they_were, precision, tf32, *reduced = wanted
    now = products_of(torch) if as_they_were is None else _as_they_are(torch)
    if now not in (wanted, as_they_were):
        torch.set_float32_matmul_precision(precision or "highest")
        if torch.backends.cudnn.allow_tf32 != tf32:  # PyTorch may have frozen it at its old value
            torch.backends.cudnn.allow_tf32 = tf32
        for setting, value in zip(_REDUCED, reduced, strict=True):
            setattr(torch.backends.cuda.matmul, setting, value)


def _as_they_are(torch: Any) -> tuple[Any, ...] | None:
    """The same settings, read by the functions behind PyTorch's properties in a tenth of the time,
    because every call of a layer needs them. None if this version lacks these functions."""
    try:
        core = torch._C
        return (
            _precision(torch),
            core._get_cudnn_allow_tf32(),
            core._get_cublas_allow_fp16_reduced_precision_reduction(),
            core._get_cublas_allow_bf16_reduced_precision_reduction(),
        )
    except AttributeError:
        return None


def _precision(torch: Any) -> str | None:
    """The precision, or None if it was set in two ways, which PyTorch refuses to read."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return None
