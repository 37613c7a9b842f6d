"""NumPy: a forward function and a hand-written backward."""
