"""The memory of tensors: how they are laid out, and whether they were written to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, aligned
from gradcheck_cli.engines.layer.subject import Layout

LARGE = 2**20  # bytes; a copy of fewer costs nothing
BLOCK = 64


def laid_out(torch: Any, tensor: Any, layout: Layout) -> Any:
    """The tensor with this memory layout. Returns a copy, unless a contiguous or transposed tensor
    has that layout already."""
    if layout == "transposed":
        first, last = range(tensor.dim())[:2], range(tensor.dim())[2:]
        outer, inner = (last, first) if last else (first[1:], first[:1])
        order = *outer, *inner  # N, C, H, W becomes H, W, N, C: channels last to kernels
        back = sorted(range(tensor.dim()), key=order.__getitem__)
        return contiguous(torch, tensor.permute(order)).permute(back)
    if layout == "sliced" and tensor.dim():
        *outer, last = tensor.shape
        inside = slice(1, None, 2) if not outer or tensor.nbytes <= LARGE else slice(1, None)
        wide = (*outer, 2 * last + 1 if inside.step else last + 1)
        around = _empty(torch, tensor, wide)
        gaps = slice(0, None, 2) if inside.step else slice(1)
        is_float = tensor.is_floating_point() or tensor.is_complex()
        around[..., gaps].fill_(math.nan if is_float else torch.tensor(math.nan).to(tensor))
        return around[..., inside].copy_(tensor)
    if layout == "expanded":
        base = tensor
        for axis, size in enumerate(tensor.shape):
            if size > 1:
                first = base.narrow(axis, 0, 1)
                base = first if torch.equal(base, first.expand_as(base)) else base
        return base.clone().expand(tensor.shape)
    return contiguous(torch, tensor)


def contiguous(torch: Any, tensor: Any) -> Any:
    """The tensor itself if it lies row after row, or else a copy that does."""
    if tensor.is_contiguous():
        return tensor
    return _empty(torch, tensor, tensor.shape).copy_(tensor)


def _empty(torch: Any, like: Any, shape: Sequence[int]) -> Any:
    """An uninitialised tensor, in memory of NumPy if it is large. NumPy asks the system for large
    pages, PyTorch does not: a copy into its new memory takes two to three times as long."""
    if like.nbytes <= LARGE or like.device.type != "cpu":
        return like.new_empty(shape)
    memory = aligned((math.prod(shape) * like.itemsize,), np.dtype(np.uint8))
    return torch.from_numpy(memory).view(like.dtype).view(*shape)


class Watch:
    """Remembers tensors by name, and reports which of them were written to."""

    def __init__(self, torch: Any, tensors: Mapping[str, Any]) -> None:
        self._torch = torch
        self._tensors = dict(tensors)
        self._before: dict[str, tuple[int, Any]] = {}
        self.written()

    def written(self) -> tuple[str, ...]:
        """The names of the tensors that were written to since the last call: their numbers differ,
        or an operation counted a write of the same numbers."""
        names = []
        for name, tensor in self._tensors.items():
            before = self._before.get(name)
            if before is not None:
                if before[0] == tensor._version and self._is_unchanged(tensor.detach(), before[1]):
                    continue
                names.append(name)
            self._before[name] = tensor._version, self._copy_or_fingerprint(tensor.detach())
        return tuple(names)

    def _copy_or_fingerprint(self, tensor: Any) -> Any:
        """A copy, or a fingerprint of a large tensor, which takes less memory."""
        if tensor.nbytes <= LARGE or tensor.layout is not self._torch.strided:
            return tensor.clone()
        bits = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
        return fingerprint(bits.view(self._torch.uint8).numpy(force=True))

    def _is_unchanged(self, tensor: Any, before: Any) -> bool:
        if isinstance(before, bytes):
            return bool(self._copy_or_fingerprint(tensor) == before)
        if tensor.shape != before.shape:
            return False
        if tensor.is_meta:  # it has no numbers: its writes are counted
            return True
        if tensor.dtype == before.dtype and self._torch.equal(tensor, before):
            return True
        equal = tensor == before
        if tensor.is_floating_point() or tensor.is_complex():
            equal |= tensor.isnan() & before.isnan()
        return bool(equal.all())


def fingerprint(numbers: Array) -> bytes:
    """The bytes of a contiguous array, to detect writes. For a large array: sums over blocks of 64
    words of 8 bytes, modulo 2^64, with odd and distinct weights. A change of one word always shows;
    words that swap or cancel escape only by chance."""
    if numbers.nbytes <= LARGE:
        return numbers.tobytes()
    flat = numbers.reshape(-1).view(np.uint8)
    whole = flat.size - flat.size % (8 * BLOCK)
    words = flat[:whole].view(np.uint64).reshape(-1, BLOCK)
    sums: bytes = np.einsum("ij,j->i", words, _weights()).tobytes()
    return sums + flat[whole:].tobytes()


def _weights() -> Array:
    """Odd numbers below 2^64."""
    drawn = np.frombuffer(np.random.default_rng(0).bytes(8 * BLOCK), np.uint64)
    return np.asarray(drawn | np.uint64(1))
