"""Examine users' layers and formulas: from numbers to findings."""
