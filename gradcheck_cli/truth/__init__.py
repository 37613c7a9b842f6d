"""The true gradient: finite differences with error bars, and the float64 gradient that they
confirm."""

from gradcheck_cli.truth.formulas.compute import compute

__all__ = ["compute"]
