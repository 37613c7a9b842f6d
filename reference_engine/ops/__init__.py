"""The table of operations, one file for each family. Importing this package fills it."""

from importlib import import_module

FAMILIES = """
    activations arithmetic bessel classification control convolution creation cumulative
    decompositions determinants exponential factorisations gamma incomplete indexing integrals
    layers linalg losses matrices neural normalisation norms ordering pooling reductions selection
    shape similarity special statistics trigonometric
"""

for family in FAMILIES.split():
    import_module(f"{__name__}.{family}")
