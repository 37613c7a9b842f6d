"""The true gradient: certified enclosures, finite differences with error bars, and the float64
gradient that these confirm."""

from gradcheck_cli.truth.formulas.compute import compute

__all__ = ["compute"]
