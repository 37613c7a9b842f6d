"""A user's Keras layers: built, and run in a dtype other than their own."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.binding import Arranged, arrange
from gradcheck_cli.engines.tensorflow.variables import keras


def check_backend() -> None:
    """Raise Unsupported if Keras runs on a framework other than TensorFlow."""
    if keras() is not None and keras().config.backend() != "tensorflow":
        backend = keras().config.backend()
        raise Unsupported(f"Keras runs on {backend} here: set KERAS_BACKEND=tensorflow")


def arranged(
    layer: Any,
    names: Sequence[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    types: Mapping[str, type],
) -> Arranged:
    """How to call a layer. Only tensors may be positional arguments. A functional model with
    several inputs takes them in one structure."""
    inputs = getattr(layer, "inputs", None)
    if isinstance(layer, keras().Model) and inputs and len(inputs) > 1:
        return _in_one_structure(layer, [tensor.name for tensor in inputs], names, kwargs)
    parameters = list(inspect.signature(layer.call).parameters)
    if not set(names) <= set(parameters):
        return arrange(layer.call, names, args, kwargs, types=types)
    first = [name for name in parameters[:1] if name in names]

    def arguments(arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        by_name = {name: arrays[name] for name in names if name not in first}
        return [*(arrays[name] for name in first), *args], {**by_name, **kwargs}

    return arguments


def _in_one_structure(
    model: Any, wanted: Sequence[str], names: Sequence[str], kwargs: Mapping[str, Any]
) -> Arranged:
    order = wanted if set(wanted) <= set(names) else list(names)
    as_dict = isinstance(getattr(model, "_inputs_struct", None), dict)

    def arguments(arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if as_dict:
            return [{name: arrays[name] for name in order}], dict(kwargs)
        return [[arrays[name] for name in order]], dict(kwargs)

    return arguments


def leading(call: Any, names: Sequence[str]) -> list[str]:
    """The inputs that a call takes: those that it knows by name, or else as many as it requires.
    Other names may be values of variables, which do not exist before the first call."""
    parameters = inspect.signature(call).parameters.values()
    known = [n for n in names if any(n.partition("[")[0] == p.name for p in parameters)]
    needed = sum(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
        for p in parameters
    )
    return known or list(names[: max(1, needed)])


def is_built(layer: Any) -> bool:
    return all(part.built for part in layer._flatten_layers())


class Policies:
    """The dtype in which Keras computes: in these layers, and in layers that are made inside
    `set`."""

    def __init__(self, layers: Sequence[Any], dtype: str) -> None:
        self._dtype = dtype
        self._layers: list[tuple[Any, Any]] = []
        self._inputs: list[tuple[Any, str]] = []  # a functional model casts to their dtypes
        self.swapped = False
        self._policy: Any = None
        if keras() is None:
            return
        self._policy = keras().DTypePolicy(dtype)
        mine = (self._policy.compute_dtype, self._policy.variable_dtype)
        self._layers = [
            (layer, layer.dtype_policy)
            for layer in layers
            if (layer.compute_dtype, layer.variable_dtype) != mine
        ]
        self._inputs = [(one, one.dtype) for one in _inputs(layers) if one.dtype != dtype]
        self.swapped = bool(self._layers)

    @contextmanager
    def set(self) -> Iterator[None]:
        config = keras().config if keras() is not None else None
        if config is None:
            yield
            return
        before = config.dtype_policy(), config.floatx()
        policy = self._policy or keras().DTypePolicy(
            self._dtype
        )  # the call may have imported Keras
        config.set_dtype_policy(policy)
        config.set_floatx(self._dtype)
        for layer, _ in self._layers:
            layer.dtype_policy = self._policy
        for one, _ in self._inputs:
            one._dtype = self._dtype
        try:
            yield
        finally:
            for layer, policy in self._layers:
                layer.dtype_policy = policy
            for one, dtype in self._inputs:
                one._dtype = dtype
            config.set_dtype_policy(before[0])
            config.set_floatx(before[1])


def _inputs(layers: Sequence[Any]) -> list[Any]:
    """Symbolic inputs, which have a dtype of their own besides those of the layers."""
    tensors = [layer for layer in layers if isinstance(layer, keras().layers.InputLayer)]
    for layer in layers:
        if isinstance(layer, keras().Model):
            tensors += keras().tree.flatten(getattr(layer, "inputs", None) or [])
    return [one for one in tensors if "float" in one.dtype]
