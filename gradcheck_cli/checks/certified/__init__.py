"""Certified truth about layers: their forwards are lifted from a run into programs and enclosed."""
