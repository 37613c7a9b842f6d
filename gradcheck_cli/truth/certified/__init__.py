"""Enclosures: the exact gradient in ball arithmetic, ties and limits included."""
