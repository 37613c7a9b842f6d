"""Layers that users wrote: their gradients and their behaviour, from the object to the findings."""

from gradcheck_cli.checks.examination import examine

__all__ = ["examine"]
