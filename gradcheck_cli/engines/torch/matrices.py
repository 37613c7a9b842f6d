"""Rows of the op table (`ops`) about matrices and vectors: products, factors, norms."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of

# Eigenvalues, singular values and their vectors, with the signs that the rows state


def _symmetric(x: Any) -> Any:
    """The symmetric part of x. PyTorch reads one triangle, and differentiates as if the other were
    its mirror image."""
    return 0.5 * (x + x.mT)


def _signs_of_columns(torch: Any, v: Any) -> Any:
    """The factors that make the first large entry of each column positive."""
    if v.numel() == 0:
        return 1
    v = v.detach()
    large = v.abs() >= 0.9 * v.abs().amax(dim=-2, keepdim=True)
    first = large.to(torch.uint8).argmax(dim=-2, keepdim=True)
    return torch.where(v.gather(-2, first) < 0, -1, 1).to(v.dtype)


def eigh_vectors(torch: Any, x: Any) -> Any:
    v = torch.linalg.eigh(_symmetric(x)).eigenvectors
    return v * _signs_of_columns(torch, v)


def eigvalsh(torch: Any, x: Any) -> Any:
    return torch.linalg.eigvalsh(_symmetric(x))


def svd_u(torch: Any, x: Any) -> Any:
    u = torch.linalg.svd(x, full_matrices=False).U
    return u * _signs_of_columns(torch, u)


def svd_vh(torch: Any, x: Any) -> Any:
    u, _, vh = torch.linalg.svd(x, full_matrices=False)
    signs = _signs_of_columns(torch, u)
    return vh if isinstance(signs, int) else vh * signs.mT


# Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse


def cholesky(torch: Any, x: Any) -> Any:
    """The Cholesky factor of the symmetric part: PyTorch assumes symmetry when it
    differentiates."""
    return torch.linalg.cholesky(0.5 * (x + x.mT))


def _signs_of_diagonal(torch: Any, r: Any) -> Any:
    diagonal = torch.diagonal(r.detach(), dim1=-2, dim2=-1)
    return torch.where(diagonal < 0, -1, 1).to(r.dtype)


def qr_q(torch: Any, x: Any) -> Any:
    q, r = torch.linalg.qr(x)
    return q * _signs_of_diagonal(torch, r).unsqueeze(-2)


def qr_r(torch: Any, x: Any) -> Any:
    r = torch.linalg.qr(x).R
    return r * _signs_of_diagonal(torch, r).unsqueeze(-1)


# Products of vectors, matrices and arrays of any rank


def cross(torch: Any, x1: Any, x2: Any, axis: int) -> Any:
    """The cross product, also of arrays of different rank, which PyTorch does not broadcast."""
    rank = max(x1.ndim, x2.ndim)
    x1, x2 = (x[(None,) * (rank - x.ndim)] for x in (x1, x2))
    return torch.linalg.cross(x1, x2, dim=axis)


def dot(torch: Any, x1: Any, x2: Any) -> Any:
    """numpy.dot: torch.dot only takes vectors."""
    if x1.ndim == 0 or x2.ndim == 0:
        return x1 * x2
    if x1.ndim == x2.ndim == 1:
        return torch.dot(x1, x2)
    if x2.ndim <= 2:
        return torch.matmul(x1, x2)
    return torch.tensordot(x1, x2, dims=([-1], [-2]))


# Equations with matrices, and functions of square matrices


def expm(torch: Any, x: Any) -> Any:
    """The matrix exponential. Raises NotImplementedError in narrow dtypes, in which
    torch.linalg.matrix_exp reads uninitialised memory (2.13, CPU) and returns nan, 1e30 or anything
    else."""
    if x.dtype.itemsize < 4:
        raise NotImplementedError(f"torch.linalg.matrix_exp returns no numbers in {x.dtype}")
    return torch.linalg.matrix_exp(x)


def solve(torch: Any, x1: Any, x2: Any) -> Any:
    """Solve a linear system; x2 is a vector only if it has one axis. PyTorch would also take a
    matrix for a stack of vectors if the shape fits, but not if it has as many axes as x1."""
    columns = x2.unsqueeze(-1) if x2.ndim == 1 else x2
    y = torch.linalg.solve(x1, columns[(None,) * (x1.ndim - columns.ndim)])
    return y.squeeze(-1) if x2.ndim == 1 else y


def triangular_solve(torch: Any, x1: Any, x2: Any, lower: bool) -> Any:
    if x2.ndim == 1:
        columns = x2.unsqueeze(-1)
        return torch.linalg.solve_triangular(x1, columns, upper=not lower).squeeze(-1)
    return torch.linalg.solve_triangular(x1, x2, upper=not lower)


# Lengths of vectors


def norm(torch: Any, x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    dim = None if axis is None else axes_of(axis, x.ndim)
    return torch.linalg.vector_norm(x, ord=ord, dim=dim, keepdim=keepdims)
