"""Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.engines.kit.lowerings import Lowering


def cholesky(tf: Any, x: Any) -> Any:
    """Of the symmetric part, which TensorFlow takes for granted where it differentiates."""
    return tf.linalg.cholesky(0.5 * (x + tf.linalg.matrix_transpose(x)))


def pinv(tf: Any, x: Any, rtol: float | None = None) -> Any:
    """Its own default is ten times as large as that of the row."""
    if rtol is None:
        rtol = max(x.shape[-2:]) * 2.0 ** (1 - FORMATS[x.dtype.name].bits)
    return tf.linalg.pinv(x, rcond=rtol)


def _signs(tf: Any, r: Any) -> Any:
    diagonal = tf.linalg.diag_part(tf.stop_gradient(r))
    return tf.where(diagonal < 0, tf.constant(-1, r.dtype), tf.constant(1, r.dtype))


def qr_q(tf: Any, x: Any) -> Any:
    q, r = tf.linalg.qr(x)
    return q * tf.expand_dims(_signs(tf, r), -2)


def qr_r(tf: Any, x: Any) -> Any:
    r = tf.linalg.qr(x).r
    return r * tf.expand_dims(_signs(tf, r), -1)


ROWS: dict[str, Lowering] = {
    "cholesky": cholesky,
    "pinv": pinv,
    "qr_q": qr_q,
    "qr_r": qr_r,
}
