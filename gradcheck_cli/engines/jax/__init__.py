"""JAX: formulas and layers."""
