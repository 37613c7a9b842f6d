"""The logarithm of the gamma function, its derivatives, and that of the beta function."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def betaln(tf: Any, a: Any, b: Any) -> Any:
    shape = tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b))
    both = [tf.broadcast_to(a, shape), tf.broadcast_to(b, shape)]
    return tf.math.lbeta(tf.stack(both, axis=-1))


def polygamma(tf: Any, x: Any, n: int) -> Any:
    return tf.math.polygamma(tf.cast(n, x.dtype), x)


ROWS: dict[str, Lowering] = {
    "betaln": betaln,
    "digamma": "math.digamma",
    "lgamma": "math.lgamma",
    "polygamma": polygamma,
}
