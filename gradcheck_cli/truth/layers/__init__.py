"""The truth about callables of which nothing is known but their values."""
