"""The truth of callables that are known only by their values."""
