"""The value and the whole gradient of a TensorFlow layer, as a program that holds for all inputs.

The layer runs on tensors, and its forward once more on symbols of a graph, which have no numbers:
code that cannot read a number cannot branch on it. Both must execute the same operations. What else
could make the gradient differ from the derivative of the value, or two calls differ, is looked for
and refused.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.framework import func_graph, op_callbacks, op_def_registry, ops
from tensorflow.python.framework.tensor import Tensor
from tensorflow.python.ops import custom_gradient

from gradcheck_cli.domain.dtypes import FORMATS, Array, Values, as_numbers
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.layer.capture import of_a_library
from gradcheck_cli.engines.layer.generality import (
    NEEDS_NUMBERS,
    OTHER_DTYPE,
    OTHER_INPUTS,
    in_one_thread,
    program_of_run,
    program_or_reason,
    refuse_effects,
    refuse_other_numbers,
    refuse_unknown_kinds,
)
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.lifting import OTHER_DEVICE, NotLifted
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tensorflow.custom_functions import DECORATOR
from gradcheck_cli.engines.tensorflow.kernels import OF_NUMBERS, SHAPES, ZEROS, text
from gradcheck_cli.engines.tensorflow.layer_recorder import TensorFlowLayerRecorder

_FOLDER = str(Path(tf.__file__).parent)
_DECORATORS = (DECORATOR, "_graph_mode_decorator")  # tensorflow/python/ops/custom_gradient.py
_RIGHT = frozenset((("tensorflow.python.ops.nn_impl", "swish_impl"),))
"""TensorFlow's own functions that state their derivatives, which are right."""
_RIGHT_STOPS = frozenset(("reduce_logsumexp", "moments"))
"""TensorFlow's own functions that stop a derivative where it is 0."""
_STOP, _READ = "StopGradient", "ReadVariableOp"
_SAME_ARRAY = frozenset(("Identity", "IdentityN", "EnsureShape"))
_COMMUTES = frozenset(("Mul",))
_NO_CHANGE = frozenset(("Reshape", "Sum"))
_ASKS = ("executing_eagerly", "inside_function", "is_symbolic_tensor")
"""Functions by which code can tell whether there are numbers."""
_READS = frozenset(("numpy", "_numpy", "tolist", "data", "__dlpack__", "__float__", "__int__"))
_CPU = "CPU:0"
_OWN = __name__.partition(".")[0]


def layer_program(
    wide: LayerSubject, narrow: LayerSubject, searched: Sequence[str], points: Sequence[Values]
) -> GradientProgram:
    """The operations of the layer for its value and its whole gradient, valid for all values of the
    inputs `searched`. The layer is recorded in float64 (`wide`) and compared with runs in its dtype
    (`narrow`), at its own inputs and at `points`. If this proves nothing, the result has a reason
    in place of a program."""
    return program_or_reason(lambda: _program(wide, narrow, searched, points))


def _program(
    wide: LayerSubject, narrow: LayerSubject, searched: Sequence[str], points: Sequence[Values]
) -> GradientProgram:
    refuse_unknown_kinds(narrow, searched)
    refuse_effects(narrow)
    recorded, plain = _Run(wide, {}), _Run(narrow, {})
    _refuse_others(recorded.formula, plain.formula, narrow, OTHER_DTYPE)
    for at in points:
        _refuse_others(plain.formula, _Run(narrow, at).formula, narrow, OTHER_INPUTS)
    if _without_numbers(narrow).results != plain.formula.results[:1]:
        raise NotLifted("the layer runs other operations on tensors without numbers")
    execution, span = recorded.recorder.execution, wide.request.implementation.span
    for step in execution.steps:
        step.place = None  # a node is named after its kernel
    return program_of_run(execution, recorded.forward, recorded.leaves, recorded.results, span)


def _refuse_others(one: _Formula, other: _Formula, narrow: LayerSubject, reason: str) -> None:
    """Raise NotLifted for this reason if two runs compute their results by other operations, or
    take other numbers of their own."""
    if one.results != other.results:
        raise NotLifted(reason)
    refuse_other_numbers(one.constants, other.constants, FORMATS[narrow.dtype])


