"""Casts to narrower dtypes in a TensorFlow layer: where they are, and the layer without them.

Every eager operation, including those of derivatives, passes through one of two functions. The
slower function handles inputs that the fast one does not recognise as tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import execute
from tensorflow.python.framework import op_def_registry
from tensorflow.python.ops import math_ops

from gradcheck_cli.engines.layer.casts import Cast, History, Watch, is_narrower, narrowest
from gradcheck_cli.engines.layer.custom import Passes
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tensorflow.kernels import text

_DIVIDED = "_truediv_python3"  # checks dtypes before any operation runs
_FAST, _SLOW = "TFE_Py_FastPathExecute", "execute"
_AS_THEY_ARE = ("Bitcast",)  # the same memory read as other numbers
_NARROW = (tf.float32, tf.float16, tf.bfloat16)

_KNOWN = (*_NARROW, tf.float64)

Run = Callable[[Sequence[Any], Sequence[Any]], Any]
"""Runs an operation on these inputs and attributes (names and values in turn)."""

_Around = Callable[[str, Sequence[Any], Sequence[Any], Run], Any]
"""Handles an operation: its name, inputs and attributes, and the function that runs it."""


@contextmanager
def around_operations(handle: _Around) -> Iterator[None]:
    """Pass every operation to `handle` inside the block."""
    fast, slow = getattr(pywrap_tfe, _FAST), getattr(execute, _SLOW)

    def of_fast(context: Any, name: str, label: Any, *rest: Any) -> Any:
        count = _signature(name)[0]

        def run(inputs: Sequence[Any], attributes: Sequence[Any]) -> Any:
            return fast(context, name, label, *inputs, *attributes)

        return handle(name, rest[:count], rest[count:], run)

    def of_slow(
        op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None
    ) -> Any:
        def run(mine: Sequence[Any], attributes: Sequence[Any]) -> Any:
            return slow(op_name, num_outputs, list(mine), tuple(attributes), ctx, name)

        return handle(text(op_name), inputs, attrs or (), run)

    with temporarily(pywrap_tfe, **{_FAST: of_fast}), temporarily(execute, **{_SLOW: of_slow}):
        yield


@contextmanager
def uncast() -> Iterator[None]:
    """Compute everything that depends on float64 numbers in float64 inside the block. Constants
    keep the numbers that they have in their own dtype."""
    divided = getattr(math_ops, _DIVIDED)

    def handle(name: str, inputs: Sequence[Any], attributes: Sequence[Any], run: Run) -> Any:
        if name in _AS_THEY_ARE or all(x.dtype != tf.float64 for x in tensors(inputs)):
            return run(inputs, attributes)
        types = _signature(name)[1]
        wide = list(attributes)
        for place in range(0, len(wide), 2):
            if wide[place] in types:
                wide[place + 1] = _wide(wide[place + 1])
        return run([_widened(x) for x in inputs], wide)

    def of_division(x: Any, y: Any, name: Any = None) -> Any:
        mixed = any(value.dtype == tf.float64 for value in tensors([x, y]))
        return divided(*map(_widened, (x, y)), name) if mixed else divided(x, y, name)

    with temporarily(math_ops, **{_DIVIDED: of_division}), around_operations(handle):
        yield


def casts_in_passes(passes: Passes, dtype: str) -> Sequence[Cast]:
    """The casts in a forward and a backward pass in `dtype`."""
    casts, places = Watch(dtype), Places(__name__)
    leaves = (passes.leaves[name] for name in passes.wrt)
    followed: dict[int, History] = {
        (x.handle if isinstance(x, tf.Variable) else x)._id: frozenset() for x in leaves
    }

    def handle(name: str, inputs: Sequence[Any], attributes: Sequence[Any], run: Run) -> Any:
        result = run(inputs, attributes)
        floats = [x for x in tensors(inputs) if casts.backward or x._id in followed]
        if floats:
            history: History = frozenset().union(*(followed.get(x._id, ()) for x in floats))
            before = narrowest([dtype, *(x.dtype.name for x in floats if x.dtype in _KNOWN)])
            made = [y for y in tensors([result]) if y.dtype in _KNOWN]
            for y in made:
                followed[y._id] = history
                if is_narrower(y.dtype.name, before):
                    followed[y._id] |= casts.narrowed(y.dtype.name, name, places.running())
            if not made:
                casts.leaves(history)
        return result

    with around_operations(handle):
        casts.end_forward([followed.get(y._id) for y in passes.call()])
        passes.pull()
    return casts.found()


def _widened(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_widened(part) for part in value]
    narrow = isinstance(value, tf.Tensor) and value.dtype in _NARROW
    return tf.cast(value, tf.float64) if narrow else value


def tensors(tree: Any) -> list[Any]:
    """The tensors among the inputs of an operation, also in lists. A variable is represented by its
    handle."""
    flat: list[Any] = []
    for part in tree:
        if isinstance(part, tuple | list):
            flat += tensors(part)
        elif isinstance(part, tf.Variable):
            flat.append(part.handle)
        elif isinstance(part, tf.Tensor):
            flat.append(part)
    return flat


def _wide(dtype: Any) -> Any:
    """float64 in place of a narrower floating dtype; other dtypes unchanged. A dtype may be given
    as a number."""
    return tf.float64.as_datatype_enum if dtype and tf.as_dtype(dtype) in _NARROW else dtype


@cache
def _signature(name: str) -> tuple[int, frozenset[str]]:
    """The number of inputs of an operation, and the names of its attributes that are dtypes. A
    function has neither."""
    known = op_def_registry.get(name)
    if known is None:
        return 0, frozenset()
    types = (attribute.name for attribute in known.attr if attribute.type == "type")
    return len(known.input_arg), frozenset(types)
