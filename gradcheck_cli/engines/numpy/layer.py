"""NumPy layers: a forward function and a hand-written backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, Values, joined
from gradcheck_cli.domain.layer import Leaf, Role
from gradcheck_cli.engines.errors import WrongKind
from gradcheck_cli.engines.layer.binding import OWN, required_of
from gradcheck_cli.engines.layer.casts import Cast
from gradcheck_cli.engines.layer.constants import Constants
from gradcheck_cli.engines.layer.custom import CustomCall
from gradcheck_cli.engines.layer.framework_layer import WrittenNames, differing
from gradcheck_cli.engines.layer.isolation import Randomness
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.numpy_arrays import NumpyArrays
from gradcheck_cli.engines.layer.results import Results
from gradcheck_cli.engines.layer.subject import Layout, Output, SubjectRequest
from gradcheck_cli.engines.numpy.casts import Kind
from gradcheck_cli.engines.numpy.pair import Pair, Run, by_input, convention, load_pair, pair_of
from gradcheck_cli.engines.numpy.state import arrays_of, get, gradient_of, put
from gradcheck_cli.engines.temporarily import temporarily

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.recording import Recording

_generator: Any = import_module("numpy.random._generator")


class _PairVJP:
    """The results of backward after one forward run. An object that remembers its forward run may
    forget it, or add gradients up, so with `several` passes each one runs on a copy."""

    def __init__(self, pull: Callable[[Pair, Sequence[Any]], list[Any]], pair: Pair) -> None:
        self._pull = pull
        self._pair = pair
        self.several = False

    def __call__(self, cotangents: Sequence[Any]) -> list[Any]:
        return self._pull(self._pair.copied() if self.several else self._pair, cotangents)


class NumpySubject(LayerSubject):
    """A pair in one dtype. Every call runs on a copy of the object that owns the pair, so backward
    finds what forward left there."""

    every_output_has_a_cotangent = True
    complex_gradients = (
        "a complex gradient of a NumPy pair, the upstream one too, is dL/dRe + i dL/dIm; both "
        "parts are compared with the truth"
    )

    def __init__(self, request: SubjectRequest) -> None:
        super().__init__(request)
        self.fw = NumpyArrays(
            request.dtype,
            "a NumPy backward cannot be differentiated again",
            "a pair of NumPy functions has no forward mode",
        )
        self._kind = Kind(self.dtype, uncast=True) if request.uncast else None
        self._random = Randomness(request.seed)
        implementation = request.implementation
        found = load_pair(implementation)
        self._random.restart()
        pair, made = pair_of(found, implementation)
        self._pair = self._running = pair.copied()
        self._results = Results(
            "floating numpy.ndarray",
            lambda part: isinstance(part, np.ndarray | np.generic | float | complex),
            lambda part: np.asanyarray(part).dtype.kind in "fc",
            self._pair.forward,
            empty=request.empty,
        )
        held = {} if pair.owner is None else arrays_of(self._pair.owner)
        arguments = required_of(self._pair.forward)
        self._places = {OWN + n if n in arguments else n: place for n, place in held.items()}
        self._own = {n: self._rounded(get(self._pair.owner, p)) for n, p in self._places.items()}
        self._own |= {n: request.values[n] for n in self._own.keys() & request.values.keys()}
        for name, value in self._own.items():
            put(self._pair.owner, self._places[name], self.array(value))
        self._names = [name for name in request.values if name not in self._own]
        args = () if made else implementation.args
        kwargs = {} if made else implementation.kwargs
        self._convention = convention(self._pair, self._names, args, kwargs)
        self._constants = Constants(
            (self._pair.forward, self._pair.backward),
            self._is_constant,
            request.rounding,
            self.array,
        )
        self.notes += self._constants.notes
        with self.ready({}):
            self._convention = self._convention.for_outputs(self._pair, self.inputs({}))
        self.interleaves = self._convention.style not in ("upstream", "upstreams")
        self.copies = self._pair.owner is not None
        trained = self._bind()
        self.bind_leaves(self._leaves_of(trained))

    # Binding

    def _is_constant(self, value: Any) -> bool:
        own = (get(self._pair.owner, place) for place in self._places.values())
        floating = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        return floating and not any(value is one for one in own)

    def _bind(self) -> set[str]:
        """Run forward and backward for the first time. Returns the names of the object's own arrays
        for which backward stores a gradient."""
        with self.ready({}):
            arrays = self.call(self.inputs({}))
            self.outputs = self.described(arrays)
            self.notes += self._results.notes
            if not self._own:
                return set()
            left = self._backward(self._running, self._ran, self.cotangents(self.ones))
        trained = {name for name in self._own if left.get(name) is not None}
        for name in self._own.keys() - trained:
            if trained:
                self.notes += (f"backward stores no gradient of `{name}`: not checked",)
        return trained

    def _leaves_of(self, trained: set[str]) -> Iterator[Leaf]:
        for name in self._names:
            value = self.request.values[name]
            yield Leaf(name, "input", value, value.dtype.kind == "f")
        for name, value in self._own.items():
            role: Role = "parameter" if name in trained else "buffer"
            yield Leaf(name, role, value, name in trained)
        yield from self._constants.leaves()

    # State

    @contextmanager
    def ready(self, values: Values) -> Iterator[None]:
        """Run in the dtype of the request. Captured arrays are converted too, including those among
        the object's attributes."""
        self._random.restart()
        making = nullcontext() if self._kind is None else self._kind.making()
        with self._constants.in_place(), np.errstate(all="ignore"), making:
            running = self._pair.copied()
            for name in values.keys() & self._own.keys():
                put(running.owner, self._places[name], self.array(values[name]))
            with temporarily(self, _running=running):
                yield

    # Arrays

    def _rounded(self, value: Array) -> Array:
        return FORMATS[self.request.rounding].round(value.astype(np.float64))

    def array(self, value: Array) -> Array:
        """A new array in the dtype."""
        return self._as_kind(self.fw.array(value))

    def _as_kind(self, array: Array) -> Array:
        return array if self._kind is None else self._kind.of(array)

    def inputs(
        self, values: Values, wrt: Sequence[str] = (), layout: Layout = "contiguous"
    ) -> dict[str, Array]:
        given = {name: values.get(name, self.request.values[name]) for name in self._names}
        return {
            name: self._as_kind(laid_out(self._in_complex(name, self.fw.array(value)), layout))
            for name, value in given.items()
        }

    def _in_complex(self, name: str, array: Array) -> Array:
        return joined(array) if name in self.request.complex_inputs else array

    def cotangent(self, part: Array, output: Output, layout: Layout) -> Any:
        numbers = part.astype(output.dtype)
        return self._as_kind(laid_out(joined(numbers) if output.is_complex else numbers, layout))

    def call(self, inputs: Mapping[str, Any]) -> list[Any]:
        self._ran = self._convention.ran(self._running, inputs)
        outputs = self._results.read(self._ran.output)
        self.output_names = [name for name, _ in outputs]
        arrays = {name: np.asanyarray(part) for name, part in outputs}
        self.complex_outputs |= {name for name, y in arrays.items() if y.dtype.kind == "c"}
        return [
            np.stack([y.real, y.imag], axis=-1) if name in self.complex_outputs else y
            for name, y in arrays.items()
        ]

    def vjp(self, inputs: Mapping[str, Any], wrt: Sequence[str]) -> tuple[list[Any], _PairVJP]:
        arrays = self.call(inputs)
        run = self._ran

        def pull(pair: Pair, cotangents: Sequence[Any]) -> list[Any]:
            try:
                left = self._backward(pair, run, cotangents)
                return [self._checked_gradient(name, left.get(name)) for name in wrt]
            except Exception as error:
                self._convention.explain(error, pair, run)
                raise

        return arrays, _PairVJP(pull, self._running)

    def pass_back(self, vjp: Any, cotangents: Sequence[Any], keep: bool) -> list[Any]:
        vjp.several |= keep
        return super().pass_back(vjp, cotangents, keep)

    def _backward(self, pair: Pair, run: Run, cotangents: Sequence[Any]) -> dict[str, Any]:
        """The gradients that one backward run returns or stores, by name."""
        names = (output.name for output in self.outputs)
        upstream = _like(run.output, "y", dict(zip(names, cotangents, strict=True)))
        result = self._convention.pulled(pair, upstream, run)
        order = self._convention.order
        floating = [n for n in order if self.request.values[n].dtype.kind == "f"]
        found = by_input(result, order, floating)
        left = {}  # stored in the object by backward
        if pair.owner is not None:
            left = {n: gradient_of(pair.owner, n.removeprefix(OWN)) for n in self._own}
        return {**left, **found}

    def _checked_gradient(self, name: str, gradient: Any) -> Array | None:
        if gradient is None:
            return None
        shape = (self._own if name in self._own else self.request.values)[name].shape
        array = np.asarray(gradient)
        if name in self.request.complex_inputs:
            shape = shape[:-1]
            if array.dtype.kind in "fc" and array.shape == shape:
                return np.stack([array.real, array.imag], axis=-1)
        elif array.dtype.kind == "c":
            raise WrongKind(f"the gradient of `{name}` is complex, but `{name}` is real")
        if array.dtype.kind != "f" or array.shape != shape:
            raise WrongKind(
                f"the gradient of `{name}` is {array.dtype} of shape {array.shape}, but `{name}` "
                f"has shape {shape}"
            )
        return array

    # What a call does besides

    def watch(self, arrays: Mapping[str, Any]) -> WrittenNames:
        owner = self._running.owner

        def numbers() -> dict[str, bytes]:
            own = {name: get(owner, place) for name, place in self._places.items()}
            every = {**self._constants.arrays, **own, **arrays}
            return {name: array.tobytes() for name, array in every.items()}

        return differing(numbers)

    def in_own_memory(self, gradient: Any) -> Any:
        return np.array(gradient)

    def watch_arrays(self, arrays: Mapping[str, Any]) -> WrittenNames:
        return differing(lambda: {name: array.tobytes() for name, array in arrays.items()})

    def watch_draws(self) -> AbstractContextManager[Any]:
        return _watched_draws(self._running.owner)

    def has_drawn(self, inputs: Mapping[str, Any], draws: Any) -> bool:
        return draws.seen or self._random.has_drawn()

    # What is inside

    def record(self, row: Array) -> Recording:
        from gradcheck_cli.engines.numpy.layer_recorder import record

        with self.ready({}):
            pair = self._running

            def backward() -> dict[str, Any]:
                return self._backward(pair, self._ran, self.cotangents(row))

            span = self.request.implementation.span
            return record(self._arrays_in_use(), self._forward_of, span, backward)

    def record_forward(self) -> Recording:
        from gradcheck_cli.engines.numpy.layer_recorder import record

        with self.ready({}):
            return record(self._arrays_in_use(), self._forward_of, self.request.implementation.span)

    def _arrays_in_use(self) -> dict[str, Array]:
        """Every array that the pair computes with: captured arrays, its object's arrays, and
        inputs."""
        owner = self._running.owner
        own = {name: get(owner, place) for name, place in self._places.items()}
        return {**self._constants.arrays, **own, **self.inputs({})}

    def _forward_of(self, arrays: Values) -> list[Array]:
        """The outputs with these arrays in place of those that the pair computes with."""
        for name, place in self._places.items():
            put(self._running.owner, place, arrays[name])
        self._constants.put(arrays)
        return self.call({name: arrays[name] for name in self._names})

    def casts(self) -> Sequence[Cast]:
        kind = Kind(self.dtype, self.request.uncast)
        with temporarily(self, _kind=kind), self.ready(self._own):
            outputs = self.call(self.inputs({}))
            kind.watch.end_forward([getattr(y, "history", None) for y in outputs])
            self._backward(self._running, self._ran, self.cotangents(self.ones))
        return kind.watch.found()

    @property
    def user_function(self) -> Any:
        return self._pair.forward

    def functions(self, row: Array | None = None) -> Sequence[CustomCall]:
        """The pair, which is the layer itself."""
        backward = getattr(self._pair.backward, "__func__", self._pair.backward)
        names = self.wrt
        order = [name for name in self._convention.order if name in names]
        return (
            CustomCall(
                name=self.request.implementation.target,
                live=None,
                values={},
                moving=names,
                reaches=frozenset(names),
                positions={name: (place,) for place, name in enumerate(order)},
                backward=backward,
            ),
        )


