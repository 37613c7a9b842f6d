"""Layers of JAX: functions, with a `jax.custom_vjp` or a `jax.custom_jvp`, and callable objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.jax.modes import (
    hvp_forward_over_reverse,
    hvp_reverse_over_reverse,
    jvp,
    no_gradient,
    pulled,
)
from gradcheck_cli.engines.jax.random_keys import draws
from gradcheck_cli.engines.layer.binding import BadCall, arrange, called, for_the_call
from gradcheck_cli.engines.layer.capture import Capture, captures
from gradcheck_cli.engines.layer.casts import Cast, Watch
from gradcheck_cli.engines.layer.held import Held
from gradcheck_cli.engines.layer.isolation import Randomness
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

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.custom import CustomCall, Lines, Unbounded, Uncut
    from gradcheck_cli.engines.layer.recording import Recording


class JaxSubject:
    """A user's function in one dtype (`subject.Subject`); with `compiled`, under `jax.jit`.

    JAX's arrays cannot be written to and lie in memory as JAX wants: of what a Call asks about
    that, nothing can be amiss.
    """

    def __init__(self, request: SubjectRequest, compiled: bool) -> None:
        import jax

        from gradcheck_cli.engines.jax.settings import settings_kept
        from gradcheck_cli.engines.jax.trees import Tree, parts

        self.jax = jax
        self.request = request
        self._compiled = compiled
        self.dtype = self.digits = request.dtype
        self.stencils = Stencils()
        self.mode: Mode = "reverse"
        self.notes: tuple[str, ...] = ()
        self._random = Randomness(request.seed)
        self._random.again()  # a module may draw numbers when it is imported
        with settings_kept(), jax.enable_x64(True):  # what the module makes is rounded by us
            load_layer(request.implementation)
        self._output_names: list[str] = []
        self._random.again()
        with settings_kept():  # as for its author: `jax.random` draws other numbers in float64
            self._function, args, kwargs = self._found()
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
            self._arguments = arrange(self._function, self._names, args, kwargs)
            self._own = self._values()
            self._captures = self._captured()
        names = dict.fromkeys(one.name for one, _, _ in self._captures)
        self.notes += tuple(f"`{name}`, which it captured, is not checked" for name in names)
        self.whole = compiled or request.uncast
        self._held: Callable[[Mapping[str, Array]], Array] | None = None
        self._made: dict[tuple[str, tuple[str, ...]], Callable[..., Any]] = {}
        self._value = self.evaluated("value", (), self.call)
        self.outputs = self._described()
        self.leaves = (
            *(
                Leaf(name, "input", own, own.dtype.kind == "f")
                if name in self._names
                else Leaf(name, "parameter", own, True)
                for name, own in self._own.items()
            ),
            *(Leaf(one.name, "captured", value, False) for one, value, _ in self._captures),
        )

    def _found(self) -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
        """The layer, and what it is called with besides its inputs."""
        implementation = self.request.implementation
        found, args, kwargs = (
            load_layer(implementation),
            implementation.args,
            implementation.kwargs,
        )
        if inspect.isclass(found):
            mine, kwargs = for_the_call(found, kwargs)
            found, args = found(*args, **mine), ()
        if not callable(found):
            kind = type(found).__name__
            raise Unsupported(f"{implementation.target} is {kind}, which cannot be called")
        return found, args, kwargs

    def _values(self) -> dict[str, Array]:
        """The inputs, and the layer's own arrays where it is a tree of them: at the values of the
        request, else at what they are, rounded."""
        given, own = (
            self.request.values,
            {name: self.request.values[name] for name in self._names},
        )
        rounding = FORMATS[self.request.rounding]
        for name, array in self._tree.arrays.items():
            value = rounding.round(np.asarray(array).astype(np.float64))
            own[name] = given.get(name, value)
            if own[name].shape != value.shape:
                raise BadCall(
                    f"`{name}` is given with shape {own[name].shape}, and has shape {value.shape}"
                )
        return own

    def _captured(self) -> list[tuple[Capture, Array, Any]]:
        """Floating arrays that the function reaches: each with its numbers, and what stands in for
        it. They are taken as constants, as JAX takes them; its parameters are none."""
        from gradcheck_cli.engines.jax.trees import is_floating

        found = []
        parameters = set(map(id, self._tree.arrays.values()))
        for capture in captures(self._function):
            if id(capture.value) in parameters:
                continue
            if capture.puts and is_floating(capture.value):
                value = np.asarray(capture.value).astype(np.float64)
                rounded = FORMATS[self.request.rounding].round(value)
                found.append((capture, rounded, self.array(rounded)))
        return found

    # State

    def _wide(self) -> Any:
        """Float64 where it is asked for, and else what a user has: JAX without it makes float32 of
        every array that is made of nothing."""
        return self.jax.enable_x64(self.dtype == "float64")

    @contextmanager
    def ready(self) -> Iterator[None]:
        from gradcheck_cli.engines.jax.programs import programs_known
        from gradcheck_cli.engines.jax.settings import settings_kept

        self._random.again()
        for capture, _, array in self._captures:
            capture.put(array)
        try:
            with settings_kept(), self._wide(), programs_known():
                yield
        finally:
            for capture, _, _ in self._captures:
                capture.put(capture.value)

    # Arrays

    def array(self, value: Array) -> Any:
        value = np.asarray(value)
        wanted = self.jax.numpy.dtype(self.dtype) if value.dtype.kind == "f" else value.dtype
        return self.jax.device_put(value.astype(wanted))  # a copy, and nothing is compiled

    def inputs(self, values: Mapping[str, Array]) -> dict[str, Any]:
        return {name: self.array(values.get(name, own)) for name, own in self._own.items()}

    def call(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The floating outputs, complex ones as pairs of real numbers."""
        jax = self.jax
        args, kwargs = self._arguments({name: inputs[name] for name in self._names})
        result = called(self._tree.filled(inputs), args, kwargs)
        found: dict[str, Any] = {}
        for name, array in self._results.read(result):
            if jax.numpy.issubdtype(array.dtype, jax.numpy.complexfloating):
                array = jax.numpy.stack([array.real, array.imag], axis=-1)
            found[name] = jax.numpy.asarray(array)
        self._output_names = list(found)
        return list(found.values())

    def evaluated(
        self, what: str, names: tuple[str, ...], function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A function of arrays (`what`, for these leaves) as it is to be evaluated, always the
        first one that was made."""
        made = self._made.get((what, names))
        if made is None:
            made = self._made[what, names] = self._evaluating(function)
        return made

    def _evaluating(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if self.request.uncast:
            from gradcheck_cli.engines.jax.casts import Uncast

            return Uncast(function)
        if not self._compiled:
            return function
        from gradcheck_cli.engines.jax.programs import Compiled

        return Compiled(function, self._function)

    def _draws(self, inputs: Mapping[str, Any]) -> bool:
        """Whether the program draws random numbers. There is no program of a layer that branches
        on its numbers in Python: runs that differ are seen there all the same."""
        errors = self.jax.errors
        try:
            program = self.jax.make_jaxpr(self.call)(inputs)
        except (errors.JAXTypeError, errors.JAXIndexError):  # it needs the numbers
            return False
        return draws(program.jaxpr)

    def _described(self) -> tuple[Output, ...]:
        with self.ready():
            arrays = self._value(self.inputs({}))
        outputs: list[Output] = []
        start = 0
        for name, array in zip(self._output_names, arrays, strict=True):
            outputs.append(Output(name, tuple(array.shape), str(array.dtype.name), start))
            start += outputs[-1].size
        return tuple(outputs)

    def flat(self, arrays: Sequence[Any]) -> Array:
        parts = (np.asarray(array).astype(np.float64).ravel() for array in arrays)
        return np.concatenate([np.zeros(0), *parts])

    def moving(self) -> tuple[str, ...]:
        return tuple(leaf.name for leaf in self.leaves if leaf.differentiable)

    def cotangents(self, row: Array, through: Sequence[str] | None = None) -> list[Any]:
        found = []
        for one in self.outputs:
            part = row[one.start : one.start + one.size].reshape(one.shape)
            used = part if through is None or one.name in through else np.zeros(one.shape)
            found.append(self.jax.device_put(used.astype(self.jax.numpy.dtype(one.dtype))))
        return found

    # What is asked

    def value(self, values: Mapping[str, Array]) -> Array:
        if self._held is not None:
            return self._held(values)
        with self.ready():
            return self.flat(self._value(self.inputs(values)))

    def several(self, many: Sequence[Mapping[str, Array]]) -> Array:
        return one_by_one(self, many)

    def run(self, call: Call) -> CallResult:
        wrt = self.moving() if call.wrt is None else call.wrt
        rows = np.zeros((0, 0)) if call.cotangents is None or not call.tracking else call.cotangents
        unreached: frozenset[str] = frozenset()
        with self.ready():
            inputs = self.inputs(call.values)
            if len(rows) and wrt:
                arrays, passes = pulled(self, inputs, wrt, call)
                zeros = [
                    n
                    for n, parts in zip(wrt, zip(*passes, strict=True), strict=True)
                    if not any(np.any(part) for part in parts)
                ]
                unreached = no_gradient(self, inputs, zeros) if zeros else unreached
            else:
                arrays, passes = self._value(inputs), []
                self.run_between(call)
            random = call.watch and (self._random.drawn() or self._draws(inputs))
        gradients: dict[str, Array | None] = {}
        dtypes: dict[str, str] = {}
        for place, name in enumerate(wrt):
            parts = [np.asarray(grads[place]) for grads in passes]
            size = self._own[name].size
            flat = [part.astype(np.float64).reshape(size) for part in parts]
            gradients[name] = np.stack(flat) if flat and name not in unreached else None
            if parts:
                dtypes[name] = parts[0].dtype.name
        return CallResult(self.flat(arrays), gradients, dtypes, random=random)

    def run_between(self, call: Call) -> None:
        if call.interleaved_inputs is not None:
            self._value(self.inputs(call.interleaved_inputs))

    def jvp(self, tangents: Mapping[str, Array]) -> Array:
        return jvp(self, tangents)

    def hvp_reverse_over_reverse(
        self, row: Array, tangents: Mapping[str, Array]
    ) -> dict[str, Array | None]:
        return hvp_reverse_over_reverse(self, row, tangents)

    def hvp_forward_over_reverse(
        self, row: Array, tangents: Mapping[str, Array]
    ) -> dict[str, Array | None]:
        return hvp_forward_over_reverse(self, row, tangents)

    # What is inside: nothing that was compiled hides it

    def record(self, row: Array) -> Recording:
        from gradcheck_cli.engines.jax.layer_recorder import record

        captured = {one.name: array for one, _, array in self._captures}
        with self._passes(row) as (call, leaves, bars):
            span = self.request.implementation.span
            return record(call, leaves, captured, self.moving(), bars, span)

    def casts(self) -> Sequence[Cast]:
        from gradcheck_cli.engines.jax.casts import watch

        casts = Watch(self.dtype)
        with self._passes(np.ones(sum(one.size for one in self.outputs))) as (call, leaves, bars):
            watch(call, leaves, self.moving(), bars, casts, self.request.uncast)
        return casts.found()

    def functions(self) -> Sequence[CustomCall]:
        from gradcheck_cli.engines.jax.custom_functions import custom_calls

        with self._passes() as (call, leaves, _):
            return custom_calls(call, leaves, self.moving())

    def lines(self, row: Array) -> Lines:
        """Nothing of JAX can be written to, and who draws gives the key."""
        from gradcheck_cli.engines.layer.custom import Lines

        return Lines()

    def uncut(self, row: Array) -> tuple[Mapping[str, Array | None], Sequence[Uncut]]:
        from gradcheck_cli.engines.jax.detached import uncut

        plain = self.run(Call(cotangents=row[None])).gradients
        with self._passes(row) as (call, leaves, bars):
            cuts = uncut(call, leaves, self.moving(), bars)
        return {name: None if g is None else g[0] for name, g in plain.items()}, cuts

    def unbounded(self, rows: Array) -> Sequence[Unbounded]:
        from gradcheck_cli.engines.jax.bounds import unbounded

        with self._passes() as (call, leaves, _):
            return unbounded(call, leaves, self.moving(), [self.cotangents(row) for row in rows])

    def hold(self, held: Held) -> None:
        from gradcheck_cli.engines.jax.held import hold

        self._held = hold(self, held)

    @contextmanager
    def _passes(
        self, row: Array | None = None
    ) -> Iterator[tuple[Callable[..., list[Any]], dict[str, Any], list[Any]]]:
        """The layer as a function of its inputs, these, and cotangents for its outputs."""
        with self.ready():
            leaves = self.inputs({})
            bars: list[Any] = []
            if row is not None:
                bars = self.cotangents(row)

            def call(*arrays: Any) -> list[Any]:
                self._random.again()
                return self.call(dict(zip(leaves, arrays, strict=True)))

            yield call, leaves, bars

    def close(self) -> None:
        """What the user's code has compiled holds what stood in for captured arrays."""
        if any(_differ(one.value, array) for one, _, array in self._captures):
            self.jax.clear_caches()


def _differ(one: Any, other: Any) -> bool:
    return one.dtype != other.dtype or np.asarray(one).tobytes() != np.asarray(other).tobytes()
