"""Checks of layers that users wrote and of formulas: from numbers to findings."""
