"""The engines that come with gradcheck."""

SHIPPED = (
    "reference",
    "torch",
    "tensorflow",
    "jax",
    "jax-jit",
    "torch-compile",
    "tensorflow-xla",
    "eigen",
    "symbolic",
    "finite-difference",
    "numpy",
)
"""Their names, in the order in which they are listed."""