def laid_out(array: Array, layout: Layout) -> Array:
    """The array with this memory layout: the array itself if it has the layout, otherwise a copy,
    or a read-only view for "expanded"."""
    if layout == "transposed":
        return np.asarray(array, order="F")  # np.asfortranarray adds an axis to a number
    if layout == "sliced" and array.ndim:
        wide = np.full((*array.shape[:-1], 2 * array.shape[-1] + 1), np.nan, array.dtype)
        wide[..., 1::2] = array
        return wide[..., 1::2]
    if layout == "expanded":
        base = array
        for axis in range(array.ndim):
            first = base.take([0], axis) if base.shape[axis] else base
            if np.array_equal(np.broadcast_to(first, base.shape), base):
                base = first
        return np.broadcast_to(base, array.shape)  # read-only: writing raises
    return array


def _like(output: Any, name: str, parts: Values) -> Any:
    """The cotangents in the structure of an output (named as `results.flattened` names its parts).
    A part without a cotangent is None. The cotangent of a Python number is a Python number, which
    leaves arrays their dtype."""
    if isinstance(output, Mapping):
        return {key: _like(part, f"{name}[{key!r}]", parts) for key, part in output.items()}
    if hasattr(output, "_fields"):
        fields = (_like(getattr(output, f), f"{name}.{f}", parts) for f in output._fields)
        return type(output)(*fields)
    if isinstance(output, tuple | list):
        return type(output)(_like(p, f"{name}[{i}]", parts) for i, p in enumerate(output))
    if is_dataclass(output) and not isinstance(output, type):
        fields = ((f.name, getattr(output, f.name, None)) for f in dataclass_fields(output))
        return replace(output, **{f: _like(part, f"{name}.{f}", parts) for f, part in fields})
    part = parts.get(name)
    if part is None or type(output) not in (float, complex):  # NumPy's keep their dtype
        return part
    return part.item()


class _OwnDraws:
    """Whether random numbers were drawn: `seen` is true if a generator was made, or if one of the
    object's generators has advanced."""

    def __init__(self) -> None:
        self.seen = False


@contextmanager
def _watched_draws(owner: Any) -> Iterator[_OwnDraws]:
    """Watch the generators among the attributes of an object inside the block, and those that
    `default_rng` makes, which looks its bit generator up in its module in each call."""
    draws, made = _OwnDraws(), _generator.PCG64
    held = [
        v for v in getattr(owner, "__dict__", {}).values() if isinstance(v, np.random.Generator)
    ]
    before = [repr(one.bit_generator.state) for one in held]

    def make(*args: Any) -> Any:
        draws.seen = True
        return made(*args)

    try:
        with temporarily(_generator, PCG64=make):
            yield draws
    finally:
        draws.seen |= before != [repr(one.bit_generator.state) for one in held]
