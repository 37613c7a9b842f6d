"""Shared code of the engines for layers that users wrote: loading, binding, recording."""
