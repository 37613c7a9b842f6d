"""The size of a derivative of a function near the point, on any scale."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.truth.blocks import Differences
from gradcheck_cli.truth.formulas.request_cache import Work, largest


def scale(work: Work, name: str, differences: Differences) -> Array:
    """By entry: the steepest difference that was taken, or a derivative of natural size."""
    with np.errstate(all="ignore"):
        return np.fmax(differences.steepest, _natural_size(work, name, differences.value.shape))


def _natural_size(work: Work, name: str, shape: tuple[int, ...]) -> Array:
    """|output| / |input| by entry, in `shape`: a derivative as large as the function itself; second
    order, |output| / (|one input| |other input|), where the function may bend on the scale of 1
    although an input is larger: softmax does. Where values cancel, the output is as large as those
    on the way."""
    outputs = np.abs(work.output).reshape(-1, 1)
    inputs = work.request.wrt
    block = None if name in inputs else HessianBlock.named(name, inputs)
    if block or outputs.shape[0] != shape[0]:  # rows are projections
        outputs = np.full((1, 1), largest(outputs))
    outputs = np.fmax(outputs, work.on_the_way)
    if block is None:
        size = outputs / _sizes(work, name, shape[1]).T
    else:
        size = outputs / np.fmin(_sizes(work, block.columns, shape[1]), 1.0).T
        size = size / np.fmin(_sizes(work, block.rows, shape[0]), 1.0)
    return np.broadcast_to(np.where(np.isfinite(size), size, 0.0), shape)


def _sizes(work: Work, name: str, count: int) -> Array:
    """Sizes of an input's entries, (count, 1), 1 for zeros; where `count` is not their number, the
    largest of them, (1, 1)."""
    sizes = np.abs(np.asarray(work.request.values[name], dtype=np.float64)).reshape(-1, 1)
    if len(sizes) != count:  # directions, not entries
        sizes = np.full((1, 1), np.max(sizes, initial=0.0))
    return np.where(sizes == 0, 1.0, sizes)