class _Run:
    """One forward pass, and a backward pass for each entry of the output.

    `formula` says how the value was computed, and then each row of gradients. `results` has the
    recorded slots of these, `leaves` those of the leaves, and `forward` counts the steps of the
    value.
    """

    def __init__(self, subject: LayerSubject, at: Values) -> None:
        self.recorder = TensorFlowLayerRecorder()
        watch = _Watch(subject)
        rows = [subject.cotangents(row) for row in np.eye(subject.outputs[0].size)]
        with subject.ready(at), self.recorder.recording():
            inputs = subject.inputs(at, subject.wrt)
            leaves = {leaf.name: subject.primal(leaf.name, inputs) for leaf in subject.leaves}
            self.leaves = self.recorder.leaves(leaves)
            watch.depend({**inputs, **leaves}, subject.wrt)
            with watch.watching():
                (y,), vjp = subject.vjp(inputs, subject.wrt)
            self.forward = len(self.recorder.execution.steps)
            found = [y]
            watch.backward = True
            with watch.watching():
                for place, bars in enumerate(rows):
                    found += subject.pass_back(vjp, bars, place + 1 < len(rows))
            slots = self.recorder.slot_of
            self.results = [None if one is None else slots(one) for one in found]
        self.formula = watch.leading_to(found)


def _without_numbers(subject: LayerSubject) -> _Formula:
    """What the forward computes on symbols. Raises NotLifted if the layer tried anything that
    needs numbers, or asked whether there are any, even if it caught the error and continued."""
    watch = _Watch(subject, has_numbers=False)
    with subject.ready({}), ExitStack() as stack:
        inputs = subject.inputs({})
        stack.enter_context(func_graph.FuncGraph("layer").as_default())
        given = {name: tf.compat.v1.placeholder(x.dtype, x.shape) for name, x in inputs.items()}
        watch.depend(given, ())
        for name in _ASKS:
            asking = partial(watch.asked, getattr(tf, name), name)
            stack.enter_context(temporarily(tf, **{name: asking}))
        stack.enter_context(watch.watching())
        (y,) = subject.call(given)
    return watch.leading_to([y])


@dataclass(eq=False, slots=True)
class _Operation:
    """An operation that depends on a leaf. `digest` says what it computes: its name, what made its
    arguments, attributes, shapes and dtypes. `constants` are its arguments that depend on no
    leaf."""

    digest: str
    args: Sequence[_Made | str | None]
    constants: Sequence[Array]


@dataclass(eq=False, slots=True)
class _Made:
    """A result of an operation."""

    by: _Operation
    place: int


@dataclass(slots=True)
class _Formula:
    """What was computed to some results, in words that are the same for all numbers of the leaves,
    and the numbers in it that depend on no leaf."""

    results: Sequence[str]
    constants: Sequence[Array]


