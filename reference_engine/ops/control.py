"""Operations that pass a value on unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.op import Op, internal, row
from reference_engine.rules import Linear

stop_gradient: Op = row(
    "stop_gradient", np.asarray, None, aliases=("detach",), rounding="none"
).says(
    "x",
    "0 by declaration: the path is cut in every mode and order",
    source="tf.stop_gradient, torch.Tensor.detach",
)


def _astype_value(x: Any, *, dtype: Any) -> Any:
    return np.asarray(x).astype(dtype)


astype: Op = internal(
    "astype", _astype_value, Linear(lambda g, x, dtype: astype(g, dtype=x.dtype))
).says("x in another dtype", "1, in the dtype of x", source="NumPy")
