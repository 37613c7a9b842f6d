"""Operations that pass a value on unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.op import REQUIRED, Op, register
from reference_engine.rules import Linear

FAMILY = "control"

stop_gradient: Op = register(
    Op(
        "stop_gradient",
        np.asarray,
        None,
        family=FAMILY,
        aliases=("detach",),
        formula="x",
        derivative="0 by declaration: the path is cut in every mode and order",
        source="tf.stop_gradient, torch.Tensor.detach",
        rounding="none",
    )
)


def _astype_value(x: Any, dtype: Any) -> Any:
    return np.asarray(x).astype(dtype)


astype: Op = register(
    Op(
        "astype",
        _astype_value,
        Linear(lambda g, x, dtype: astype(g, dtype=x.dtype)),
        family=FAMILY,
        keywords={"dtype": REQUIRED},
        formula="x in another dtype",
        derivative="1, in the dtype of x",
        source="NumPy",
    ),
    internal=True,
)
