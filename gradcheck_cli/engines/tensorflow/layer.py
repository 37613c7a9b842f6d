"""TensorFlow layers: functions, `tf.function`s, custom gradients, modules, and Keras layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gradcheck_cli.domain.dtypes import ALIGNMENT, Array, Values, ValuesOrNone, aligned
from gradcheck_cli.domain.layer import LARGE, MANY, Leaf
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.errors import WrongKind
from gradcheck_cli.engines.kit.patience import NO_COMPILER
from gradcheck_cli.engines.kit.program_vjp import ProgramVJP, Pulled
from gradcheck_cli.engines.layer.binding import OWN, Arranged, arrange, called, required_of
from gradcheck_cli.engines.layer.casts import Cast
from gradcheck_cli.engines.layer.custom import (
    CustomCall,
    GradientBarrier,
    Lines,
    UnclippedGradients,
)
from gradcheck_cli.engines.layer.declared import Declared
from gradcheck_cli.engines.layer.framework_layer import VJP, WrittenNames, differing
from gradcheck_cli.engines.layer.isolation import knowledge_of
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.loading import constructed, load_layer, not_callable
from gradcheck_cli.engines.layer.results import Results, parts_of_container
from gradcheck_cli.engines.layer.subject import (
    Call,
    CallResult,
    Layout,
    Output,
    Spare,
    SubjectRequest,
)
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tensorflow.compiler import (
    GRAPH,
    OWN_FUNCTION,
    RETRACED,
    STAGES,
    UNSIMPLIFIED,
    Compiled,
    tracings,
)
from gradcheck_cli.engines.tensorflow.custom_calls import forward_mode
from gradcheck_cli.engines.tensorflow.framework import TensorFlow
from gradcheck_cli.engines.tensorflow.graph import Graph, eagerly, maps_unrolled
from gradcheck_cli.engines.tensorflow.keras import (
    Policies,
    arranged,
    check_backend,
    is_built,
    leading,
)
from gradcheck_cli.engines.tensorflow.random_state import Randomness, watched_draws
from gradcheck_cli.engines.tensorflow.state import Constant, held_class
from gradcheck_cli.engines.tensorflow.variables import found_in, is_keras_layer, keras_layers

if TYPE_CHECKING:
    from gradcheck_cli.domain.evaluation import Mode
    from gradcheck_cli.engines.layer.recording import LayerRecorder
    from gradcheck_cli.engines.tensorflow.unsimplified import Elsewhere

R = TypeVar("R")


RUN_EAGERLY = "not compiled, because tf.config.run_functions_eagerly is switched on"
REPEATS = "two runs of the layer are the same"  # the name of what is learned
_TOO_FEW = "custom_gradient function expected to return"
_SHARED = ("float64", "float32")  # of which tensors are in NumPy's memory


class TensorFlowSubject(LayerSubject):
    """A user's layer in one dtype. Its variables stay the user's own: during a call they are
    overwritten or replaced, and restored afterwards. With `compiled`, XLA compiles the
    derivatives."""

    complex_gradients = (
        "a complex gradient of TensorFlow is dL/dRe + i dL/dIm; both parts are compared with the "
        "truth"
    )

    def __init__(self, request: SubjectRequest, compiled: bool = False) -> None:
        import tensorflow as tf

        super().__init__(request)
        self.tf = tf
        self.fw = TensorFlow({}, request.dtype)
        # XLA needs bounds of loops, which TensorFlow notes in what it traces for XLA alone
        untraced = partial(eagerly, tf) if compiled else nullcontext
        self._randomness = Randomness(tf, request.seed)
        with self._randomness.seeded():
            load_layer(request.implementation)  # a module may draw numbers when it is imported
        with self._randomness.seeded():
            self._function = self._load_callable()
            self.is_fresh = compiled or self._function is not request.implementation.live
            if self._needs_a_first_call():
                with untraced():
                    self._first_call()
        target = getattr(self._function, "call", self._function)  # of a Keras layer
        self._results = Results(
            "floating tf.Tensor",
            lambda value: tf.is_tensor(value) and not _is_rows(tf, value),
            lambda tensor: tensor.dtype.is_floating or tensor.dtype.is_complex,
            target,
            partial(_parts, tf),
            empty=request.empty,
        )
        found, arguments = found_in(tf, self._function), required_of(target)
        found = {OWN + n if n in arguments else n: one for n, one in found.items()}
        names = [name for name in request.values if name not in found]
        self._arguments = self._arranged(names)
        self.held = {
            name: held_class(tf, one, request.dtype, request.rounding)
            for name, one in found.items()
        }
        for name in found.keys() & request.values.keys():
            self.held[name].settle(request.values[name])
        self._policies = Policies(keras_layers(self._function), request.dtype)
        self._inlined = self._policies.swapped or any(one.swapped for one in self.held.values())
        self._stage = ""
        self._elsewhere: Elsewhere | None = None
        self._made: dict[tuple[str, tuple[str, ...], str], Compiled] = {}
        self._compiles = compiled and not self._inlined
        is_function = isinstance(self._function, type(tf.function(tf.identity)))
        if self._compiles:
            self.stages = STAGES
        elif is_function:
            self.stages = (NO_COMPILER, OWN_FUNCTION)
        if (self._compiles or is_function) and tf.config.functions_run_eagerly():
            self.notes += (RUN_EAGERLY,)
        self.bind_leaves(self._leaves_of(names))
        self.notes += tuple(
            f"`{leaf.name}`, which the layer captured, is not trainable: not checked"
            for leaf in self.leaves
            if leaf.role == "captured" and not leaf.differentiable
        )
        self.notes += tuple(
            f"`{name}` is a complex variable: not checked"
            for name, one in self.held.items()
            if one.value.dtype.kind == "c"
        )
        if compiled and self._inlined:
            self.notes += (
                f"{request.dtype}: not compiled, because its variables have a different dtype",
            )
        self._given = {n: self._to_keep(n, request.values[n]) for n in names}
        with untraced():
            self._bind()
        self.graph = Graph(tf, self._given, self.call, self.plain_value, self.ready, self._assigned)

    # Binding

    def _load_callable(self) -> Any:
        """The object to call. The remaining keyword arguments are passed to every call."""
        implementation = self.request.implementation
        layer = load_layer(implementation)
        check_backend()
        layer, self._args, self._kwargs = constructed(layer, implementation)
        check_backend()
        if not callable(layer):
            raise not_callable(layer, implementation)
        return layer

    def _arranged(self, names: Sequence[str], **more: Any) -> Arranged:
        kwargs, types = {**self._kwargs, **more}, self.request.implementation.types
        if is_keras_layer(self._function):
            return arranged(self._function, names, self._args, kwargs, types)
        return arrange(self._function, names, self._args, kwargs, types=types)

    def _needs_a_first_call(self) -> bool:
        """Whether the layer or module may create its variables only when it is called."""
        if is_keras_layer(self._function):
            return not is_built(self._function)
        return isinstance(self._function, self.tf.Module)

    def _first_call(self) -> None:
        """Call the layer in the dtype in which its author would call it. Changes of variables that
        existed before are undone."""
        tf, layer, values = self.tf, self._function, self.request.values
        more = {}
        if is_keras_layer(layer):
            dtype, call = layer.compute_dtype, layer.call
            if "training" in inspect.signature(call).parameters:
                more["training"] = False  # state is created, but not changed
        else:
            dtypes = [v.dtype.name for v in layer.variables if v.dtype.is_floating]
            dtype, call = (dtypes or ["float32"])[0], layer.__call__
        names = leading(call, list(values))
        given = {
            name: self._in_complex(name, tf.cast(values[name], dtype))
            if values[name].dtype.kind == "f"
            else values[name]
            for name in names
        }
        before = [(variable, variable.numpy()) for variable in layer.variables]
        args, kwargs = self._arranged(names, **more)(given)
        with np.errstate():  # which the layer may set
            called(layer, args, kwargs)
        for variable, value in before:
            variable.assign(value)

    def _leaves_of(self, names: Sequence[str]) -> Iterator[Leaf]:
        for name in names:
            value = self.request.values[name]
            yield Leaf(name, "input", value, value.dtype.kind == "f")
        for name, held in self.held.items():
            if held.floating:
                yield Leaf(name, held.found.role, held.value, held.found.differentiable)

    def _bind(self) -> None:
        """Run the layer twice. This shows what the outputs are, which variables a run writes to,
        whether there are random numbers that seeding does not reset, and what is traced again. Once
        is enough for a layer that did the same twice in another dtype."""
        self.outputs: tuple[Output, ...] = ()
        with self.ready({}):
            before = {name: held.now() for name, held in self.held.items()}
            arrays = self.call(self.inputs({}))
            for name, held in self.held.items():
                held.written = held.now() != before[name]
            self.outputs = self.described(arrays)
            self.notes += self._results.notes
            first = self.flat(arrays)
            seeded = any(held.found.seed and held.written for held in self.held.values())
        learned = knowledge_of(self.request.implementation.live)
        if learned.get(REPEATS):
            self.random = False
            return
        with self.ready({}), tracings(self.tf) as again:
            second = self.flat(self.call(self.inputs({})))
            # the first run may import modules that draw random numbers
            self.random = seeded or self._randomness.has_drawn()
        self.notes += tuple(RETRACED.format(name) for name in again)
        if not np.array_equal(first, second, equal_nan=True):
            self.random = self._randomness.streams = True
        learned[REPEATS] = not (self.random or again)

    # State

    @contextmanager
    def ready(self, values: Values) -> Iterator[None]:
        with ExitStack() as stack:
            for name, one in self.held.items():
                stack.enter_context(one.at(values.get(name)))
            stack.enter_context(self._policies.set())
            stack.enter_context(self._randomness.seeded())
            if self._inlined or self.request.uncast:
                stack.enter_context(eagerly(self.tf))
            if self.request.uncast:
                from gradcheck_cli.engines.tensorflow.casts import uncast

                stack.enter_context(uncast())
            yield

    @contextmanager
    def _assigned(self, values: Values) -> Iterator[None]:
        """Set only the variables to their values, which is all that a graph of the layer needs."""
        with ExitStack() as stack:
            for name, held in self.held.items():
                if name in values or held.restless:
                    stack.enter_context(held.at(values.get(name)))
            yield

    def seeded(self) -> AbstractContextManager[Any]:
        return self._randomness.seeded()

    @contextmanager
    def separate_functions(self) -> Iterator[None]:
        with self.ready({}), eagerly(self.tf):
            yield

    @contextmanager
    def at_stage(self, stage: str) -> Iterator[None]:
        running = eagerly(self.tf) if stage == NO_COMPILER else nullcontext()
        with temporarily(self, _stage=stage), running, self._in_stage(stage):
            yield

    @contextmanager
    def _in_stage(self, stage: str) -> Iterator[None]:
        """Run in the process of a stage inside the block, if the stage has its own."""
        if stage != UNSIMPLIFIED:
            yield
            return
        from gradcheck_cli.engines.tensorflow.unsimplified import unsimplified_process

        with unsimplified_process(self.request) as process, temporarily(self, _elsewhere=process):
            yield

    @contextmanager
    def operation_by_operation(self) -> Iterator[None]:
        with eagerly(self.tf), maps_unrolled(self.tf):
            yield

    # Arrays

    def inputs(
        self, values: Values, wrt: Sequence[str] = (), layout: Layout = "contiguous"
    ) -> dict[str, Any]:
        """The input tensors. Nothing writes to them, but a tape identifies a tensor by its object,
        so each call gets new ones."""
        made = self.spare_array if isinstance(values, Spare) else self.leaf_array
        return {
            name: made(name, values[name]) if name in values else self._at_hand(name, base)
            for name, base in self._given.items()
        }

    def _to_keep(self, name: str, values: Array) -> Any:
        """A leaf at its own values, or None if it is large: each call then makes a new tensor,
        because one that stays would add to the memory of every call."""
        return None if values.size >= LARGE else self.leaf_array(name, values)

    def _at_hand(self, name: str, base: Any) -> Any:
        if base is None:
            return self.leaf_array(name, self.request.values[name])
        return self.tf.identity(base)

    def leaf_array(self, name: str, values: Array) -> Any:
        """A tensor of many numbers, made with one copy. `tf.constant` makes two."""
        if values.size < MANY or values.dtype.kind != "f" or self.dtype not in _SHARED:
            return self.fw.array(values)
        made = aligned(values.shape, np.dtype(self.dtype))
        made[...] = values
        return self.spare_array(name, made)

    def spare_array(self, name: str, values: Array) -> Any:
        flags, is_same = values.flags, values.dtype == self.dtype
        is_alone = flags.c_contiguous and flags.writeable and values.size >= MANY
        if not (is_same and is_alone) or values.ctypes.data % ALIGNMENT:
            return self.leaf_array(name, values)
        return self.tf.experimental.dlpack.from_dlpack(values.__dlpack__())

    def primal(self, name: str, inputs: Mapping[str, Any]) -> Any:
        return inputs[name] if name in inputs else self.held[name].source

    def cotangent(self, part: Array, output: Output, layout: Layout) -> Any:
        return self.tf.cast(self.tf.constant(part), output.dtype)

    def call(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Call the layer, and return its outputs, complex ones as pairs. Sparse tensors and
        IndexedSlices become dense tensors with zeros. Ragged tensors, and IndexedSlices of unknown
        size, give their rows."""
        tf = self.tf
        args, kwargs = self._arguments(
            {name: self._in_complex(name, inputs[name]) for name in self._given}
        )
        outputs = {}
        with np.errstate():
            result = called(self._function, args, kwargs)
        for name, array in self._results.read(result):
            if isinstance(array, tf.SparseTensor):
                array = tf.sparse.to_dense(array)
            elif isinstance(array, tf.RaggedTensor):
                array = array.flat_values
            array = tf.convert_to_tensor(array)
            if array.dtype.is_complex:
                array = tf.stack([tf.math.real(array), tf.math.imag(array)], axis=-1)
                self.complex_outputs.add(name)
            outputs[name] = array
        self.output_names = list(outputs)
        return list(outputs.values())

    def _in_complex(self, name: str, array: Any) -> Any:
        """The argument of the layer: complex numbers in place of their parts."""
        if name not in self.request.complex_inputs:
            return array
        return self.tf.complex(array[..., 0], array[..., 1])

    def value(self, values: Values) -> Array:
        constant = any(isinstance(self.held.get(name), Constant) for name in values)
        if self.is_held or self.request.uncast or self.random or constant:  # constants of a graph
            return super().value(values)
        found = self.graph.value(values)
        return super().value(values) if found is None else found

    # Passes

    def run(self, call: Call) -> CallResult:
        return self._in_its_process(super().run, call)

    def jvp(self, tangents: Values) -> Array | None:
        return self._in_its_process(super().jvp, tangents)

    def hvp(
        self, mode: Mode, row: Array, tangents: Values, along: Values | None = None
    ) -> dict[str, Array | None]:
        return self._in_its_process(super().hvp, mode, row, tangents, along)

    def second_tangent(self, row: Array, firsts: Values, tangents: Values) -> float | None:
        return self._in_its_process(super().second_tangent, row, firsts, tangents)

    def _in_its_process(self, method: Callable[..., R], *args: Any) -> R:
        """The result of a method, computed in the process of the stage if the stage has its own."""
        if self._elsewhere is None:
            return method(*args)
        return self._elsewhere.ran(self.wrt, method.__name__, *args)

    def evaluated(
        self, what: str, names: tuple[str, ...], function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Compile the function once for all points."""
        if not self._compiles or self.tf.config.functions_run_eagerly():
            return function
        key = what, names, self._stage
        if key not in self._made:
            self._made[key] = Compiled(self.tf, function, xla=self._stage != GRAPH)
        return self._made[key]

    def vjp(self, inputs: Mapping[str, Any], wrt: Sequence[str]) -> tuple[list[Any], VJP]:
        plain = super().vjp
        if not self._compiles or self.tf.config.functions_run_eagerly():
            return plain(inputs, wrt)

        def pulled(inputs: dict[str, Any], cotangents: list[Any]) -> Pulled:
            arrays, vjp = plain(inputs, wrt)
            return arrays, None, vjp(cotangents), {}

        program = partial(self.evaluated(pulled.__name__, tuple(wrt), pulled), dict(inputs))
        made = ProgramVJP(program, self.cotangents(self.ones))
        return made.values[0], made

    def _forward(
        self, inputs: Mapping[str, Any], wrt: Sequence[str], tracking: bool
    ) -> tuple[list[Any], Any]:
        if tracking:
            return super()._forward(inputs, wrt, tracking)
        return self.evaluated("value", (), self.call)(dict(inputs)), None

    def learns(self, error: Exception, first: bool, call: Call) -> bool:
        """Note that a `tf.py_function` supports one gradient per run."""
        if first or self.runs_once or not isinstance(error, self.tf.errors.UnknownError):
            return False
        self.runs_once = True
        return True

    def pass_back(self, vjp: VJP, cotangents: Sequence[Any], keep: bool) -> list[Any]:
        try:
            return super().pass_back(vjp, cotangents, keep)
        except ValueError as error:
            if _TOO_FEW not in str(error):
                raise
            said = "a custom gradient does not give a gradient for each of its inputs"
            raise WrongKind(said) from error

    def watch(self, arrays: Mapping[str, Any]) -> WrittenNames:
        return differing(lambda: {n: one.now() for n, one in self.held.items() if one.floating})

    def watch_draws(self) -> AbstractContextManager[Any]:
        return watched_draws()

    def has_drawn(self, inputs: Mapping[str, Any], draws: Any) -> bool:
        return draws.seen or self._randomness.has_drawn() or self.random

    def forward_mode(self, names: Sequence[str]) -> AbstractContextManager[Any]:
        return forward_mode()

    # What is inside

    def recorder(self) -> LayerRecorder:
        from gradcheck_cli.engines.tensorflow.layer_recorder import TensorFlowLayerRecorder

        return TensorFlowLayerRecorder()

    def gradient_program(
        self, narrow: Any, searched: Sequence[str], points: Sequence[Values]
    ) -> GradientProgram:
        from gradcheck_cli.engines.tensorflow.layer_program import layer_program

        return layer_program(self, narrow, searched, points)

    def casts(self) -> Sequence[Cast]:
        from gradcheck_cli.engines.tensorflow.casts import casts_in_passes

        with self.passes(self.ones) as passes:
            return casts_in_passes(passes, self.dtype)

    def functions(self, row: Array | None = None) -> Sequence[CustomCall]:
        from gradcheck_cli.engines.tensorflow.custom_functions import custom_calls

        with self.passes(row, derived=row is not None) as passes:
            return custom_calls(passes, self.held)

    def lines(self, row: Array) -> Lines:
        """The line of the first random draw. TensorFlow has no arrays that a layer could write
        to."""
        with self.passes(row) as passes, watched_draws() as draws:
            passes.call()
        return Lines(draws=draws.place)

    @property
    def samplers(self) -> frozenset[str]:
        return frozenset({"RandomGamma", "StatelessRandomGammaV2", "StatelessRandomGammaV3"})

    def uncut(self, row: Array) -> tuple[ValuesOrNone, Sequence[GradientBarrier]]:
        from gradcheck_cli.engines.tensorflow.detached import uncut

        def run() -> dict[str, Array | None]:
            with self.passes(row) as passes:
                passes.call()
                return {
                    name: None if grad is None else self.fw.numpy(grad).reshape(-1)
                    for name, grad in zip(passes.wrt, passes.pull(), strict=True)
                }

        return uncut(run)

    def unclipped_gradients(self, rows: Array) -> Sequence[UnclippedGradients]:
        from gradcheck_cli.engines.tensorflow.bounds import unclipped_gradients

        def gradients() -> ValuesOrNone:
            with eagerly(self.tf):
                return self.run(Call(cotangents=rows)).gradients

        with self.passes() as passes:
            followed = [passes.leaves[name] for name in passes.wrt]
            return unclipped_gradients(followed, passes.call, gradients)

    def declared_call(self, declared: Declared) -> Callable[[dict[str, Any]], list[Any]]:
        from gradcheck_cli.engines.tensorflow.declared import holding

        def call(inputs: dict[str, Any]) -> list[Any]:
            with eagerly(self.tf), holding(declared):
                return self.call(inputs)

        return call


def _is_rows(tf: Any, value: Any) -> bool:
    """Whether the value holds rows of a matrix of unknown size."""
    return isinstance(value, tf.IndexedSlices) and value.dense_shape is None


def _parts(tf: Any, container: Any) -> Iterator[tuple[str, Any]]:
    if _is_rows(tf, container):
        yield ".values", container.values
    else:
        yield from parts_of_container(container)
