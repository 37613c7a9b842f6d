"""Replacements in TensorFlow that save time: imports that no derivative needs wait until something
asks for them, and forward mode finds the tangent function of each operation faster."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradcheck_cli.engines.kit.startup import StandIn, replaces

# The share of a run's processor time that each saves, by benchmarks/replacements.py.
IMPORTS = "tensorflow-imports"  # 21 % of one formula, 19 % of 30
TANGENTS = "tensorflow-tangents"  # 11 % of 30 formulas

# TensorFlow works without these: its converter for phones (tensorflow/lite) does without JAX,
# `tf.keras` imports Keras at its first use anyway, and the old Keras in TensorFlow does without
# SciPy's sparse arrays.
_TRIED = ("jax", "keras.src", "scipy")
_AGAIN = (  # the whole API, twice; the converter for phones
    "tensorflow._api.v2.compat.v1",
    "tensorflow._api.v2.compat.v2",
    "tensorflow._api.v2.lite",
)
_FOREIGN = ("h5py", "requests")  # for files and cloud machines


@contextmanager
def only_tensorflow() -> Iterator[None]:
    """Import TensorFlow inside the block without other frameworks, its old API, and modules that do
    not compute. Together these take a third of the time of the import."""
    if not replaces(IMPORTS):
        yield
        return
    first = "tensorflow" not in sys.modules
    hidden = [name for name in _TRIED if name not in sys.modules]
    later = [StandIn(n) for n in (*_AGAIN, *_FOREIGN) if first and n not in sys.modules]
    sys.modules.update((module.__name__, module) for module in later)
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type] # None: "not to be imported"
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
        for module in later:
            if module.__name__ in _FOREIGN or "tensorflow" not in sys.modules:
                module.leave()


def find_functions_faster() -> None:
    """Speed up all accumulators of this process. They call the same functions as before.

    Raises ImportError or AttributeError, before any change, if this version of TensorFlow lacks
    what is needed.
    """
    if not replaces(TANGENTS):
        return
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import forwardprop

    tangents = Tangents()
    forwardprop._jvp_dispatch = tangents
    pywrap_tfe.TFE_Py_RegisterJVPFunction(tangents)


class Tangents:
    """The tangents of an operation's outputs, in place of TensorFlow's own `_jvp_dispatch`.

    An accumulator has one `tf.function` for each operation with its attributes, shapes and dtypes
    (tensorflow/python/eager/forwardprop.py). To find the function again, TensorFlow describes all
    of these in its own types, which takes several times as long as the function does.
    """

    def __init__(self) -> None:
        from tensorflow.python.eager import forwardprop
        from tensorflow.python.eager.polymorphic_function import tracing_compilation
        from tensorflow.python.eager.polymorphic_function.function_context import (
            make_function_context,
        )
        from tensorflow.python.framework import dtypes
        from tensorflow.python.framework.ops import EagerTensor

        self._dispatch = forwardprop._jvp_dispatch
        self._traced, self._limit = forwardprop._TRACE_COUNT, forwardprop._TRACE_COUNT_LIMIT
        self._exact, self._relaxed = forwardprop._jvp_exact_config, forwardprop._jvp_relaxed_config
        self._context, self._tensor = make_function_context, EagerTensor
        self._handles = {int(k.as_datatype_enum) for k in (dtypes.resource, dtypes.variant)}
        self.trace_function = tracing_compilation.trace_function
        self.functions: dict[Hashable, Any] = {}  # TensorFlow never forgets them either

    def __call__(
        self,
        op: str,
        attributes: tuple[Any, ...],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        tangents: Sequence[Any],
        use_batch: bool = False,
    ) -> Any:
        """Compute the tangents of an operation that an accumulator watches. None represents a
        missing tangent."""
        given = (op, attributes, inputs, outputs, tangents, use_batch)
        arrays = [*inputs, *outputs, *tangents]
        if not all(map(self._is_described, arrays)):
            return self._dispatch(*given)
        described = tuple(tuple(x) if isinstance(x, list) else x for x in attributes)
        counts = (len(inputs), len(outputs))
        key = (op, described, *counts, use_batch, self._context(), *map(_kind, arrays))
        function = self.functions.get(key)
        if function is None:
            few = self._traced.get(op, 0) < self._limit
            options = self._exact if few else self._relaxed
            function = self.trace_function(given, tracing_options=options)
            self.functions[key] = function
        there = [array for array in arrays if array is not None]
        return function._call_flat(there, captured_inputs=function.captured_inputs)

    def _is_described(self, array: Any) -> bool:
        """Whether the array is neither a tensor of a function that is being traced nor the handle
        of a variable: dtype and shape do not describe a handle fully."""
        if array is None:
            return True
        return type(array) is self._tensor and array._datatype_enum() not in self._handles


def _kind(array: Any) -> Hashable:
    return None if array is None else (array._datatype_enum(), array._shape_tuple())
