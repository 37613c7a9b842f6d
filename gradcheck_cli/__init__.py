"""gradcheck: verify gradients, entry by entry."""

__version__ = "0.1.0"
