"""Explain why a gradient of a layer is wrong, by experiments, and propose fixes."""
