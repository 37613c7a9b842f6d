"""The error function, the normal distribution, log-odds and entropy."""

from __future__ import annotations

import math
from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering, Missing


def entr(tf: Any, x: Any) -> Any:
    return -tf.math.xlogy(x, x)


def logit(tf: Any, x: Any) -> Any:
    return tf.math.log(x) - tf.math.log1p(-x)


def ndtr(tf: Any, x: Any) -> Any:
    return 0.5 * tf.math.erfc(-x / math.sqrt(2))


ROWS: dict[str, Lowering] = {
    "entr": entr,
    "erf": "math.erf",
    "erfc": "math.erfc",
    "erfcx": Missing("TensorFlow has no scaled complementary error function"),
    "erfinv": "math.erfinv",
    "log_ndtr": Missing(
        "TensorFlow has no log_ndtr, and no scaled complementary error function to write it with"
    ),
    "logit": logit,
    "ndtr": ndtr,
    "ndtri": "math.ndtri",
}
