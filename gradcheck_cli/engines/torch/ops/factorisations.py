"""Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def cholesky(torch: Any, x: Any) -> Any:
    """Of the symmetric part, which PyTorch takes for granted where it differentiates."""
    return torch.linalg.cholesky(0.5 * (x + x.mT))


def pinv(torch: Any, x: Any, rtol: float | None = None) -> Any:
    return torch.linalg.pinv(x, rtol=rtol)


def _signs(torch: Any, r: Any) -> Any:
    diagonal = torch.diagonal(r.detach(), dim1=-2, dim2=-1)
    return torch.where(diagonal < 0, -1, 1).to(r.dtype)


def qr_q(torch: Any, x: Any) -> Any:
    q, r = torch.linalg.qr(x)
    return q * _signs(torch, r).unsqueeze(-2)


def qr_r(torch: Any, x: Any) -> Any:
    r = torch.linalg.qr(x).R
    return r * _signs(torch, r).unsqueeze(-1)


ROWS: dict[str, Lowering] = {
    "cholesky": cholesky,
    "pinv": pinv,
    "qr_q": qr_q,
    "qr_r": qr_r,
}
