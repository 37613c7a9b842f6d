"""Check large gradients along random directions, and say which errors these find."""
