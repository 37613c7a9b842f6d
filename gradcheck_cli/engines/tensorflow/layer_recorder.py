"""The operations that a TensorFlow layer runs, and the user's line of each. The recorder of
formulas is extended: it finds out itself which operations belong to which array.

Every operation of the forward pass is its own node. A tape names the operation again, with its
cotangents, when it computes its gradient. Operations that a custom gradient runs are user code too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import core
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from gradcheck_cli.engines.execution import Step
from gradcheck_cli.engines.layer.recording import Annotations, Row
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tensorflow.kernels import ROWS
from gradcheck_cli.engines.tensorflow.recorder import TensorFlowRecorder
from gradcheck_cli.engines.trace.exact_kernels import elementwise

_READ, _ASSIGN = "ReadVariableOp", "AssignVariableOp"
_CHANGES = ("AssignAddVariableOp", "AssignSubVariableOp")
_FAST = "TFE_Py_FastPathExecute"
_KEEPING = ("Reshape", "Identity", "Cast", "Sum")  # elementwise if the shape is unchanged


class TensorFlowLayerRecorder(TensorFlowRecorder):
    """Records a user's code. The `node` of a step is its number among the steps of that code."""

    def __init__(self) -> None:
        super().__init__()
        self.annotations = Annotations(self.execution, row_of)
        self._places_of = Places(__name__, TensorFlowRecorder.__module__)
        self._variables: dict[int, int] = {}  # a variable's handle -> the slot of its value
        self._derived: list[Step] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        fast = getattr(pywrap_tfe, _FAST)
        with (
            super().recording(),
            temporarily(pywrap_tfe, **{_FAST: _reading_in_python(fast)}),
            temporarily(BaseResourceVariable, sparse_read=_rows, gather_nd=_entries),
        ):
            yield

    def leaves(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        """The slots of the leaves that TensorFlow sees. A captured NumPy array is a constant to
        TensorFlow."""
        seen = (tf.Tensor, tf.Variable)
        return {name: self.output(one) for name, one in arrays.items() if isinstance(one, seen)}

    def output(self, array: Any) -> int:
        """The slot of a tensor, or of the value of a variable."""
        if not isinstance(array, tf.Variable):
            return self._slot(array)
        slot = self._slot(array.read_value())
        self._variables[array.handle._id] = slot
        return slot

    def finish(self) -> None:
        """Assign the steps of derivatives to the operations of their nodes, which are known now."""
        for step in self._derived:
            if step.node is not None:
                forward = self.annotations.forward[step.node]
                self.annotations.owners.append((step, forward.results[0]))
                step.node = None

    def _slot(self, tensor: Any) -> int:
        if tensor._id not in self._places:
            known = tensor.shape.num_elements()  # None for an unknown shape
            size = int(tf.size(tensor)) if tensor.shape.rank is None else known or 0
            self.annotations.count(size, tensor.dtype)
        return super()._slot(tensor)

    def _gradient(self, name: Any, attributes: Any, *call: Any) -> Any:
        _, _, _, bars, *_ = call
        number = self._recorded.get(id(attributes), (None, None))[1]
        if number is not None and number < len(self.annotations.forward):
            for slot, bar in zip(self.annotations.forward[number].results, bars, strict=False):
                if isinstance(bar, tf.Tensor):
                    self.annotations.bars[slot] = self._slot(bar)
        return super()._gradient(name, attributes, *call)

    def _write(self, name: str, inputs: list[Any], attributes: Any, outputs: list[Any]) -> None:
        if name == _READ and inputs[0]._id in self._variables:
            self._places[outputs[0]._id] = self._variables[inputs[0]._id]
            return
        if name in _CHANGES:  # what is read later is no leaf
            self._variables.pop(inputs[0]._id, None)
        if name == _ASSIGN:
            self._variables[inputs[0]._id] = self._slot(inputs[1])
            return
        before = len(self.execution.steps)
        place = self._places_of.running()
        theirs = not self.backward or place is not None
        with self.on_behalf(len(self.annotations.forward) if theirs else self.node):
            super()._write(name, inputs, attributes, outputs)
        for step in self.execution.steps[before:]:
            step.place = place
            kept = name in _KEEPING and inputs[0].shape == outputs[0].shape
            step.elementwise = kept or (name in ROWS and elementwise(ROWS[name]))
            if not theirs:
                self._derived.append(step)
                continue
            self.annotations.add(step, stated=self.backward)


def _reading_in_python(execute: Callable[..., Any]) -> Callable[..., Any]:
    """TensorFlow's way to run an operation in C++. It refuses variables, which it would read
    without an op callback; Python then reads them."""

    def executed(*args: Any) -> Any:
        for arg in args:
            parts = arg if isinstance(arg, list | tuple) else (arg,)
            if any(isinstance(part, tf.Variable) for part in parts):
                raise core._FallbackException("a variable is read in Python")
        return execute(*args)

    return executed


def _rows(variable: Any, indices: Any, name: Any = None) -> Any:
    """`tf.gather` of the value of a variable. TensorFlow gathers from the variable itself."""
    return tf.gather(variable.read_value(), indices, name=name)


def _entries(variable: Any, indices: Any, name: Any = None) -> Any:
    return tf.gather_nd(variable.read_value(), indices, name=name)


def row_of(name: str) -> Row | None:
    return Row(ROWS[name]) if name in ROWS else None
