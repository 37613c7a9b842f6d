"""JAX layers that are trees of arrays. An object registered with `jax.tree_util` (a dataclass, a
module of Equinox, a struct of Flax) lists its arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from gradcheck_cli.engines.layer.results import parts_of_container


class Tree:
    """The floating and complex arrays of an object by name: "w", "layers.0.bias", or "self.w" if an
    argument of its call has the name "w". Empty if the object is not a tree."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        leaves, self._structure = jax.tree_util.tree_flatten_with_path(layer)
        self._leaves = [leaf for _, leaf in leaves]
        self._places: dict[str, int] = {}
        self.arrays: dict[str, Any] = {}
        taken = arguments(layer) if self._leaves else ()
        for place, (path, leaf) in enumerate(leaves):
            if path and (is_floating(leaf) or is_complex(leaf)):
                name = jax.tree_util.keystr(path, simple=True, separator=".")
                name = f"self.{name}" if name in taken else name
                self._places[name] = place
                self.arrays[name] = leaf

    def filled(self, arrays: Mapping[str, Any]) -> Callable[..., Any]:
        """The object with these arrays in place of its own."""
        if not self._places:
            return self._layer
        leaves = list(self._leaves)
        for name, place in self._places.items():
            leaves[place] = arrays[name]
        return jax.tree.unflatten(self._structure, leaves)


def key_of_entry(entry: Any) -> int | str:
    """The place or name that an entry of a path of `jax.tree_util` stands for."""
    for kind in ("key", "idx", "name"):
        if hasattr(entry, kind):
            return getattr(entry, kind)
    return str(entry)


def arguments(layer: Any) -> tuple[str, ...]:
    """The names of the layer's arguments; empty if they are unknown."""
    try:
        return tuple(inspect.signature(layer).parameters)
    except (TypeError, ValueError):
        return ()


def is_floating(leaf: Any) -> bool:
    """Whether the leaf is an array of floating numbers, of JAX or of NumPy."""
    if not isinstance(leaf, jax.Array | np.ndarray):
        return False
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating))


def is_complex(leaf: Any) -> bool:
    """Whether the leaf is an array of complex numbers, of JAX or of NumPy."""
    return isinstance(leaf, jax.Array | np.ndarray) and bool(jax.numpy.iscomplexobj(leaf))


def parts(container: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a result that is a Python container or one of the user's own trees."""
    named = list(parts_of_container(container))
    if not named and container is not None:
        leaves = jax.tree_util.tree_flatten_with_path(container)[0]
        named = [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves if path]
    yield from named
