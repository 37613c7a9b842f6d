"""What the gradient really is: differences with error bars, and the float64 gradient they
confirm."""

from gradcheck_cli.truth.formulas.compute import compute

__all__ = ["compute"]
