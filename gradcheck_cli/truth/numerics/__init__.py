"""Finite differences along one line: derivatives with error bars, noise, and kinds of points."""
