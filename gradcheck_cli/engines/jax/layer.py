"""JAX layers: functions, also with `jax.custom_vjp` or `jax.custom_jvp`, and callable objects."""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import (
    FORMATS,
    Array,
    Values,
    ValuesOrNone,
    as_pairs,
    identical,
    joined,
)
from gradcheck_cli.domain.large_arrays import any_nonzero
from gradcheck_cli.domain.layer import LARGE, Leaf
from gradcheck_cli.domain.thresholds import OPERATIONS
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.jax.modes import NO_LOOP, LayerJax, advising, no_gradient, no_jvp
from gradcheck_cli.engines.jax.stages import JIT_DISABLED, RETRACED, SIMPLIFIER, STAGES, UNOPTIMISED
from gradcheck_cli.engines.kit.patience import NO_COMPILER
from gradcheck_cli.engines.layer.binding import BadCall, arrange, called
from gradcheck_cli.engines.layer.casts import Cast, Watch
from gradcheck_cli.engines.layer.constants import Constants
from gradcheck_cli.engines.layer.declared import Declared
from gradcheck_cli.engines.layer.isolation import Randomness
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.loading import constructed, load_layer, not_callable
from gradcheck_cli.engines.layer.results import Results
from gradcheck_cli.engines.layer.reused_subjects import leave
from gradcheck_cli.engines.layer.subject import (
    Call,
    CallResult,
    Layout,
    Output,
    Spare,
    SubjectRequest,
    each_jvp,
)
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tracebacks import raise_if_internal

if TYPE_CHECKING:
    from gradcheck_cli.domain.search import GradientProgram
    from gradcheck_cli.engines.jax.wide import Pure
    from gradcheck_cli.engines.layer.custom import CustomCall, GradientBarrier, UnclippedGradients
    from gradcheck_cli.engines.layer.recording import Recording
    from gradcheck_cli.engines.layer.rewriting import Expression, Seen

DRAWING = ("random_bits", "random_gamma", "threefry2x32", "rng_bit_generator", "rng_uniform")
"""Primitives that draw random numbers. Nothing else shows a draw, because keys are ordinary
arguments."""

VALUE = "value"  # what is evaluated if no gradient is requested

LOOPED_S = 1.0  # processor time in finite differences after which a program is compiled


