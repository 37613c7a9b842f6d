"""Computer algebra: an engine for formulas, and the basis of `gradcheck derive`.

SymPy is imported inside functions. Only `functions` imports it at the top, and that module is
itself imported inside functions.
"""
