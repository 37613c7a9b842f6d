"""Computer algebra: formulas as an engine, and what `gradcheck derive` is made of.

SymPy is imported inside functions, never at the top, except by `functions`, which is itself
imported inside functions only.
"""
