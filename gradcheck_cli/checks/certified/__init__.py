"""Layers as programs: lifted from a run and enclosed, so that their truth is that of formulas."""
