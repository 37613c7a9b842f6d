"""Layers of TensorFlow: functions, `tf.function`s, custom gradients, modules, Keras layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.engines.errors import Unsupported, WrongKind
from gradcheck_cli.engines.layer.binding import Arranged, arrange, called, for_the_call
from gradcheck_cli.engines.layer.casts import Cast
from gradcheck_cli.engines.layer.custom import CustomCall, Lines, Passes, Unbounded, Uncut
from gradcheck_cli.engines.layer.held import Held
from gradcheck_cli.engines.layer.loading import load_layer
from gradcheck_cli.engines.layer.results import Results
from gradcheck_cli.engines.layer.subject import (
    Call,
    CallResult,
    Output,
    Stencils,
    SubjectRequest,
    one_by_one,
)
from gradcheck_cli.engines.tensorflow.draws import watched_draws
from gradcheck_cli.engines.tensorflow.graph import Graph
from gradcheck_cli.engines.tensorflow.keras import (
    Policies,
    arranged,
    check_backend,
    is_built,
    leading,
)
from gradcheck_cli.engines.tensorflow.modes import (
    hvp_forward_over_reverse,
    hvp_reverse_over_reverse,
    jvp,
)
from gradcheck_cli.engines.tensorflow.passes import (
    Named,
    dense,
    described,
    differing,
    eagerly,
    pulled_by_row,
    stacked,
    taping,
)
from gradcheck_cli.engines.tensorflow.random_state import Randomness
from gradcheck_cli.engines.tensorflow.state import held, numbers
from gradcheck_cli.engines.tensorflow.variables import found_in, is_keras_layer, keras_layers

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.recording import Recording


class TensorFlowSubject:
    """A user's layer in one dtype (`subject.Subject`). What the layer holds stays the user's own:
    for the time of a call its variables are written to, or others stand in their places."""

    def __init__(self, request: SubjectRequest) -> None:
        import tensorflow as tf

        self.tf = tf
        self._request = request
        self.dtype = self.digits = request.dtype
        self._randomness = Randomness(tf, request.seed)
        with self._randomness.seeded():
            load_layer(request.implementation)  # a module may draw numbers when it is imported
        with self._randomness.seeded():
            self._function = self._found()
            if self._needs_a_first_call():
                self._first_call()
        self._results = Results(
            "floating tf.Tensor",
            tf.is_tensor,
            lambda tensor: tensor.dtype.is_floating or tensor.dtype.is_complex,
            getattr(self._function, "call", self._function),  # of a Keras layer
            empty=request.empty,
        )
        found = found_in(tf, self._function)
        names = [name for name in request.values if name not in found]
        self._arguments = self._arranged(names)
        self.held = {
            name: held(tf, one, request.dtype, request.rounding) for name, one in found.items()
        }
        for name in found.keys() & request.values.keys():
            self.held[name].settle(request.values[name])
        self._policies = Policies(keras_layers(self._function), request.dtype)
        self._inlined = self._policies.swapped or any(one.swapped for one in self.held.values())
        self.leaves = tuple(self._leaves(names))
        self.stencils = Stencils()
        self.mode: Mode = "reverse"
        self.notes = tuple(
            f"`{leaf.name}`, which the layer captured, is not trained: not checked"
            for leaf in self.leaves
            if leaf.role == "captured" and not leaf.differentiable
        )
        self.given = {n: self.tensor(request.values[n]) for n in names}
        self.graph = Graph(tf)
        self._held: Callable[[Mapping[str, Array]], Array] | None = None
        self.asks_once = False  # for a gradient of one run
        self._bind()

    # What there is

    def _found(self) -> Any:
        """The object that is called. Keyword arguments that are left are for every call."""
        implementation = self._request.implementation
        found = load_layer(implementation)
        check_backend()
        self._args, self._kwargs = implementation.args, dict(implementation.kwargs)
        if inspect.isclass(found):
            mine, self._kwargs = for_the_call(found, implementation.kwargs)
            found, self._args = found(*implementation.args, **mine), ()
            check_backend()
        if not callable(found):
            kind = type(found).__name__
            raise Unsupported(f"{implementation.target} is {kind}, which cannot be called")
        return found

    def _arranged(self, names: Sequence[str], **more: Any) -> Arranged:
        kwargs = {**self._kwargs, **more}
        if is_keras_layer(self._function):
            return arranged(self._function, names, self._args, kwargs)
        return arrange(self._function, names, self._args, kwargs)

    def _needs_a_first_call(self) -> bool:
        """Layers and modules may make their variables only when they are called."""
        if is_keras_layer(self._function):
            return not is_built(self._function)
        return isinstance(self._function, self.tf.Module)

    def _first_call(self) -> None:
        """In the dtype in which its author would call it; what it does to variables that are there
        already is undone."""
        tf, layer, values = self.tf, self._function, self._request.values
        more = {}
        if is_keras_layer(layer):
            dtype, call = layer.compute_dtype, layer.call
            if "training" in inspect.signature(call).parameters:
                more["training"] = False  # state is made, and not changed yet
        else:
            dtypes = [v.dtype.name for v in layer.variables if v.dtype.is_floating]
            dtype, call = (dtypes or ["float32"])[0], layer.__call__
        names = leading(call, list(values))
        given = {
            name: tf.cast(values[name], dtype) if values[name].dtype.kind == "f" else values[name]
            for name in names
        }
        before = [(variable, variable.numpy()) for variable in layer.variables]
        args, kwargs = self._arranged(names, **more)(given)
        called(layer, args, kwargs)
        for variable, value in before:
            variable.assign(value)

    def _leaves(self, names: Sequence[str]) -> Iterator[Leaf]:
        for name in names:
            value = self._request.values[name]
            yield Leaf(name, "input", value, value.dtype.kind == "f")
        for name, one in self.held.items():
            if one.floating:
                yield Leaf(name, one.found.role, one.value, one.found.differentiable)

    def _bind(self) -> None:
        """Two runs: what the outputs are, which variables a run writes to, and whether there are
        random numbers that do not start again by themselves."""
        self.outputs: tuple[Output, ...] = ()
        with self.ready({}):
            before = {name: one.now() for name, one in self.held.items()}
            arrays = self.called(self.inputs({}))
            for name, one in self.held.items():
                one.written = one.now() != before[name]
            self.outputs = described(arrays)
            first = self.flat(arrays)
            seeded = any(one.found.seed and one.written for one in self.held.values())
            self.random = seeded or self._randomness.drawn()
        with self.ready({}):
            second = self.flat(self.called(self.inputs({})))
        if not np.array_equal(first, second, equal_nan=True):
            self.random = self._randomness.streams = True

    # State

    @contextmanager
    def ready(self, values: Mapping[str, Array]) -> Iterator[None]:
        """Everything that the layer holds at its value, and put back at the end."""
        with ExitStack() as stack:
            for name, one in self.held.items():
                stack.enter_context(one.at(values.get(name)))
            stack.enter_context(self._policies.set())
            stack.enter_context(self._randomness.seeded())
            if self._inlined or self._request.uncast:
                stack.enter_context(eagerly(self.tf))
            if self._request.uncast:
                from gradcheck_cli.engines.tensorflow.casts import uncast

                stack.enter_context(uncast())
            yield

    @contextmanager
    def assigned(self, values: Mapping[str, Array]) -> Iterator[None]:
        """Only variables at their values: all that a graph of the layer needs."""
        with ExitStack() as stack:
            for name, one in self.held.items():
                if name in values or one.restless:
                    stack.enter_context(one.at(values.get(name)))
            yield

    # Arrays

    def tensor(self, value: Array) -> Any:
        tensor = self.tf.constant(value)
        return self.tf.cast(tensor, self.dtype) if value.dtype.kind == "f" else tensor

    def inputs(self, values: Mapping[str, Array]) -> dict[str, Any]:
        """The given inputs. Tensors are never written to, but a tape tells them apart by identity,
        and one that is given twice must be two."""
        return {
            name: self.tf.identity(base) if name not in values else self.tensor(values[name])
            for name, base in self.given.items()
        }

    def called(self, inputs: Mapping[str, Any]) -> Named:
        """The floating outputs, complex ones as pairs of real numbers."""
        tf = self.tf
        args, kwargs = self._arguments(inputs)
        result = called(self._function, args, kwargs)
        arrays = []
        for name, array in self._results.read(result):
            array = dense(tf, array)
            if array.dtype.is_complex:
                array = tf.stack([tf.math.real(array), tf.math.imag(array)], axis=-1)
            arrays.append((name, array))
        return arrays

    def flat(self, arrays: Named) -> Array:
        parts = [numbers(array).reshape(-1) for _, array in arrays]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0), *parts])

    def moving(self) -> tuple[str, ...]:
        return tuple(leaf.name for leaf in self.leaves if leaf.differentiable)

    def source(self, name: str, inputs: Mapping[str, Any]) -> Any:
        return inputs[name] if name in inputs else self.held[name].source

    # What is asked

    def value(self, values: Mapping[str, Array]) -> Array:
        if self._held is not None:
            return self._held(values)
        found = None if self._request.uncast else self.graph.value(self, values)
        return self.eagerly(values) if found is None else found

    def eagerly(self, values: Mapping[str, Array]) -> Array:
        """The value by the layer itself."""
        with self.ready(values):
            return self.flat(self.called(self.inputs(values)))

    def several(self, many: Sequence[Mapping[str, Array]]) -> Array:
        return one_by_one(self, many)

    def run(self, call: Call) -> CallResult:
        wrt = self.moving() if call.wrt is None else call.wrt
        count = 0 if call.cotangents is None else len(call.cotangents)
        with self.ready(call.values):
            inputs = self.inputs(call.values)
            sources = [self.source(name, inputs) for name in wrt]
            before = self._standing() if call.watch else {}
            with watched_draws() if call.watch else nullcontext() as draws:
                recorded, arrays = self.taped(inputs, sources, count, call.tracking)
            output = self.flat(arrays)
            between = self._standing() if call.watch else {}
            if call.interleaved_inputs is not None:
                with self.ready(call.interleaved_inputs):
                    self.called(self.inputs(call.interleaved_inputs))
            passes = list(pulled_by_row(self, call, inputs, sources, wrt, recorded, arrays))
            after = self._standing() if call.watch else {}
            drawn = draws is not None and (draws.seen or self._randomness.drawn() or self.random)
        gradients: dict[str, Array | None] = {}
        dtypes: dict[str, str] = {}
        for place, (name, source) in enumerate(zip(wrt, sources, strict=True)):
            known = [grads[place] for grads in passes if grads[place] is not None]
            gradients[name] = stacked([g[place] for g in passes], source) if known else None
            if known:
                dtypes[name] = known[0].dtype.name
        return CallResult(
            output,
            gradients,
            dtypes,
            changed=differing(before, between),
            changed_later=differing(between, after),
            random=drawn,
        )

    def taped(
        self, inputs: Mapping[str, Any], sources: Sequence[Any], passes: int, tracking: bool
    ) -> tuple[Any, Named]:
        """A run, and the tape of it."""
        with taping(self.tf, passes, tracking) as recorded:
            if recorded is not None:
                recorded.watch(sources)
            return recorded, self.called(inputs)

    def _standing(self) -> dict[str, bytes]:
        return {name: one.now() for name, one in self.held.items() if one.floating}

    def pulled(
        self,
        tape: Any,
        arrays: Named,
        row: Array,
        sources: Sequence[Any],
        wrt: Sequence[str],
        through: Sequence[str] | None = None,
    ) -> list[Any]:
        """One backward pass: a gradient a source, None where there is none."""
        targets, cotangents = self._cotangents(arrays, row, through)
        if tape is None or not targets or not sources:
            return [None] * len(sources)
        found = tape.gradient(targets, list(sources), output_gradients=cotangents)
        # What was gathered has IndexedSlices, which are a gradient in another notation.
        grads = [None if grad is None else self.tf.convert_to_tensor(grad) for grad in found]
        for name, source, grad in zip(wrt, sources, grads, strict=True):
            if grad is not None and grad.shape != source.shape:
                raise WrongKind(
                    f"the gradient of `{name}` has shape {tuple(grad.shape)}, but `{name}` has "
                    f"shape {tuple(source.shape)}"
                )
        return grads

    def _cotangents(
        self, arrays: Named, row: Array, through: Sequence[str] | None
    ) -> tuple[list[Any], list[Any]]:
        targets, cotangents = [], []
        for output, (name, array) in zip(self.outputs, arrays, strict=True):
            if through is None or name in through:
                part = row[output.start : output.start + output.size].reshape(output.shape)
                targets.append(array)
                cotangents.append(self.tf.cast(self.tf.constant(part), array.dtype))
        return targets, cotangents

    # Other modes

    def jvp(self, tangents: Mapping[str, Array]) -> Array | None:
        return jvp(self, tangents)

    def hvp_reverse_over_reverse(
        self, row: Array, tangents: Mapping[str, Array]
    ) -> dict[str, Array | None]:
        return hvp_reverse_over_reverse(self, row, tangents)

    def hvp_forward_over_reverse(
        self, row: Array, tangents: Mapping[str, Array]
    ) -> dict[str, Array | None]:
        return hvp_forward_over_reverse(self, row, tangents)

    # What is inside

    def record(self, row: Array) -> Recording:
        from gradcheck_cli.engines.tensorflow.layer_recorder import record

        with self._passes(row) as passes:
            return record(passes, self._request.implementation.span)

    def casts(self) -> Sequence[Cast]:
        from gradcheck_cli.engines.tensorflow.casts import watched

        with self._passes(np.ones(sum(output.size for output in self.outputs))) as passes:
            return watched(passes, self.dtype)

    def functions(self) -> Sequence[CustomCall]:
        from gradcheck_cli.engines.tensorflow.custom_functions import custom_calls

        with self._passes() as passes:
            return custom_calls(passes)

    def lines(self, row: Array) -> Lines:
        """TensorFlow has no arrays that a layer writes to: draws alone are seen."""
        with self._passes(row) as passes, watched_draws() as draws:
            passes.call()
        return Lines(draws=draws.place)

    def uncut(self, row: Array) -> tuple[Mapping[str, Array | None], Sequence[Uncut]]:
        from gradcheck_cli.engines.tensorflow.detached import uncut

        def run() -> dict[str, Array | None]:
            with self._passes(row) as passes:
                passes.call()
                return {
                    name: None if grad is None else numbers(grad).reshape(-1)
                    for name, grad in zip(passes.wrt, passes.pull(), strict=True)
                }

        return uncut(run)

    def unbounded(self, rows: Array) -> Sequence[Unbounded]:
        from gradcheck_cli.engines.tensorflow.bounds import unbounded

        def gradients() -> Mapping[str, Array | None]:
            with eagerly(self.tf):
                return self.run(Call(cotangents=rows)).gradients

        with self._passes() as passes:
            followed = [passes.leaves[name] for name in passes.wrt]
            return unbounded(followed, passes.call, gradients)

    def hold(self, held: Held) -> None:
        from gradcheck_cli.engines.tensorflow.held import hold

        self._held = hold(self, held)

    @contextmanager
    def _passes(self, row: Array | None = None) -> Iterator[Passes]:
        """Operation by operation: nothing that was compiled hides what is inside."""
        tf = self.tf
        wrt = self.moving()
        with self.ready({}), eagerly(tf):
            inputs = self.inputs({})
            leaves = {leaf.name: self.source(leaf.name, inputs) for leaf in self.leaves}
            tape = taping(tf, 1 if row is not None else 2, True)
            named: Named = []

            def call() -> list[Any]:
                with self._randomness.seeded(), tape:
                    tape.watch([leaves[name] for name in wrt])
                    named[:] = self.called(inputs)
                return [array for _, array in named]

            def pull() -> list[Any]:
                assert row is not None
                return self.pulled(tape, named, row, [leaves[name] for name in wrt], wrt)

            def reached(arrays: Sequence[Any]) -> frozenset[str]:
                found = tape.gradient(list(arrays), [leaves[name] for name in wrt])
                return frozenset(n for n, g in zip(wrt, found, strict=True) if g is not None)

            yield Passes(leaves, wrt, call, pull, reached)

    def close(self) -> None:
        """Nothing of the user's is held between calls."""
