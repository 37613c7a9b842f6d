"""Eigenvalues, singular values and their vectors, with the signs that the rows state."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def _symmetric(x: Any) -> Any:
    """PyTorch reads one triangle, and differentiates as if the other were its image."""
    return 0.5 * (x + x.mT)


def _signs(torch: Any, v: Any) -> Any:
    """What makes the first large entry of every column positive."""
    if v.numel() == 0:
        return 1
    v = v.detach()
    large = v.abs() >= 0.9 * v.abs().amax(dim=-2, keepdim=True)
    first = large.to(torch.uint8).argmax(dim=-2, keepdim=True)
    return torch.where(v.gather(-2, first) < 0, -1, 1).to(v.dtype)


def eigh_vectors(torch: Any, x: Any) -> Any:
    v = torch.linalg.eigh(_symmetric(x)).eigenvectors
    return v * _signs(torch, v)


def eigvalsh(torch: Any, x: Any) -> Any:
    return torch.linalg.eigvalsh(_symmetric(x))


def svd_u(torch: Any, x: Any) -> Any:
    u = torch.linalg.svd(x, full_matrices=False).U
    return u * _signs(torch, u)


def svd_vh(torch: Any, x: Any) -> Any:
    u, _, vh = torch.linalg.svd(x, full_matrices=False)
    signs = _signs(torch, u)
    return vh if isinstance(signs, int) else vh * signs.mT


ROWS: dict[str, Lowering] = {
    "eigh_vectors": eigh_vectors,
    "eigvalsh": eigvalsh,
    "svd_u": svd_u,
    "svd_vh": svd_vh,
    "svdvals": "linalg.svdvals",
}