class JaxSubject(LayerSubject):
    """A user's function in one dtype; with `compiled`, under `jax.jit`.

    JAX's arrays cannot be written to, and JAX chooses their memory layout. The checks of writes and
    layouts in a Call therefore always pass.
    """

    fw: LayerJax
    no_reverse = NO_LOOP
    complex_gradients = (
        "a complex gradient of JAX is dL/dRe - i dL/dIm, the conjugate of PyTorch's; both parts "
        "are compared with the truth"
    )
    every_output_has_a_cotangent = True

    def __init__(self, request: SubjectRequest, compiled: bool) -> None:
        import jax

        from gradcheck_cli.engines.jax.settings import settings_restored
        from gradcheck_cli.engines.jax.trees import Tree, is_complex, parts

        super().__init__(request)
        self.jax = jax
        self.fw = LayerJax(request.dtype)
        self._compiled, self._stage = compiled, ""
        if compiled:
            self.stages = (*STAGES, SIMPLIFIER)
        self._random = Randomness(request.seed)
        self._random.restart()  # a module may draw numbers when it is imported
        with settings_restored(), jax.enable_x64(True):  # gradcheck rounds the module's arrays
            load_layer(request.implementation)
        self._random.restart()
        with settings_restored():  # without x64: `jax.random` draws other numbers in float64
            self._function, args, kwargs = self._layer_and_arguments()
        self.is_fresh = compiled or self._function is not request.implementation.live
        is_jitted = isinstance(self._function, type(jax.jit(lambda: None)))
        if not compiled and is_jitted:
            self.stages = (NO_COMPILER, "its jax.jit")
        if (compiled or is_jitted) and jax.config.jax_disable_jit:
            self.notes += (JIT_DISABLED,)
        with self._wide():
            self._tree = Tree(self._function)
            self._results = Results(
                "floating jax.Array",
                lambda part: isinstance(part, jax.Array | np.ndarray),
                lambda array: jax.numpy.issubdtype(array.dtype, jax.numpy.inexact),
                self._function,
                parts,
                empty=request.empty,
            )
            self._names = [name for name in request.values if name not in self._tree.arrays]
            held = {name for name, array in self._tree.arrays.items() if is_complex(array)}
            self._complex = request.complex_inputs | held
            self._arguments = arrange(self._function, self._names, args, kwargs)
            self._static = self._static_inputs()
            self._own = self._values()
            self._base: dict[str, Any] = {}
            self._constants = self._captured()
        self.notes += self._constants.notes
        self._whole = compiled or request.uncast
        self._made: dict[tuple[str, tuple[str, ...], str], Callable[..., Any]] = {}
        self._looped_s = 0.0
        self._program: Callable[..., Any] | None = None
        self.bind_leaves(self._leaves_of())
        self._every = tuple(name for name in self.wrt if name not in request.data)
        self._is_pulled = compiled and not request.uncast and bool(self._every)
        with self.ready({}):
            inputs = self.inputs({})
            if self._is_pulled:  # the cotangents of its first run have the shapes of its outputs
                shapes = self.evaluated(VALUE, (), self.call).shapes(inputs)
                self.outputs = self.described(shapes, numbered=False)
            self.outputs = self.described(self._values_at(inputs))
        self.notes += self._results.notes

    def _leaves_of(self) -> Iterator[Leaf]:
        for name, own in self._own.items():
            if name in self._names:
                yield Leaf(name, "input", own, own.dtype.kind == "f")
            else:
                yield Leaf(name, "parameter", own, True, is_complex=name in self._complex)
        yield from self._constants.leaves()

    def _layer_and_arguments(self) -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
        """The layer, and the arguments with which it is called besides its inputs."""
        implementation = self.request.implementation
        layer, args, kwargs = constructed(load_layer(implementation), implementation)
        if not callable(layer):
            raise not_callable(layer, implementation)
        return layer, args, kwargs

    def _values(self) -> dict[str, Array]:
        """The inputs, and the layer's own arrays if it is a tree of arrays. Arrays without a value
        in the request keep their numbers, rounded. Raises BadCall for a value of another shape."""
        given, own = (
            self.request.values,
            {name: self.request.values[name] for name in self._names},
        )
        rounding = FORMATS[self.request.rounding]
        for name, array in self._tree.arrays.items():
            numbers = np.asarray(array)
            pairs = as_pairs(numbers) if name in self._complex else numbers.astype(np.float64)
            value = rounding.round(pairs)
            own[name] = given.get(name, value)
            if own[name].shape != value.shape:
                raise BadCall(
                    f"`{name}` is given with shape {own[name].shape}, but has shape {value.shape}"
                )
        return own

    def _static_inputs(self) -> dict[str, Any]:
        """The inputs that `jax.jit` requires as plain numbers (`static_argnames`). Adds a note."""
        static = getattr(getattr(self._function, "_jit_info", None), "static_argnames", ())
        values = {name: self.request.values[name] for name in self._names if name in static}
        found = {n: x.item() for n, x in values.items() if x.dtype.kind != "f" and x.size == 1}
        self.notes += tuple(RETRACED.format(name) for name in found)
        return found

    def _captured(self) -> Constants:
        """The floating arrays that the function reaches, except its parameters."""
        from gradcheck_cli.engines.jax.trees import is_floating

        parameters = set(map(id, self._tree.arrays.values()))

        def is_constant(value: Any) -> bool:
            return id(value) not in parameters and is_floating(value)

        return Constants((self._function,), is_constant, self.request.rounding, self.fw.array)

    # State

    def _wide(self) -> Any:
        """Enable float64 if it is requested, and otherwise run JAX as a user has it: without x64,
        every array that is made from nothing is float32."""
        return self.jax.enable_x64(self.dtype == "float64")

    @contextmanager
    def ready(self, values: Values) -> Iterator[None]:
        from gradcheck_cli.engines.jax.programs import programs_known
        from gradcheck_cli.engines.jax.settings import settings_restored

        self._random.restart()
        with self._constants.in_place(), settings_restored(), self._wide(), programs_known():
            yield

    def _draws(self, inputs: Mapping[str, Any]) -> bool:
        """Whether the program draws random numbers. A layer that branches on its numbers in Python
        has no program; random draws then show as runs that differ."""
        from gradcheck_cli.engines.jax.wide import equations

        errors = self.jax.errors
        try:
            program = self.jax.make_jaxpr(self.call)(inputs)
        except (errors.JAXTypeError, errors.JAXIndexError):  # the layer needs the numbers
            return False
        return any(one.primitive.name in DRAWING for one in equations(program))

    # Arrays

    def inputs(
        self, values: Values, wrt: Sequence[str] = (), layout: Layout = "contiguous"
    ) -> dict[str, Any]:
        made = self.spare_array if isinstance(values, Spare) else self.leaf_array
        return {
            name: made(name, values[name]) if name in values else self._at_hand(name, own)
            for name, own in self._own.items()
        }

    def _at_hand(self, name: str, own: Array) -> Any:
        """A leaf at its own values. The array cannot be written to, but a call that donated it may
        have deleted it. A large array is made anew each time, because a kept one may take as much
        memory; where it can, it shares the memory of the numbers."""
        if own.size >= LARGE:
            return self.spare_array(name, own)
        made = self._base.get(name)
        if made is None or made.is_deleted():
            made = self._base[name] = self.fw.array(own)
        return made

    def spare_array(self, name: str, values: Array) -> Any:
        same = values.dtype == self.dtype and values.flags.c_contiguous
        return self.jax.device_put(values) if same else self.leaf_array(name, values)

    def cotangent(self, part: Array, output: Output, layout: Layout) -> Any:
        return self.jax.device_put(part.astype(self.jax.numpy.dtype(output.dtype)))

    def call(self, inputs: Mapping[str, Any]) -> list[Any]:
        jax = self.jax
        arrays = {
            name: jax.lax.complex(array[..., 0], array[..., 1])
            if name in self._complex and not jax.numpy.iscomplexobj(array)
            else array
            for name, array in inputs.items()
        }
        given = {name: self._static.get(name, arrays[name]) for name in self._names}
        args, kwargs = self._arguments(given)
        with np.errstate():  # which the function may set
            result = called(self._tree.filled(arrays), args, kwargs)
        outputs: dict[str, Any] = {}
        for name, array in self._results.read(result):
            if jax.numpy.issubdtype(array.dtype, jax.numpy.complexfloating):
                array = jax.numpy.stack([array.real, array.imag], axis=-1)
                self.complex_outputs.add(name)
            # converting a JAX array again would add an operation to the program
            outputs[name] = array if isinstance(array, jax.Array) else jax.numpy.asarray(array)
        self.output_names = list(outputs)
        return list(outputs.values())

    def evaluated(self, what: str, names: tuple[str, ...], function: Callable[..., Any]) -> Any:
        """The first function that was made for this key, in the form in which it runs."""
        key = what, names, self._stage
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._as_evaluated(what, names, function)
        return made

    @contextmanager
    def at_stage(self, stage: str) -> Iterator[None]:
        with temporarily(self, _stage=stage), self.jax.disable_jit(stage == NO_COMPILER):
            yield

    def _as_evaluated(
        self, what: str, names: tuple[str, ...], function: Callable[..., Any]
    ) -> Callable[..., Any]:
        if self.request.uncast:
            from gradcheck_cli.engines.jax.casts import Uncast

            return Uncast(function)
        if not self._compiled or self._stage == NO_COMPILER:
            return function
        from gradcheck_cli.engines.jax.programs import Compiled

        is_judged = self.dtype == self.request.rounding and what != VALUE
        options = STAGES.get(self._stage) or (None if is_judged else UNOPTIMISED)
        if what == VALUE:
            return Compiled(function, self._function, options)
        value = self.evaluated(VALUE, (), self.call)

        def known_by(inputs: Any, *others: Any) -> Hashable | None:
            found: Hashable | None = value.determines_derivatives(inputs)
            return None if found is None else (what, names, found)

        return Compiled(function, self._function, options, known_by)

    def _values_at(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs. If they are judged as compiled, they come with the gradients, as in a
        training step, so that nothing is compiled for the value alone."""
        is_judged = self.dtype == self.request.rounding and self._stage != NO_COMPILER
        if self._is_pulled and is_judged:
            try:
                return list(self._pulled(inputs, self._every, [self.ones])[0][0])
            except Exception as error:  # a run with gradients raises it again
                raise_if_internal(error)
                self._is_pulled = False
        return self._alone(inputs)

    def _alone(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs without gradients."""
        return self.evaluated(VALUE, (), self.call)(inputs)

    def plain_value(self, values: Values) -> Array:
        with self.ready({}):
            return self._value_at(values)

    def _value_at(self, values: Values) -> Array:
        """The value at these leaves. The caller must be inside `ready`."""
        self._random.restart()
        plain = values
        if self._complex:
            plain = {n: x for n, x in values.items() if n not in self._complex}
        inputs = self.inputs(plain)
        for name in self._complex:  # NumPy takes a hundredth of the time
            pairs = values.get(name, self._own[name]).astype(self.dtype)
            inputs[name] = self.jax.device_put(joined(pairs))
        return self.flat(self._alone(inputs))

    def several(self, many: Sequence[Values]) -> Array:
        if self._looped_s > LOOPED_S and not self.is_held:
            self._looped_s = -math.inf  # this is tried once
            self._program = self._traced(many[0])
        if self._program is not None and not self.is_held:
            with self.ready({}):
                return np.stack([self.flat(self._program(self.inputs(one))) for one in many])
        started = time.process_time()
        if self.is_held or self._constants.found:
            outputs = super().several(many)
        else:
            self.stencils.looped += len(many)
            with self.ready({}):  # once: only random numbers can differ between calls
                outputs = np.stack([self._value_at(values) for values in many])
        self._looped_s += time.process_time() - started
        return outputs

    def _traced(self, values: Values) -> Callable[..., Any] | None:
        """The value as a compiled program: otherwise finite differences of a layer that traces a
        solver at each call take minutes. None if the layer cannot be traced as a whole, or if the
        program differs from its operations one by one."""
        if self._whole or self._stage or self._complex:
            return None
        from gradcheck_cli.engines.jax.programs import Compiled

        program = Compiled(self.call, self._function)
        try:
            with self.ready({}):
                found = self.flat(program(self.inputs(values)))
        except Exception as error:
            raise_if_internal(error)
            return None
        one_by_one = self.plain_value(values)
        rounding = OPERATIONS * FORMATS[self.digits].unit_roundoff * np.abs(one_by_one)
        same = np.isclose(found, one_by_one, rtol=0.0, atol=rounding, equal_nan=True)
        return program if np.all(same) else None

    # Passes

    def _call_result(self, call: Call) -> CallResult:
        wrt = self.wrt if call.wrt is None else call.wrt
        rows = call.cotangents if call.tracking and wrt else None
        unreached: frozenset[str] = frozenset()
        with self.ready({}):
            inputs = self.inputs(call.values)
            if rows is not None and len(rows):
                with advising():
                    arrays, passes = self._by_rows(inputs, wrt, call, rows)
                zeros = [
                    name
                    for name, parts in zip(wrt, zip(*passes, strict=True), strict=True)
                    if not any(any_nonzero(np.asarray(part).reshape(-1)) for part in parts)
                ]
                if zeros:
                    unreached = no_gradient(self.fw, self.call, inputs, zeros)
            else:
                arrays, passes = self._values_at(inputs), []
                self._interleave(call)
            random = call.watch and (self._random.has_drawn() or self._draws(inputs))
            output, none = self.flat(arrays), dict.fromkeys(unreached)
            if call.each is None:
                found = self.result(output, wrt, passes, self.fw.numpy)
                return replace(found, gradients={**found.gradients, **none}, random=random)
            del inputs, arrays
            dtypes: dict[str, str] = {}
            for i in range(len(passes)):
                result = self.result(output, wrt, [passes.pop(0)], self.numbers)
                dtypes.update(result.dtypes)
                call.each(i, {**result.row(0), **none})
            return CallResult(output, dtypes=dtypes, random=random)

    def _by_rows(
        self, inputs: Mapping[str, Any], wrt: tuple[str, ...], call: Call, rows: Array
    ) -> tuple[list[Any], list[list[Any]]]:
        """The outputs, and the gradients for each row of cotangents."""
        if not self._whole:
            arrays, vjp = self.vjp(inputs, wrt)
            self._interleave(call)
            return arrays, [vjp(self.cotangents(row, call.used_outputs)) for row in rows]
        self._interleave(call)
        ran = self._pulled(inputs, wrt, rows, call.used_outputs)
        return ran[0][0], [gradients for _, gradients in ran]

    def _pulled(
        self,
        inputs: Mapping[str, Any],
        wrt: tuple[str, ...],
        rows: Iterable[Array],
        used: Sequence[str] | None = None,
    ) -> list[tuple[list[Any], list[Any]]]:
        """The outputs and the gradients of one program, for each row of cotangents."""

        def derivative(inputs: Mapping[str, Any], bars: list[Any]) -> Any:
            arrays, vjp = self.vjp(inputs, wrt)
            return arrays, vjp(bars)

        evaluated = self.evaluated("derivative", wrt, derivative)
        every = (self.cotangents(row, used) for row in rows)
        return [self._part_or_whole(wrt, evaluated, inputs, bars) for bars in every]

    def _part_or_whole(
        self, wrt: tuple[str, ...], derivative: Callable[..., Any], inputs: Any, bars: list[Any]
    ) -> Any:
        """The result of a derivative with respect to some leaves. If the compiled derivative with
        respect to all contains the same program, it runs, and nothing is compiled. JAX derives the
        gradients of leaves separately, unless rules ask which are requested."""
        if not self._compiled or not set(wrt) < set(self._every):
            return derivative(inputs, bars)
        from gradcheck_cli.engines.jax.programs import Compiled

        def chosen(result: Any) -> Any:
            arrays, gradients = result
            return arrays, [gradients[self._every.index(name)] for name in wrt]

        match self._made.get(("derivative", self._every, self._stage)), derivative:
            case Compiled() as whole, Compiled() as part if whole.known_by(
                inputs, bars
            ) is not None or whole.computes(part, chosen, inputs, bars):
                return chosen(whole(inputs, bars))
        return derivative(inputs, bars)

    def columns(self, leaf: Leaf, values: Values) -> Array:
        """The columns of the Jacobian along all entries of the leaf at once, by `vmap`."""
        names = (leaf.name,)

        def pushing(inputs: Mapping[str, Any], units: Any) -> Any:
            return self.jax.vmap(lambda unit: self._jvp(names, inputs, [unit]))(units)

        with self.ready(values):
            units = self.fw.array(np.eye(leaf.size).reshape(leaf.size, *leaf.shape))
            found = self.evaluated("columns", names, pushing)(self.inputs(values), units)
        return np.concatenate([self.fw.numpy(part).reshape(leaf.size, -1).T for part in found])

    def _interleave(self, call: Call) -> None:
        if call.interleaved_inputs is not None:
            self._values_at(self.inputs(call.interleaved_inputs))

    def forward_mode(self, names: Sequence[str]) -> AbstractContextManager[Any]:
        return no_jvp()

    def jvps(self, many: Sequence[Values]) -> list[Array | Unsupported | None]:
        if self._constants.found:
            return super().jvps(many)
        with self.ready({}):
            return each_jvp(self._repeated_jvp, many)

    def _repeated_jvp(self, tangents: Values) -> Array | None:
        self._random.restart()  # only random numbers can differ between calls
        with no_jvp():
            return self._jvp_of(tangents)

    # Inside the layer, without compilation

    def record(self, row: Array) -> Recording:
        from gradcheck_cli.engines.jax.layer_recorder import record

        with self._pure_layer(row) as layer:
            return record(layer, self._constants.arrays, self.request.implementation.span)

    def record_forward(self) -> Recording:
        from gradcheck_cli.engines.jax.layer_recorder import record_forward

        with self._pure_layer() as layer:
            if self.request.uncast:
                from gradcheck_cli.engines.jax.casts import Uncast

                layer = replace(layer, call=Uncast(layer.call))
            # nothing runs op by op beside a compiled layer, so nothing else uses that code
            return record_forward(layer, self.request.implementation.span, self._compiled)

    def evaluations_of(
        self, expression: Expression, run: Callable[[], object], others: Sequence[ast.expr] = ()
    ) -> Sequence[Seen]:
        with temporarily(self, _compiled=False), self.jax.disable_jit():
            return super().evaluations_of(expression, run, others)

    @contextmanager
    def rewritten(self) -> Iterator[None]:
        self.jax.clear_caches()  # compiled code is of the original source
        try:
            with temporarily(self, _made={}):
                yield
        finally:
            self.jax.clear_caches()

    def gradient_program(
        self, narrow: Any, searched: Sequence[str], points: Sequence[Values]
    ) -> GradientProgram:
        from gradcheck_cli.engines.jax.layer_program import layer_program

        return layer_program(self, narrow, searched, points)

    def casts(self) -> Sequence[Cast]:
        from gradcheck_cli.engines.jax.casts import watch

        casts = Watch(self.dtype)
        with self._pure_layer(self.ones) as layer:
            watch(layer, casts, self.request.uncast)
        return casts.found()

    def functions(self, row: Array | None = None) -> Sequence[CustomCall]:
        from gradcheck_cli.engines.jax.custom_functions import custom_calls

        with self._pure_layer(row) as layer:
            return custom_calls(layer if row is None else layer.gradient())

    @property
    def samplers(self) -> frozenset[str]:
        return frozenset({"random_gamma"})

    def solvers(self) -> frozenset[str]:
        from gradcheck_cli.engines.jax.solvers import solvers

        with self._pure_layer() as layer:
            return solvers(layer.call, layer.arrays)

    def uncut(self, row: Array) -> tuple[ValuesOrNone, Sequence[GradientBarrier]]:
        from gradcheck_cli.engines.jax.detached import uncut

        plain = self.run(Call(cotangents=row[None])).row(0)
        with self._pure_layer(row) as layer:
            return plain, uncut(layer)

    def unclipped_gradients(self, rows: Array) -> Sequence[UnclippedGradients]:
        from gradcheck_cli.engines.jax.bounds import unclipped_gradients

        with self._pure_layer() as layer:
            return unclipped_gradients(layer, [self.cotangents(row) for row in rows])

    def declared_call(self, declared: Declared) -> Callable[[dict[str, Any]], list[Any]]:
        from gradcheck_cli.engines.jax.declared import DeclaredRun

        with self.ready({}):
            own = self.inputs({})

            def call(*arrays: Any) -> list[Any]:
                return self.call(dict(zip(own, arrays, strict=True)))

            closed = self.jax.make_jaxpr(call)(*own.values())
        run = DeclaredRun(declared)
        return lambda inputs: run(closed, *inputs.values())

    @contextmanager
    def _pure_layer(self, row: Array | None = None) -> Iterator[Pure]:
        """The layer as a function of its inputs, with cotangents for its outputs."""
        from gradcheck_cli.engines.jax.wide import Pure

        with self.ready({}):
            leaves = self.inputs({})

            def call(*arrays: Any) -> list[Any]:
                self._random.restart()
                return self.call(dict(zip(leaves, arrays, strict=True)))

            yield Pure(call, leaves, self.wrt, () if row is None else self.cotangents(row))

    def close(self) -> None:
        """Keep a plain function for reuse. Otherwise clear JAX's caches if compiled code may hold
        replaced values of captured arrays."""
        if self._is_a_plain_function:
            leave(self)
        else:
            pairs = ((one.capture.value, one.array) for one in self._constants.found)
            if not all(identical(np.asarray(own), np.asarray(made)) for own, made in pairs):
                self.jax.clear_caches()

    @property
    def _is_a_plain_function(self) -> bool:
        """Whether the layer has nothing except its arguments, and nothing was learned about it that
        does not hold for every function. Binding it again would then change nothing."""
        learned = self._whole or self.is_held or self.notes or self.mode != "reverse"
        mine = self.request.implementation.live is not None and not self._tree.arrays
        small = all(own.size < LARGE for own in self._own.values())
        return (
            mine and small and not learned and not (self._constants.found or self._captured().found)
        )
