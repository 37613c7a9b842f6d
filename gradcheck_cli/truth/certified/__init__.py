"""Enclosures: the exact gradient in ball arithmetic, with ties and limits."""
