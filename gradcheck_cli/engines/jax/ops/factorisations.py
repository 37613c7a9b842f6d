"""Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.engines.kit.lowerings import Lowering


def pinv(jax: Any, x: Any, rtol: float | None = None) -> Any:
    """Its own default is ten times as large as that of the row."""
    if rtol is None:
        rtol = max(x.shape[-2:]) * 2.0 ** (1 - FORMATS[x.dtype.name].bits)
    return jax.numpy.linalg.pinv(x, rtol=rtol)


def _signs(jax: Any, r: Any) -> Any:
    diagonal = jax.numpy.diagonal(jax.lax.stop_gradient(r), axis1=-2, axis2=-1)
    return jax.numpy.where(diagonal < 0, -1, 1).astype(r.dtype)


def qr_q(jax: Any, x: Any) -> Any:
    q, r = jax.numpy.linalg.qr(x)
    return q * _signs(jax, r)[..., None, :]


def qr_r(jax: Any, x: Any) -> Any:
    r = jax.numpy.linalg.qr(x).R
    return r * _signs(jax, r)[..., :, None]


ROWS: dict[str, Lowering] = {
    "cholesky": "numpy.linalg.cholesky",
    "pinv": pinv,
    "qr_q": qr_q,
    "qr_r": qr_r,
}
