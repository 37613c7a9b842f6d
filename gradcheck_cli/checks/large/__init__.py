"""Gradients too large for every entry: random directions, and which errors those find."""
