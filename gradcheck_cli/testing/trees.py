"""Calls of a JAX layer with trees of arrays: registered dataclasses, Equinox modules, named tuples,
lists, and random keys. The layer receives the same trees, and the floating arrays in them are its
inputs, with names such as "params.w" and "params.layers.0.b". If the layer is a tree itself, its
own arrays have names such as "w"."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.testing.values import (
    Given,
    as_array,
    dtype_name,
    in_parts,
    parameter_names,
    placed,
)

_PLAIN = (dict, tuple, type(None))  # what every layer may be given (`values.sort_inputs`)


@dataclass(frozen=True, slots=True)
class _Part:
    """An argument, or the layer itself: its leaves. The leaves at `places` are inputs."""

    structure: Any
    leaves: list[Any]
    places: dict[str, int]

    def filled(self, arrays: Iterator[Any]) -> Any:
        leaves = list(self.leaves)
        for place in self.places.values():
            leaves[place] = next(arrays)
        return self.structure.unflatten(leaves)


class Opened:
    """A layer as a function of the arrays in its arguments. Captured values stay inside the
    layer."""

    __slots__ = ("__name__", "__signature__", "__wrapped__", "_call")

    def __init__(self, layer: Any, own: _Part, parts: Sequence[_Part], named: Sequence[str]):
        def call(arrays: Iterator[Any]) -> Any:
            function = own.filled(arrays)
            values = [part.filled(arrays) for part in parts]
            count = len(values) - len(named)
            return function(*values[:count], **dict(zip(named, values[count:], strict=True)))

        self._call = call
        self.__name__ = getattr(layer, "__name__", type(layer).__name__)
        self.__wrapped__ = type(layer).__call__ if own.places else layer
        self.__signature__ = inspect.Signature(
            [inspect.Parameter("arrays", inspect.Parameter.VAR_POSITIONAL)]
        )

    def __call__(self, *arrays: Any) -> Any:
        return self._call(iter(arrays))


def as_array_function(
    layer: Any, values: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Opened, Given] | None:
    """A JAX layer as a function of the arrays in its arguments, and these arrays. None if all
    arguments can be passed to any layer as they are."""
    jax = sys.modules.get("jax")  # whoever has such trees has imported it
    given = [*values, *named.values()]
    if jax is None or inspect.isclass(layer) or not any(_is_own(jax, one) for one in given):
        return None
    labels = [*(name for name, _ in placed(layer, parameter_names(layer), values)), *named]
    parts = [_part(jax, label, one) for label, one in zip(labels, given, strict=True)]
    own = _part(jax, "", layer)
    taken = {name for part in parts for name in part.places}
    if not taken.isdisjoint(own.places):
        own = _part(jax, "self", layer)
    leaves = {
        name: part.leaves[place] for part in (own, *parts) for name, place in part.places.items()
    }
    dtypes = frozenset(map(dtype_name, leaves.values()))
    arrays = {name: _numbers(name, leaf) for name, leaf in leaves.items()}
    return Opened(layer, own, parts, list(named)), Given(*in_parts(arrays), {}, (), dtypes)


def _part(jax: Any, label: str, value: Any) -> _Part:
    leaves, structure = jax.tree_util.tree_flatten_with_path(value)
    places = {}
    for place, (path, leaf) in enumerate(leaves):
        if _kind(jax, leaf) == "f" or (not path and isinstance(leaf, float | complex)):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            places[".".join(part for part in (label, name) if part)] = place
    return _Part(structure, [leaf for _, leaf in leaves], places)


def _is_own(jax: Any, value: Any) -> bool:
    """Whether the value is a tree that only JAX knows and that contains arrays, or has unsigned
    integers or keys."""
    leaves, structure = jax.tree.flatten(value)
    kinds = [kind for leaf in leaves if (kind := _kind(jax, leaf))]
    return bool(kinds) and ("u" in kinds or any(kind not in _PLAIN for kind in _nodes(structure)))


def _nodes(structure: Any) -> Iterator[type]:
    data = structure.node_data()
    if data is not None:
        yield data[0]
        for child in structure.children():
            yield from _nodes(child)


def _kind(jax: Any, leaf: Any) -> str:
    """The kind of an array: "f" floating or complex, "u" unsigned or a key, "i" other; empty if it
    is not an array."""
    if not isinstance(leaf, jax.Array | np.ndarray):
        return ""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return "u"
    if jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact):
        return "f"
    return "u" if jax.numpy.issubdtype(leaf.dtype, jax.numpy.unsignedinteger) else "i"


def _numbers(name: str, leaf: Any) -> Array:
    array = as_array(name, leaf)
    assert array is not None  # it is an array of floats, or a number
    return array
