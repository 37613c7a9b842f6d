"""Layers of NumPy: a forward function, and a backward that somebody wrote by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import Leaf, Role
from gradcheck_cli.engines.errors import Unsupported, WrongKind
from gradcheck_cli.engines.layer.capture import Capture, captures
from gradcheck_cli.engines.layer.casts import Cast
from gradcheck_cli.engines.layer.custom import CustomCall, Lines
from gradcheck_cli.engines.layer.isolation import Randomness
from gradcheck_cli.engines.layer.results import Results
from gradcheck_cli.engines.layer.subject import (
    Call,
    CallResult,
    Layout,
    Output,
    Stencils,
    SubjectRequest,
    one_by_one,
)
from gradcheck_cli.engines.numpy.casts import Kind
from gradcheck_cli.engines.numpy.draws import watched_draws
from gradcheck_cli.engines.numpy.pair import Run, by_input, convention, load_pair, pair_of
from gradcheck_cli.engines.numpy.state import arrays_of, get, gradient_of, put

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.custom import Unbounded, Uncut
    from gradcheck_cli.engines.layer.held import Held
    from gradcheck_cli.engines.layer.recording import Recording


class NumpySubject:
    """A pair in one dtype (`subject.Subject`). Every call runs on a copy of the object that has
    both; what it leaves there is what backward finds."""

    def __init__(self, request: SubjectRequest) -> None:
        self._request = request
        self.dtype = self.digits = request.dtype
        self._numpy_dtype = FORMATS[request.dtype].numpy_dtype()
        self._kind = Kind(self.dtype, uncast=True) if request.uncast else None
        self._random = Randomness(request.seed)
        self.stencils = Stencils()
        self.mode: Mode = "reverse"
        self.notes: tuple[str, ...] = ()
        implementation = request.implementation
        found = load_pair(implementation)
        self._random.again()
        pair, made = pair_of(found, implementation)
        self._pair = pair.copied()
        self._results = Results(
            "floating numpy.ndarray",
            lambda part: isinstance(part, np.ndarray | np.generic | float),
            lambda part: np.asanyarray(part).dtype.kind == "f",
            self._pair.forward,
            empty=request.empty,
        )
        self._places = {} if pair.owner is None else arrays_of(self._pair.owner)
        self._own = {n: self._rounded(get(self._pair.owner, p)) for n, p in self._places.items()}
        self._own |= {n: request.values[n] for n in self._own.keys() & request.values.keys()}
        for name, value in self._own.items():
            put(self._pair.owner, self._places[name], self.array(value))
        self._names = [name for name in request.values if name not in self._own]
        args = () if made else implementation.args
        kwargs = {} if made else implementation.kwargs
        self._convention = convention(self._pair, self._names, args, kwargs)
        self._captures = self._captured()
        self.outputs: tuple[Output, ...] = ()
        trained = self._bind()
        self.leaves = tuple(self._leaves(trained))

    def _captured(self) -> list[tuple[Capture, Array, Array]]:
        """Floating arrays that the functions reach: the object, its numbers, what stands in for
        it."""
        found = []
        for function in (self._pair.forward, self._pair.backward):
            for capture in captures(function):
                value = capture.value
                floating = isinstance(value, np.ndarray) and value.dtype.kind == "f"
                own = (get(self._pair.owner, place) for place in self._places.values())
                if floating and capture.puts and not any(value is one for one in own):
                    rounded = self._rounded(value)
                    found.append((capture, rounded, self.array(rounded)))
        names = dict.fromkeys(capture.name for capture, _, _ in found)  # both may use one
        self.notes += tuple(f"`{name}`, which it captured, is not checked" for name in names)
        return found

    def _bind(self) -> set[str]:
        """The first forward and backward run; the names of the object's own arrays for which the
        backward leaves a gradient."""
        with self._ready():
            pair = self._pair.copied()
            arrays, run = self._forward(pair, self._inputs({}))
            self.outputs = _described(arrays)
            if not self._own:
                return set()
            row = np.ones(sum(output.size for output in self.outputs))
            left = self._backward(pair, arrays, run, row, "contiguous")
        trained = {name for name in self._own if left.get(name) is not None}
        for name in self._own.keys() - trained:
            if trained:
                self.notes += (f"backward leaves no gradient of `{name}`: not checked",)
        return trained

    def _leaves(self, trained: set[str]) -> Iterator[Leaf]:
        for name in self._names:
            value = self._request.values[name]
            yield Leaf(name, "input", value, value.dtype.kind == "f")
        for name, value in self._own.items():
            role: Role = "parameter" if name in trained else "buffer"
            yield Leaf(name, role, value, name in trained)
        for name, value in {capture.name: value for capture, value, _ in self._captures}.items():
            yield Leaf(name, "captured", value, False)

    # State

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """The same random numbers, and captured arrays in the dtype."""
        self._random.again()
        for capture, _, array in self._captures:
            capture.put(array)
        try:
            making = nullcontext() if self._kind is None else self._kind.making()
            with np.errstate(all="ignore"), making:
                yield
        finally:
            for capture, _, _ in self._captures:
                capture.put(capture.value)

    def _fresh(self, values: Mapping[str, Array]) -> Any:
        """The pair of a copy of the object, with these values of its arrays."""
        pair = self._pair.copied()
        for name in values.keys() & self._own.keys():
            put(pair.owner, self._places[name], self.array(values[name]))
        return pair

    # Arrays

    def _rounded(self, value: Array) -> Array:
        rounded: Array = FORMATS[self._request.rounding].round(value.astype(np.float64))
        return rounded

    def array(self, value: Array) -> Array:
        """A copy of its own, in the dtype."""
        floating = value.dtype.kind == "f"
        return self._handed(np.array(value, dtype=self._numpy_dtype if floating else None))

    def _handed(self, array: Array) -> Array:
        return array if self._kind is None else self._kind.of(array)

    def _inputs(
        self, values: Mapping[str, Array], layout: Layout = "contiguous"
    ) -> dict[str, Array]:
        given = {name: values.get(name, self._request.values[name]) for name in self._names}
        return {name: laid_out(self.array(value), layout) for name, value in given.items()}

    def _forward(
        self, pair: Any, inputs: Mapping[str, Array]
    ) -> tuple[list[tuple[str, Array]], Run]:
        run = self._convention.ran(pair, inputs)
        return [(n, np.asanyarray(part)) for n, part in self._results.read(run.output)], run

    def _backward(
        self,
        pair: Any,
        arrays: Sequence[tuple[str, Array]],
        run: Run,
        row: Array,
        layout: Layout,
        through: Sequence[str] | None = None,
        given: list[Array] | None = None,
    ) -> dict[str, Any]:
        """The gradients that one backward run gives or leaves, by name. The cotangents that it was
        handed go to `given`."""
        parts = {}
        for output, (name, array) in zip(self.outputs, arrays, strict=True):
            part = row[output.start : output.start + output.size].reshape(output.shape)
            part = part if through is None or name in through else np.zeros(output.shape)
            parts[name] = self._handed(laid_out(part.astype(array.dtype), layout))
        if given is not None:
            given.extend(parts.values())
        upstream = _like(run.output, "y", parts)
        result = self._convention.pulled(pair, upstream, run)
        order = self._convention.order
        floating = [n for n in order if self._request.values[n].dtype.kind == "f"]
        found = by_input(result, order, floating)
        left = {} if pair.owner is None else {n: gradient_of(pair.owner, n) for n in self._own}
        return {**left, **found}

    # What is asked

    def value(self, values: Mapping[str, Array]) -> Array:
        with self._ready():
            return _flat(self._forward(self._fresh(values), self._inputs(values))[0])

    def several(self, many: Sequence[Mapping[str, Array]]) -> Array:
        return one_by_one(self, many)

    def run(self, call: Call) -> CallResult:
        moving = tuple(leaf.name for leaf in self.leaves if leaf.differentiable)
        wrt = moving if call.wrt is None else call.wrt
        rows = np.zeros((0, 0)) if call.cotangents is None else call.cotangents
        if not call.tracking:
            rows = rows[:0]
        with self._ready():
            pair, inputs = self._fresh(call.values), self._inputs(call.values, call.inputs)
            before = self._numbers(pair, inputs)
            with watched_draws(pair.owner) if call.watch else nullcontext() as own:
                arrays, run = self._forward(pair, inputs)
            output, between = _flat(arrays), self._numbers(pair, inputs)
            if call.interleaved_inputs is not None and self._convention.style != "upstream":
                self._forward(
                    self._fresh(call.interleaved_inputs), self._inputs(call.interleaved_inputs)
                )
            passes, spoilt = [], False
            for row in rows:
                # what remembers its forward run may forget it, or add gradients up
                mine = pair.copied() if len(rows) > 1 else pair
                given: list[Array] = []
                left = self._backward(mine, arrays, run, row, call.layout, call.used_outputs, given)
                passes.append({name: self._checked(name, left.get(name)) for name in wrt})
                spoilt |= not np.array_equal(_joined(given), self._upstream(row, call.used_outputs))
            after = self._numbers(pair, inputs)
            drawn = self._random.drawn()
        gradients = {n: self._stacked(n, [one[n] for one in passes]) for n in wrt}
        dtypes = {n: str(g.dtype) for one in passes for n, g in one.items() if g is not None}
        return CallResult(
            output,
            gradients,
            dtypes,
            changed=_differing(before, between) if call.watch else (),
            changed_later=_differing(between, after) if call.watch else (),
            upstream_changed=call.watch and spoilt,
            random=own is not None and (own.seen or drawn),
        )

    def _upstream(self, row: Array, through: Sequence[str] | None) -> Array:
        """The cotangents of a row as they were before backward had them."""
        parts = []
        for output in self.outputs:
            part = row[output.start : output.start + output.size]
            kept = through is None or output.name in through
            parts.append((part if kept else np.zeros(output.size)).astype(output.dtype))
        return _joined(parts)

    def _numbers(self, pair: Any, inputs: Mapping[str, Array]) -> dict[str, bytes]:
        own = {n: get(pair.owner, place).tobytes() for n, place in self._places.items()}
        return {**own, **{name: array.tobytes() for name, array in inputs.items()}}

    def _start(self, name: str) -> Array:
        return self._own[name] if name in self._own else self._request.values[name]

    def _checked(self, name: str, gradient: Any) -> Array | None:
        if gradient is None:
            return None
        shape = self._start(name).shape
        found = np.asarray(gradient)
        if found.dtype.kind != "f" or found.shape != shape:
            raise WrongKind(
                f"the gradient of `{name}` is {found.dtype} of shape {found.shape}, but `{name}` "
                f"has shape {shape}"
            )
        return found.copy()

    def _stacked(self, name: str, parts: Sequence[Array | None]) -> Array | None:
        if all(part is None for part in parts):
            return None
        size = self._start(name).size
        return np.stack(
            [np.zeros(size) if p is None else p.astype(np.float64).reshape(size) for p in parts]
        )

    def jvp(self, tangents: Mapping[str, Array]) -> Array:
        raise Unsupported("a pair of NumPy functions has no forward mode")

    def hvp_reverse_over_reverse(
        self, row: Array, tangents: Mapping[str, Array]
    ) -> Mapping[str, Array | None]:
        raise Unsupported("a backward of NumPy cannot be differentiated again")

    def hvp_forward_over_reverse(
        self, row: Array, tangents: Mapping[str, Array]
    ) -> Mapping[str, Array | None]:
        raise Unsupported("NumPy has no forward mode")

    def record(self, row: Array) -> Recording:
        from gradcheck_cli.engines.numpy.layer_recorder import record

        pair = self._fresh({})
        with self._ready():
            inputs = self._inputs({})
            captured = {capture.name: array for capture, _, array in self._captures}
            own = {name: get(pair.owner, place) for name, place in self._places.items()}
            made: list[tuple[list[tuple[str, Array]], Run]] = []

            def forward(noted: Mapping[str, Array]) -> list[Array]:
                for name, place in self._places.items():
                    put(pair.owner, place, noted[name])
                for capture, _, _ in self._captures:
                    capture.put(noted[capture.name])
                made.append(self._forward(pair, {name: noted[name] for name in inputs}))
                return [array for _, array in made[0][0]]

            def backward() -> dict[str, Any]:
                arrays, run = made[0]
                return self._backward(pair, arrays, run, row, "contiguous")

            leaves = {**captured, **own, **inputs}
            return record(leaves, forward, backward, self._request.implementation.span)

    def casts(self) -> Sequence[Cast]:
        before, self._kind = self._kind, Kind(self.dtype, self._request.uncast)
        watch = self._kind.watch
        try:
            with self._ready():
                pair = self._fresh(self._own)
                arrays, run = self._forward(pair, self._inputs({}))
                watch.backward = True
                row = np.ones(sum(output.size for output in self.outputs))
                self._backward(pair, arrays, run, row, "contiguous")
        finally:
            self._kind = before
        return watch.found()

    def functions(self) -> Sequence[CustomCall]:
        """The pair, which is the layer."""
        backward = getattr(self._pair.backward, "__func__", self._pair.backward)
        names = tuple(leaf.name for leaf in self.leaves if leaf.differentiable)
        order = [name for name in self._convention.order if name in names]
        return (
            CustomCall(
                name=self._request.implementation.target,
                live=None,
                values={},
                moving=names,
                reaches=frozenset(names),
                positions={name: place for place, name in enumerate(order)},
                backward=backward,
            ),
        )

    def lines(self, row: Array) -> Lines:
        """None is seen: NumPy does not say who writes."""
        return Lines()

    def uncut(self, row: Array) -> tuple[Mapping[str, Array | None], Sequence[Uncut]]:
        """None: there is no graph."""
        return {}, ()

    def unbounded(self, rows: Array) -> Sequence[Unbounded]:
        """None: bounds are not looked for."""
        return ()

    def hold(self, held: Held) -> None:
        """Nothing: there is nothing inside that has a derivative of its own."""

    def close(self) -> None:
        """Nothing of the user's is held between calls."""