class _Watch:
    """Records the operations. `refusal` describes the first one that a program cannot represent: it
    has effects, is compiled, has another dtype or device, or uses a number whose derivative was cut
    off; or that a number was read that depends on a leaf."""

    def __init__(self, subject: LayerSubject, has_numbers: bool = True) -> None:
        self._has_numbers = has_numbers
        self._dtype = tf.as_dtype(subject.dtype)
        self.backward = False
        self.refusal = ""
        self._kept: list[Any] = []  # so that no other tensor gets its identity
        self._depending: dict[int, _Made | str] = {}  # a tensor's identity -> what made it
        self._moving: set[int] = set()  # those with a derivative by a leaf

    def depend(self, leaves: Mapping[str, Any], wrt: Sequence[str]) -> None:
        """Mark the tensors and variables on which results depend, and those of them that are
        differentiated."""
        for name, leaf in leaves.items():
            if isinstance(leaf, tf.Variable):
                self._moving |= {_identity(leaf.handle)} if name in wrt else set()
            elif isinstance(leaf, tf.Tensor):
                self._note(leaf, name, name in wrt)

    def leading_to(self, results: Sequence[Any]) -> _Formula:
        """What was computed to these results."""
        constants: list[Array] = []
        made = [None if x is None else self._depending.get(_identity(x)) for x in results]
        waiting = [x.by for x in made if isinstance(x, _Made)]
        seen: set[int] = set()
        while waiting:
            one = waiting.pop()
            if id(one) not in seen:
                seen.add(id(one))
                constants += one.constants
                waiting += [x.by for x in one.args if isinstance(x, _Made)]
        return _Formula([_words(x) for x in made], constants)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raises NotLifted after the block if anything in it was refused, even if the layer caught
        an error."""
        read, look_up = ops._EagerTensorBase._numpy, Tensor.__getattr__
        as_array = Tensor.__array__

        def numbers(tensor: Any) -> Any:
            self._read(tensor)
            return read(tensor)

        def looked_up(tensor: Any, name: str) -> Any:
            if name in _READS:
                self._refuse(f"{NEEDS_NUMBERS}: it reads `{name}`")
            return look_up(tensor, name)

        def array(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            self._read(tensor)
            return as_array(tensor, *args, **kwargs)

        with ExitStack() as stack:
            stack.enter_context(in_one_thread(self._refuse))
            stack.enter_context(temporarily(ops._EagerTensorBase, _numpy=numbers))
            stack.enter_context(temporarily(Tensor, __getattr__=looked_up, __array__=array))
            for name in _DECORATORS:
                stated = partial(self._stated, getattr(custom_gradient, name))
                stack.enter_context(temporarily(custom_gradient, **{name: stated}))
            op_callbacks.add_op_callback(self._callback)
            try:
                yield
            finally:
                op_callbacks.remove_op_callback(self._callback)
                if self.refusal:
                    raise NotLifted(self.refusal)

    def asked(self, function: Callable[..., Any], name: str, *args: Any) -> Any:
        """A call of a function by which code can tell whether there are numbers."""
        if not of_a_library(sys._getframe(1).f_globals.get("__name__")):
            self._refuse(f"{NEEDS_NUMBERS}: it asks `tf.{name}`")
        return function(*args)

    def _refuse(self, reason: str) -> None:
        self.refusal = self.refusal or reason

    def _read(self, tensor: Any) -> None:
        if _identity(tensor) in self._depending:
            self._refuse(f"{NEEDS_NUMBERS}: it reads a tensor")

    def _stated(self, decorated: Any, function: Any, *args: Any) -> Any:
        """A call of a function that states its derivative."""
        name = getattr(function, "__name__", "")
        if (getattr(function, "__module__", ""), name) not in _RIGHT:
            self._refuse(f"the derivative of `{name}` is not TensorFlow's own")
        return decorated(function, *args)

    def _note(self, tensor: Any, made: _Made | str, moving: bool) -> None:
        self._kept.append(tensor)
        self._depending[_identity(tensor)] = made
        if moving:
            self._moving.add(_identity(tensor))

    def _callback(
        self,
        name: Any,
        inputs: Any,
        attributes: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> None:
        if (graph is None) is not self._has_numbers:
            return
        name, inputs, outputs = text(name), list(inputs), list(outputs)
        if name in _SAME_ARRAY:
            self._pass_on(inputs, outputs)
            return
        if name == _READ:
            is_moving = _identity(inputs[0]) in self._moving
            self._note(outputs[0], f"variable {tuple(outputs[0].shape)}", is_moving)
            return
        if _is_same(name, inputs, outputs):
            self._pass_on(inputs[:1], outputs)
            return
        depending = [x for x in inputs if _identity(x) in self._depending]
        if name in SHAPES or (name in ZEROS and name not in OF_NUMBERS):
            return
        moving = [x for x in depending if x.dtype.is_floating and _identity(x) in self._moving]
        self._refuse(self._refusal(name, depending, moving, outputs))
        if not depending:
            return
        args = [(self._depending.get(_identity(x)), x) for x in inputs]
        words = [(_words(made), self._kind(x, made)) for made, x in args]
        if name in _COMMUTES:  # derivatives in float64 have another order
            order = sorted(range(len(args)), key=lambda i: words[i])
            args, words = [args[i] for i in order], [words[i] for i in order]
        shapes = [(tuple(y.shape), self._word(y.dtype)) for y in outputs]
        form = name, words, _attributes(name, attributes, self._dtype), shapes
        own = [x for made, x in args if made is None] if self._has_numbers else []
        constants = [as_numbers(x.numpy()) for x in own]
        operation = _Operation(_digest(form), [made for made, _ in args], constants)
        for place, y in enumerate(outputs):
            moves = bool(moving) and name != _STOP and y.dtype.is_floating
            self._note(y, _Made(operation, place), moves)

    def _pass_on(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        for x, y in zip(inputs, outputs, strict=True):
            if _identity(x) in self._depending:
                self._note(y, self._depending[_identity(x)], _identity(x) in self._moving)

    def _refusal(
        self, name: str, depending: Sequence[Any], moving: Sequence[Any], outputs: Sequence[Any]
    ) -> str:
        found = op_def_registry.get(name)
        if found is None:
            return "kernels of a compiled function are not known"
        if found.is_stateful and name != "VarHandleOp":
            return f"`{name}` has effects, or other results in each call"
        if not depending:
            return ""
        if any(y.dtype.is_floating and y.dtype != self._dtype for y in outputs):
            return f"`{name}` gives another dtype than that of the search"
        if not self._has_numbers:
            return ""
        if not all(y.device.endswith(_CPU) for y in outputs):
            return OTHER_DEVICE
        if self.backward or not moving:
            return ""
        if name == _STOP:
            return "" if _stopped_by_tensorflow() else "the layer calls `stop_gradient`"
        recorded = pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop(list(moving))
        return "" if recorded else f"`{name}` takes a number whose derivative was cut off"

    def _kind(self, x: Any, made: Any) -> tuple[Any, ...]:
        """The shape and dtype of an argument. A floating tensor that depends on no leaf may have
        any dtype, because its numbers are compared."""
        any_float = made is None and x.dtype.is_floating
        return tuple(x.shape), "number" if any_float else self._word(x.dtype)

    def _word(self, dtype: Any) -> str:
        return "dtype" if dtype == self._dtype else str(dtype.name)


def _words(made: _Made | str | None) -> str:
    """What a tensor is: a leaf, a result of an operation, or a number of the layer's own."""
    return f"{made.by.digest}[{made.place}]" if isinstance(made, _Made) else made or "number"


