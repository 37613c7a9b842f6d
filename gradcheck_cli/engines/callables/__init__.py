"""Layers that users wrote, as functions of arrays: found, bound to their inputs, called."""