def laid_out(array: Array, layout: Layout) -> Array:
    """The same numbers, lying in memory as `layout` says."""
    if layout == "transposed":
        return np.asarray(array, order="F")  # np.asfortranarray gives a number an axis
    if layout == "sliced" and array.ndim:
        wide = np.full((*array.shape[:-1], 2 * array.shape[-1] + 1), np.nan, array.dtype)
        wide[..., 1::2] = array
        return wide[..., 1::2]
    if layout == "expanded":
        one = array
        for axis in range(array.ndim):
            first = one.take([0], axis) if one.shape[axis] else one
            if np.array_equal(np.broadcast_to(first, one.shape), one):
                one = first
        return np.broadcast_to(one, array.shape)  # read-only: who writes to it is told so
    return array


def _described(arrays: Sequence[tuple[str, Array]]) -> tuple[Output, ...]:
    outputs: list[Output] = []
    start = 0
    for name, array in arrays:
        outputs.append(Output(name, array.shape, str(array.dtype), start))
        start += array.size
    return tuple(outputs)


def _flat(arrays: Sequence[tuple[str, Array]]) -> Array:
    return _joined([array for _, array in arrays]).astype(np.float64)


def _joined(arrays: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0, np.float16), *(np.ravel(array) for array in arrays)])


def _like(output: Any, name: str, parts: Mapping[str, Array]) -> Any:
    """Cotangents in the structure of an output (named as `results.flattened` names them); None for
    what has none."""
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
    return parts.get(name)


def _differing(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> tuple[str, ...]:
    return tuple(name for name, numbers in one.items() if other[name] != numbers)
