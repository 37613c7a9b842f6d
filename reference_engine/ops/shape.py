"""Operations that move elements and compute nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.op import REQUIRED, Op, register
from reference_engine.rules import Linear
from reference_engine.traced import Value, shape_of

FAMILY = "shape"


def _to_shape_of(g: Value, x: Value, **_: Any) -> Value:
    """The transpose of everything that only reshapes."""
    return reshape(g, shape=shape_of(x))


reshape: Op = register(
    Op(
        "reshape",
        lambda x, shape: np.reshape(x, shape),
        Linear(_to_shape_of),
        family=FAMILY,
        keywords={"shape": REQUIRED},
        formula="the elements of x in order, in another shape; one length may be -1",
        derivative="reshape; transposed: reshape back",
        source="NumPy",
        rounding="none",
    )
)

expand_dims: Op = register(
    Op(
        "expand_dims",
        lambda x, axis: np.expand_dims(x, axis),
        Linear(_to_shape_of),
        family=FAMILY,
        keywords={"axis": REQUIRED},
        formula="x with a new axis of length 1",
        derivative="expand_dims; transposed: reshape back",
        source="NumPy",
        rounding="none",
    )
)

squeeze: Op = register(
    Op(
        "squeeze",
        lambda x, axis=None: np.squeeze(x, axis),
        Linear(_to_shape_of),
        family=FAMILY,
        keywords={"axis": None},
        formula="x without its axes of length 1, or without the given ones",
        derivative="squeeze; transposed: reshape back",
        source="NumPy",
        rounding="none",
    )
)


def _transpose_back(g: Value, x: Value, axes: Any = None) -> Value:
    if axes is None:
        return transpose(g)
    ndim = len(shape_of(x))
    return transpose(g, axes=tuple(int(i) for i in np.argsort([a % ndim for a in axes])))


transpose: Op = register(
    Op(
        "transpose",
        lambda x, axes=None: np.transpose(x, axes),
        Linear(_transpose_back),
        family=FAMILY,
        keywords={"axes": None},
        aliases=("permute_dims",),
        formula="x with its axes in the given order, by default reversed",
        derivative="transpose; transposed: the inverse order",
        source="NumPy",
        rounding="none",
    )
)

# The walker sums a cotangent that has more elements than its argument, here as for every operation.
broadcast_to: Op = register(
    Op(
        "broadcast_to",
        lambda x, shape: np.array(np.broadcast_to(x, shape)),
        Linear(lambda g, x, shape: g),
        family=FAMILY,
        keywords={"shape": REQUIRED},
        formula="x repeated along new axes and axes of length 1",
        derivative="broadcast_to; transposed: the sum along those axes",
        source="NumPy",
        rounding="none",
    )
)
