"""The engines that come with gradcheck."""

SHIPPED = (
    "reference",
    "torch",
    "tensorflow",
    "jax",
    "jax-jit",
    "torch-compile",
    "torch-compiled-autograd",
    "tensorflow-xla",
    "eigen",
    "symbolic",
    "finite-difference",
    "numpy",
)
"""The names of the engines, in the order of listings."""

UNCOMPILED = {
    "torch-compile": "torch",
    "torch-compiled-autograd": "torch",
    "tensorflow-xla": "tensorflow",
    "jax-jit": "jax",
}
"""Engines that compile, with the engine of the same framework that does not."""

FRAMEWORK_OF = {**{name: name for name in ("torch", "tensorflow", "jax")}, **UNCOMPILED}
"""Engines of frameworks, with their framework."""
