"""Equations with matrices, and functions of square matrices."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def expm(torch: Any, x: Any) -> Any:
    """In narrow formats torch.linalg.matrix_exp reads memory that nobody wrote (2.13, CPU): nan,
    1e30 or what happens to lie there."""
    if x.dtype.itemsize < 4:
        raise NotImplementedError(f"torch.linalg.matrix_exp gives no numbers in {x.dtype}")
    return torch.linalg.matrix_exp(x)


def matrix_power(torch: Any, x: Any, n: int) -> Any:
    return torch.linalg.matrix_power(x, n)


def solve(torch: Any, x1: Any, x2: Any) -> Any:
    """x2 is a vector only where it has one axis; PyTorch would also take a matrix for a stack of
    vectors where it fits, but not beside as many axes as x1 has."""
    columns = x2.unsqueeze(-1) if x2.ndim == 1 else x2
    y = torch.linalg.solve(x1, columns[(None,) * (x1.ndim - columns.ndim)])
    return y.squeeze(-1) if x2.ndim == 1 else y


def triangular_solve(torch: Any, x1: Any, x2: Any, lower: bool = True) -> Any:
    if x2.ndim == 1:
        columns = x2.unsqueeze(-1)
        return torch.linalg.solve_triangular(x1, columns, upper=not lower).squeeze(-1)
    return torch.linalg.solve_triangular(x1, x2, upper=not lower)


ROWS: dict[str, Lowering] = {
    "expm": expm,
    "inv": "linalg.inv",
    "matrix_power": matrix_power,
    "solve": solve,
    "triangular_solve": triangular_solve,
}
