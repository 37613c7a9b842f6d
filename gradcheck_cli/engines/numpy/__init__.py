"""NumPy: a forward and a backward that somebody wrote."""
