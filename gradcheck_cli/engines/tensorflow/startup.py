"""TensorFlow's forward mode, with the function of each operation's tangents found in less time.

An accumulator has one `tf.function` for every operation with its attributes, shapes and dtypes
(tensorflow/python/eager/forwardprop.py, _jvp_dispatch). To find it again TensorFlow describes all
of these anew, in types of its own, which takes several times as long as the function does.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import forwardprop
from tensorflow.python.eager.polymorphic_function.function_context import make_function_context
from tensorflow.python.eager.polymorphic_function.tracing_compilation import trace_function
from tensorflow.python.framework import dtypes
from tensorflow.python.framework.ops import EagerTensor

# All that is needed is asked for here: another version of TensorFlow may have other names, and
# whoever imports this must learn of it before anything has been changed.
_dispatch = forwardprop._jvp_dispatch
_traced, _LIMIT = forwardprop._TRACE_COUNT, forwardprop._TRACE_COUNT_LIMIT
_EXACT, _RELAXED = forwardprop._jvp_exact_config, forwardprop._jvp_relaxed_config

_HANDLES = {int(kind.as_datatype_enum) for kind in (dtypes.resource, dtypes.variant)}
_functions: dict[Hashable, Any] = {}  # TensorFlow never forgets them either


def find_functions_faster() -> None:
    """For all accumulators of this process; they call the same functions as before."""
    forwardprop._jvp_dispatch = _tangents
    pywrap_tfe.TFE_Py_RegisterJVPFunction(_tangents)


def _tangents(
    op: str,
    attributes: tuple[Any, ...],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    tangents: Sequence[Any],
    use_batch: bool = False,
) -> Any:
    """The tangents of the outputs. Called for every operation that an accumulator watches; None
    stands for the tangent of what has none."""
    given = (op, attributes, inputs, outputs, tangents, use_batch)
    arrays = [*inputs, *outputs, *tangents]
    if not all(map(_plain, arrays)):
        return _dispatch(*given)
    described = tuple(tuple(x) if isinstance(x, list) else x for x in attributes)
    counts = (len(inputs), len(outputs))
    key = (op, described, *counts, use_batch, make_function_context(), *map(_kind, arrays))
    function = _functions.get(key)
    if function is None:
        few = _traced.get(op, 0) < _LIMIT
        function = trace_function(given, tracing_options=_EXACT if few else _RELAXED)
        _functions[key] = function
    there = [array for array in arrays if array is not None]
    return function._call_flat(there, captured_inputs=function.captured_inputs)


def _plain(array: Any) -> bool:
    """Neither a tensor of a function that is being traced nor the handle of a variable, whose
    dtype and shape say less than TensorFlow knows of it."""
    if array is None:
        return True
    return type(array) is EagerTensor and array._datatype_enum() not in _HANDLES


def _kind(array: Any) -> Hashable:
    return None if array is None else (array._datatype_enum(), array._shape_tuple())
