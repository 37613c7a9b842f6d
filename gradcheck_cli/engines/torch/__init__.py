"""PyTorch: formulas and layers."""
