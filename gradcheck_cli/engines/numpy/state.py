"""The arrays that an object of NumPy code holds, and the attributes in which it stores their
gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array

GRADIENTS = ("grads", "gradients")
"""Attributes that hold gradients by name, besides `dW`, `grad_W`, `W_grad` and the like."""

Place = tuple[str, str | None]
"""An attribute, and a key if the attribute is a dictionary."""


def arrays_of(owner: Any) -> dict[str, Place]:
    """The floating arrays among the attributes of an object, and in dictionaries among them, by
    name. Arrays that are gradients of others are left out."""
    places: dict[str, Place] = {}
    for attribute, value in vars(owner).items() if hasattr(owner, "__dict__") else ():
        if _floating(value):
            places[attribute] = attribute, None
        elif isinstance(value, dict) and attribute not in GRADIENTS:
            for key, part in value.items():
                if isinstance(key, str) and _floating(part):
                    places[key if key not in places else f"{attribute}.{key}"] = attribute, key
    gradients = {candidate for name in places for candidate in _names(name)}
    return {name: place for name, place in places.items() if name not in gradients}


def _floating(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _names(name: str) -> tuple[str, ...]:
    return f"d{name}", f"d_{name}", f"grad_{name}", f"{name}_grad"


def get(owner: Any, place: Place) -> Array:
    attribute, key = place
    value = getattr(owner, attribute)
    return value if key is None else value[key]


def put(owner: Any, place: Place, value: Array) -> None:
    attribute, key = place
    if key is None:
        setattr(owner, attribute, value)
    else:
        getattr(owner, attribute)[key] = value


def gradient_of(owner: Any, name: str) -> Any:
    """The gradient that the object stored for one of its arrays, or None."""
    for holder, names in _holders(owner, name):
        for candidate in names:
            if holder.get(candidate) is not None:
                return holder[candidate]
    return None


def _holders(owner: Any, name: str) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    yield vars(owner), _names(name)
    for attribute in GRADIENTS:
        held = getattr(owner, attribute, None)
        if isinstance(held, dict):
            yield held, (name, *_names(name))