def _digest(form: Any) -> str:
    return hashlib.sha256(repr(form).encode()).hexdigest()


def _is_same(name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """Whether the result is the first argument: derivatives in float64 sum over no axes."""
    if name not in _NO_CHANGE or inputs[0].shape != outputs[0].shape:
        return False
    return name != "Sum" or inputs[1].shape.num_elements() == 0


def _identity(tensor: Any) -> int:
    return tensor._id if isinstance(tensor, ops.EagerTensor) else id(tensor)


def _attributes(name: str, attributes: Any, dtype: Any) -> list[tuple[str, Any]]:
    """The attributes of an operation, of a run or of a graph, with one word for the dtype. Those
    that were not given are left out."""
    flat = tuple(attributes or ())
    kinds = {one.name: one.type for one in op_def_registry.get(name).attr}
    defaults = {one.name: one.default_value for one in op_def_registry.get(name).attr}
    found: dict[str, Any] = {}
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        found[text(key)] = _plain(value)
    for word, default in defaults.items():
        if found.get(word) is None and default.WhichOneof("value"):
            found[word] = _plain(default)
    own = int(dtype.as_datatype_enum)
    return sorted(
        (word, repr("dtype" if kinds.get(word) == "type" and value == own else value))
        for word, value in found.items()
        if value is not None
    )


def _plain(value: Any) -> Any:
    """An attribute as Python numbers and text."""
    if isinstance(value, tf.compat.v1.AttrValue):
        kind = value.WhichOneof("value")
        of_graph: Any = getattr(value, kind) if kind else None
        if kind != "list":
            return _plain(of_graph)
        return [_plain(one) for _, field in of_graph.ListFields() for one in field]
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, (float, np.floating)):
        return float(np.float32(value))
    if isinstance(value, tf.DType):
        return int(value.as_datatype_enum)
    return value if isinstance(value, (bool, int, str)) or value is None else str(value).strip()


def _stopped_by_tensorflow() -> bool:
    """Whether a function of TensorFlow for which this is right stops a derivative, and not the
    user."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name in _RIGHT_STOPS and code.co_filename.startswith(_FOLDER):
            return True
        module = frame.f_globals.get("__name__")
        if not of_a_library(module) and not str(module).startswith(_OWN):
            return False
        frame = frame.f_back
    return False
