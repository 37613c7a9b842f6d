"""The variables of a TensorFlow layer, by the names that its author uses."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.layer import Role
from gradcheck_cli.engines.layer.capture import Put, captures
from gradcheck_cli.engines.layer.custom import IsolatedCall
from gradcheck_cli.engines.tensorflow.state import Found


def keras() -> Any:
    """The Keras module if the user's module has imported it, or None. Importing it takes a
    second."""
    return sys.modules.get("keras")


def is_keras_layer(thing: Any) -> bool:
    return keras() is not None and isinstance(thing, keras().Layer)


def of_layer(tf: Any, layer: Any, prefix: str = "") -> Iterator[Found]:
    """The variables of a Keras layer: trained ones, buffers, and the states of seeds (integers);
    then the constants among its attributes.

    A name is the one that the user gave ("kernel"), or the attribute's. The names of sublayers come
    before it, with a dot ("dense.kernel").
    """
    attributes = {id(value): name for name, value in vars(layer).items()}
    layers = layer._flatten_layers(include_self=False, recursive=False)
    below = {id(v) for sublayer in layers for v in sublayer.variables}
    labels = _Labels()
    seeds = {id(generator.state) for generator in layer._seed_generators}
    for variable in layer.variables:
        if id(variable) not in below:
            attribute = attributes.get(id(variable))
            name = prefix + labels(variable.name, "variable", attribute)
            yield replace(_keras_variable(name, variable, layer), seed=id(variable) in seeds)
    for sublayer in layers:
        kind = _snake(type(sublayer).__name__)
        name = labels(sublayer.name, kind, attributes.get(id(sublayer)))
        yield from of_layer(tf, sublayer, f"{prefix}{name}.")
    for name, value in list(vars(layer).items()):
        if _is_constant(tf, value):
            yield Found(
                prefix + name, value, "buffer", False, functools.partial(setattr, layer, name)
            )


def _is_constant(tf: Any, value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind == "f")
    return isinstance(value, tf.Tensor) and bool(value.dtype.is_floating)


def _keras_variable(name: str, variable: Any, owner: Any) -> Found:
    trained = bool(variable.trainable and owner.trainable)

    def put(other: Any) -> None:
        variable._value = other
        variable._dtype = other.dtype.name

    role: Role = "parameter" if variable.trainable else "buffer"
    return Found(name, variable._value, role, trained, put)


class _Labels:
    """Chooses names. A name that the user gave stays. A name that Keras counted over the whole
    process ("dense_7") is replaced by the attribute's name, or counted within its owner."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def __call__(self, name: str, kind: str, attribute: str | None) -> str:
        counted = re.fullmatch(rf"(forward_|backward_)?{re.escape(kind)}(_\d+)?", name)
        if counted and counted[1]:  # a direction of `keras.layers.Bidirectional`
            name = counted[1] + kind
        elif counted:
            name = attribute.lstrip("_") if attribute else kind
        count = self._given.get(name, 0)
        self._given[name] = count + 1
        return f"{name}_{count}" if count else name


def _snake(name: str) -> str:
    """The name that Keras makes from a class name: "LSTMCell" becomes "lstm_cell"."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def found_in(tf: Any, layer: Any) -> dict[str, Found]:
    """Everything that a Keras layer, a tf.Module or a function uses and does not take as an
    argument, by name. An object that is reached in two ways is listed once."""
    by_name: dict[str, Found] = {}
    known: set[int] = set()
    for variable in _found_in(tf, layer):
        if id(variable.original) not in known:
            known.add(id(variable.original))
            name = variable.name
            while name in by_name:
                name += "_"
            by_name[name] = replace(variable, name=name)
    return by_name


def _found_in(tf: Any, layer: Any) -> Iterator[Found]:
    seen = {id(layer)}
    if isinstance(layer, IsolatedCall):
        yield from layer.captured
    elif is_keras_layer(layer):
        yield from of_layer(tf, layer)
        yield from _captured(tf, layer.call, seen)
    elif isinstance(layer, tf.Module):
        yield from _of_module(tf, layer, "", seen)
        yield from _captured(tf, layer.__call__, seen)
    else:
        yield from _captured(tf, layer, seen)


def _captured(tf: Any, function: Any, seen: set[int]) -> Iterator[Found]:
    for capture in captures(function):
        yield from _variables_in(tf, capture.name, capture.value, capture.put, "captured", seen)


def _of_module(tf: Any, module: Any, prefix: str, seen: set[int]) -> Iterator[Found]:
    """The variables of a module, named by attributes: "dense.w", "blocks.0.w"."""
    for name, value in list(vars(module).items()):
        if not name.startswith("_self_"):  # TensorFlow's own attributes
            put = functools.partial(setattr, module, name)
            yield from _variables_in(tf, f"{prefix}{name}", value, put, "parameter", seen)


def _variables_in(
    tf: Any, name: str, value: Any, put: Put | None, role: Role, seen: set[int]
) -> Iterator[Found]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if is_keras_layer(value):
        yield from of_layer(tf, value, f"{name}.")
    elif isinstance(value, tf.Variable):
        trained = bool(value.trainable and value.dtype.is_floating)
        yield Found(name, value, role if trained or role == "captured" else "buffer", trained, put)
    elif keras() is not None and isinstance(value, keras().Variable):
        yield replace(_keras_variable(name, value, value), role=role)
    elif isinstance(value, tf.random.Generator):
        yield Found(f"{name}.state", value.state, "buffer", False, None, seed=True)
    elif isinstance(value, tf.Module):
        yield from _of_module(tf, value, f"{name}.", seen)
    elif _is_constant(tf, value):
        yield Found(name, value, "captured", False, put)
    else:
        for key, part, other in _parts(value):
            yield from _variables_in(tf, f"{name}.{key}", part, other, role, seen)


def _parts(value: Any) -> Iterator[tuple[Any, Any, Put | None]]:
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield index, part, functools.partial(value.__setitem__, index)
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            yield index, part, None
    elif isinstance(value, dict):
        for key, part in list(value.items()):
            if isinstance(key, str):
                yield key, part, functools.partial(value.__setitem__, key)


def keras_layers(layer: Any) -> list[Any]:
    """Every Keras layer in a layer or function, with sublayers, each once."""
    whole = is_keras_layer(layer)
    roots = [layer] if whole else []
    roots += [c.value for c in captures(layer.call if whole else layer) if is_keras_layer(c.value)]
    by_id: dict[int, Any] = {}
    for part in (part for root in roots for part in root._flatten_layers()):
        by_id[id(part)] = part
        inner = getattr(part, "_functional", None)  # the model inside a Sequential one
        if inner is not None:
            by_id[id(inner)] = inner
    return list(by_id.values())
