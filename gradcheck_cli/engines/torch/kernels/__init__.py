"""ATen's kernels in exact arithmetic, by the name of the overload's packet, called as ATen calls
them. Applied to balls, they compute what a run should have computed; applied to symbols, the
formula.

Kernels are written in rows of the op table and operators. Arrays of integers and booleans are
plain. If a kernel returns None for a result, the result of the run counts: an index, or a value
that only a derivative reads. Operations that are missing here run their float64 kernel. PyTorch is
not needed to read this.
"""

from __future__ import annotations

from gradcheck_cli.engines.torch.kernels import matrices, reductions, windows
from gradcheck_cli.engines.torch.kernels.derivatives import DERIVATIVES
from gradcheck_cli.engines.torch.kernels.elementwise import ELEMENTWISE
from gradcheck_cli.engines.torch.kernels.indexing import INDEXING
from gradcheck_cli.engines.torch.kernels.losses import LOSSES
from gradcheck_cli.engines.torch.kernels.names import (
    CHOICES,
    DATA_MOVEMENT,
    EXACT_SELECTIONS,
    PERMUTED_ARGS,
    RANDOM,
    ROWS,
    ZEROS,
)
from gradcheck_cli.engines.torch.kernels.normalisation import NORMALISATION
from gradcheck_cli.engines.trace.complex_kernels import Pair, of_complex, of_real, on_parts, to_real
from gradcheck_cli.engines.trace.exact_kernels import Kernel

__all__ = [
    "CHOICES",
    "CHOSEN",
    "DATA_MOVEMENT",
    "EXACT_SELECTIONS",
    "FOURIER",
    "KERNELS",
    "PERMUTED_ARGS",
    "RANDOM",
    "ROWS",
    "ZEROS",
]

FOURIER: dict[str, Kernel] = {
    "_fft_r2c": on_parts(of_real),
    "_fft_c2c": on_parts(of_complex, [0]),
    "_fft_c2r": on_parts(to_real, [0]),
    "complex": on_parts(Pair),
}
"""Kernels of complex numbers, which are pairs along a last axis. All other operations on complex
numbers run on real and imaginary parts."""

KERNELS: dict[str, Kernel] = {
    **ELEMENTWISE,
    **reductions.REDUCTIONS,
    **NORMALISATION,
    **LOSSES,
    **INDEXING,
    **windows.WINDOWS,
    **matrices.MATRICES,
    **FOURIER,
    **DERIVATIVES,
}

CHOSEN: dict[str, Kernel] = {**reductions.CHOSEN, **windows.CHOSEN, **matrices.CHOSEN}
"""Kernels whose first argument is the run, whose results say which element was chosen, or which
sign a factor has."""
