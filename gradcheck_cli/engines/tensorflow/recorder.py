"""Records what TensorFlow executes: every operation of the forward pass and of the derivative.

An op callback sees each operation after it has run, also in the backward pass of a tape. The node
of a backward operation is known exactly, because TensorFlow computes the gradient of one recorded
operation at a time, by a function that can be wrapped. The tangents of an accumulator are computed
by compiled functions, in which no callback sees operations. Here the same Python code runs
uncompiled, so tangents may differ in a last digit from those of a plain run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import (
    backprop,
    backprop_util,
    context,
    execute,
    forwardprop,
    forwardprop_util,
)
from tensorflow.python.framework import op_callbacks, op_def_registry

from gradcheck_cli.domain.dtypes import Array, as_numbers, joined
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.execution import Execution, High, Observer, Step, format_named
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tensorflow.kernels import (
    CHOSEN,
    DATA_MOVEMENT,
    EXACT_SELECTIONS,
    KERNELS,
    OF_NUMBERS,
    POINTWISE,
    ROWS,
    SHAPES,
    ZEROS,
    of_pairs,
    text,
)
from gradcheck_cli.engines.trace.complex_kernels import on_parts
from gradcheck_cli.engines.trace.exact_kernels import OfRun, elementwise, on_balls, on_places

_WIDE = {
    int(narrow.as_datatype_enum): int(wide.as_datatype_enum)
    for narrow, wide in (
        *((kind, tf.float64) for kind in (tf.float16, tf.bfloat16, tf.float32)),
        (tf.complex64, tf.complex128),
    )
}


class _Conversions:
    def numpy(self, array: Any) -> Array:
        own = np.asarray(array.numpy())  # a copy
        return own if own.dtype == np.float64 else as_numbers(own)

    def native(self, values: Array, like: Any) -> Any:
        numbers = joined(values) if like.dtype.is_complex else np.asarray(values)
        with np.errstate(all="ignore"):
            return tf.constant(numbers.astype(like.dtype.as_numpy_dtype))


class TensorFlowRecorder(Observer):
    """Implements `execution.Recorder` for TensorFlow."""

    def __init__(self) -> None:
        self.execution = Execution(_Conversions())
        self._records = False
        self._pushing = False  # whether tangents are being computed
        self._places: dict[int, int] = {}  # a tensor's own number -> slot
        # The tape keeps the tuple of attributes that the callback receives, and returns it later:
        # its identity identifies the operation. `_recorded` keeps it too, with the node.
        self._sums: dict[int | None, Step] = {}  # of cotangents, by slot, not yet attributed
        self._recorded: dict[int, tuple[Any, int | None]] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        op_callbacks.add_op_callback(self._callback)
        pywrap_tfe.TFE_Py_RegisterGradientFunction(self._gradient)
        pywrap_tfe.TFE_Py_RegisterJVPFunction(_Tangents())
        try:
            with temporarily(self, _records=True):
                yield
        finally:
            pywrap_tfe.TFE_Py_RegisterJVPFunction(forwardprop._jvp_dispatch)
            pywrap_tfe.TFE_Py_RegisterGradientFunction(backprop._gradient_function)
            op_callbacks.remove_op_callback(self._callback)
            _sort(self.execution)

    def watch(self, array: Any) -> Any:
        self._slot(array)
        return array

    def slot_of(self, array: Any) -> int | None:
        return self._places.get(array._id)

    def pushing(self) -> AbstractContextManager[None]:
        """Mark code that computes tangents. Raises Unsupported if nested while recording:
        operations that run uncompiled for a tangent have no tangents themselves."""
        if self._records and self._pushing:
            raise Unsupported("a tangent of a tangent is not written down")
        return temporarily(self, _pushing=True)

    def on_behalf(self, node: int | None) -> AbstractContextManager[None]:
        return temporarily(self, node=node)

    def on_behalf_of_this(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which a later call runs for the node that is entered now."""
        node = self.node

        def later(*args: Any) -> Any:
            with self.on_behalf(node):
                return function(*args)

        return later

    def _slot(self, tensor: Any) -> int:
        slot = self._places.get(tensor._id)
        if slot is None:
            slot = self.execution.add_slot(tensor, format_named(tensor.dtype.name))
            self._places[tensor._id] = slot
        return slot

    def _gradient(self, name: Any, attributes: Any, *call: Any) -> Any:
        """The gradient of one recorded operation, run for the operation's node. Sums of its
        cotangents, made before, are assigned to the same node."""
        _, _, _, bars, *_ = call  # after the number of inputs, the inputs and the outputs
        node = self.node
        if self.backward:
            node = self._recorded.get(id(attributes), (None, None))[1]
            for bar in bars:
                self._claim(bar, node)
        with self.on_behalf(node):
            return backprop._gradient_function(name, attributes, *call)

    def _claim(self, bar: Any, node: int | None) -> None:
        """Assign the sum that made a cotangent to the node."""
        slot = self._places.get(getattr(bar, "_id", -1))
        step = self._sums.pop(slot, None)
        if step is not None:
            step.node = node

    def _callback(
        self,
        name: Any,
        inputs: Any,
        attributes: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> None:
        if graph is None:
            self._write(text(name), list(inputs), attributes, list(outputs))

    def _write(self, name: str, inputs: list[Any], attributes: Any, outputs: list[Any]) -> None:
        if name in ZEROS:
            for y in outputs:
                if _is_number(y):
                    self.execution.slots[self._slot(y)].structural = True
        floats = [x for x in inputs if _is_number(x) or x.dtype.is_bool]
        known = [x for x in inputs if x._id in self._places]
        if name in ZEROS and not (known and name in OF_NUMBERS):
            return
        if name in SHAPES or not (floats or known) or not outputs:
            return
        holes = [
            i
            for i, x in enumerate(inputs)
            if _is_number(x) or x.dtype.is_bool or x._id in self._places
        ]
        results = tuple(self._slot(y) for y in outputs)
        call = _Call(name, inputs, holes, _without_defaults(attributes), len(outputs))
        step = Step(
            name=name,
            args=tuple(self._slot(inputs[i]) for i in holes),
            results=results,
            low=call.low,
            live=call.live,
            wide=call.wide,
            exact=call.exact(outputs),
            moves=name in DATA_MOVEMENT or name in EXACT_SELECTIONS,
            elementwise=name in POINTWISE or elementwise(ROWS.get(name)),
            node=self.node,
            phase=self.phase,
        )
        self.execution.add_step(step)
        if not self.backward and attributes:
            self._recorded[id(attributes)] = attributes, self.node
        if self.backward and self.node is None:
            self._sums.update(dict.fromkeys(results, step))


def _is_number(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


_AS_THEY_WERE = ("Bitcast",)  # their meaning depends on the dtype of their input


def _without_defaults(attributes: Any) -> tuple[Any, ...]:
    """The attributes without those that have their default values."""
    flat = tuple(attributes or ())
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return tuple(part for name, value in pairs if value is not None for part in (name, value))


class _Call:
    """An operation that can run again on other arrays in its inputs `holes`."""

    def __init__(
        self,
        name: str,
        inputs: list[Any],
        holes: list[int],
        attributes: tuple[Any, ...],
        count: int,
    ) -> None:
        self._name = name
        self._rest = [None if i in holes else x for i, x in enumerate(inputs)]
        self._dtypes = [inputs[i].dtype for i in holes]
        self._holes = holes
        self._attributes = attributes
        self._count = count

    def _inputs(self, given: Sequence[Any]) -> list[Any]:
        inputs = list(self._rest)
        for i, x in zip(self._holes, given, strict=True):
            inputs[i] = x
        return inputs

    def _run(self, inputs: list[Any], attributes: tuple[Any, ...]) -> list[Any]:
        found = execute.quick_execute(
            self._name, self._count, inputs, attributes, context.context()
        )
        return list(found)

    def low(self, given: Sequence[Any]) -> list[Any]:
        return self._run(self._inputs(given), self._attributes)

    def live(self, given: Sequence[Any]) -> list[Any]:
        """Run the operation on the tapes that watch its arguments."""
        inputs = self._inputs(given)
        outputs = self._run(inputs, self._attributes)
        execute.record_gradient(self._name, inputs, self._attributes, outputs)
        return outputs

    def wide(self, given: Sequence[Array]) -> list[Array]:
        pairs = zip(given, self._dtypes, strict=True)
        tensors = [tf.constant(joined(x) if dtype.is_complex else x) for x, dtype in pairs]
        if self._name in _AS_THEY_WERE:
            narrow = [tf.cast(x, dtype) for x, dtype in zip(tensors, self._dtypes, strict=True)]
            results = self.low(narrow)
        else:
            pairs = zip(tensors, self._dtypes, strict=True)
            moved = {own.as_datatype_enum for x, own in pairs if x.dtype == tf.float64}
            results = self._run(self._inputs(tensors), self._widened(moved))
        return [as_numbers(np.asarray(y.numpy())) for y in results]

    def _widened(self, moved: Collection[int]) -> tuple[Any, ...]:
        """The attributes with float64 in place of other floating dtypes, and in place of the dtypes
        in `moved`, whose arrays are float64 now."""
        found = op_def_registry.get(self._name)
        kinds = {a.name for a in found.attr if a.type == "type"}
        wide = {**dict.fromkeys(moved, int(tf.float64.as_datatype_enum)), **_WIDE}
        pairs = zip(self._attributes[::2], self._attributes[1::2], strict=True)
        return tuple(
            part
            for name, value in pairs
            for part in (name, wide.get(int(value), value) if name in kinds else value)
        )

    def exact(self, outputs: list[Any]) -> Callable[[Sequence[High]], list[High]] | None:
        if self._name in DATA_MOVEMENT:
            return partial(on_places, self.wide)
        kernel = KERNELS.get(self._name)
        if self._name in CHOSEN:
            kernel = partial(CHOSEN[self._name], OfRun((), [y.numpy() for y in outputs]))
        places = [i for i, dtype in zip(self._holes, self._dtypes, strict=True) if dtype.is_complex]
        if places or any(y.dtype.is_complex for y in outputs):
            kernel = of_pairs(self._name)
            kernel = None if kernel is None else on_parts(kernel, places)
        if kernel is None:
            return None
        how = dict(zip(self._attributes[::2], self._attributes[1::2], strict=True))

        def on_given(*given: Any) -> Any:
            plain = [x.numpy() if isinstance(x, tf.Tensor) else x for x in self._inputs(given)]
            return kernel(*plain, **how)

        return partial(on_balls, on_given)


class _Tangents:
    """The tangents of an operation as TensorFlow's accumulators compute them, but uncompiled: the
    backward pass is linear in its cotangents, and its transpose is the forward derivative.
    (tensorflow/python/eager/forwardprop.py, _jvp_helper.) The operations of this computation have
    no tangents."""

    def __init__(self) -> None:
        self._busy = False

    def __call__(
        self, name: str, attributes: Any, inputs: Any, outputs: Any, tangents: Any, batch: bool
    ) -> list[Any]:
        result: list[Any] = [None] * len(outputs)
        if self._busy:
            return result
        with temporarily(self, _busy=True), forwardprop_util.push_forwardprop_state():
            floating = [k for k, y in enumerate(outputs) if backprop_util.IsTrainable(y)]
            found = _transposed(name, attributes, inputs, outputs, tangents, floating)
        for k, tangent in zip(floating, found, strict=True):
            result[k] = tangent
        return result


def _transposed(
    name: str, attributes: Any, inputs: Any, outputs: Any, tangents: Any, floating: list[int]
) -> list[Any]:
    moving = [i for i, x in enumerate(inputs) if backprop_util.IsTrainable(x)]
    inputs = list(inputs)
    for i in moving:
        if any(inputs[i] is x for x in inputs[:i]):  # x * x has two arguments
            inputs[i] = tf.raw_ops.Identity(input=inputs[i])
    watched = [inputs[i] for i in moving]
    with tf.GradientTape() as transposed:
        with tf.GradientTape() as tape:
            tape.watch(watched)
            execute.record_gradient(name, inputs, attributes, outputs)
        aids = [tf.ones_like(outputs[k]) for k in floating]
        transposed.watch(aids)
        bars = tape.gradient(
            [outputs[k] for k in floating],
            watched,
            aids,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        bars = [tf.convert_to_tensor(bar) for bar in bars]  # indexing gives IndexedSlices
    given = [tangents[i] for i in moving]
    return transposed.gradient(bars, aids, output_gradients=given)


def _sort(execution: Execution) -> None:
    """Move each step behind the steps whose results it needs. An accumulator reports the operations
    of a tangent before the operation that the tangent belongs to."""
    maker = {slot: step for step in execution.steps for slot in step.results}
    ordered: list[Step] = []
    done: set[int] = set()
    for last in execution.steps:
        waiting = [last]
        while waiting:
            step = waiting[-1]
            before = [maker[s] for s in step.args if s in maker and id(maker[s]) not in done]
            if id(step) in done:
                waiting.pop()
            elif before:
                waiting.extend(before)
            else:
                done.add(id(step))
                ordered.append(waiting.pop())
    execution.steps[:] = ordered
