"""A user's layer in one dtype: everything that is the same in all frameworks."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, as_pairs
from gradcheck_cli.domain.evaluation import Mode, modes_in
from gradcheck_cli.domain.records import dataclass, replace
from gradcheck_cli.engines.derivatives import (
    double_vjp,
    forward_over_forward,
    forward_over_reverse,
    gradient_of,
    reverse_over_forward,
    reverse_over_reverse,
)
from gradcheck_cli.engines.errors import Unsupported, WrongKind
from gradcheck_cli.engines.layer.custom import ForwardPass, Passes
from gradcheck_cli.engines.layer.framework_layer import VJP, FrameworkLayer, WrittenNames, differing
from gradcheck_cli.engines.layer.subject import (
    Call,
    CallResult,
    Layout,
    Spare,
    Subject,
    one_by_one,
    output_size,
)

if TYPE_CHECKING:
    from gradcheck_cli.domain.layer import Leaf
    from gradcheck_cli.engines.layer.declared import Declared
    from gradcheck_cli.engines.layer.lifting import Lifted
    from gradcheck_cli.engines.layer.recording import Recording
    from gradcheck_cli.engines.layer.rewriting import Expression, Seen

SMALL = 2**20  # bytes; a copy of fewer costs nothing


_COMPOSED: dict[Mode, Callable[..., list[Any]]] = {
    "reverse-over-reverse": reverse_over_reverse,
    "forward-over-reverse": forward_over_reverse,
    "reverse-over-forward": reverse_over_forward,
    "reverse-over-reverse-over-reverse": reverse_over_reverse,
    "forward-over-reverse-over-reverse": forward_over_reverse,
}
"""Those of third order are of the gradient that reverse mode gave."""

MOST_COLUMNS = 1024
"""Passes for one gradient of a layer without a reverse mode: seconds."""


@dataclass(eq=False, slots=True)
class _Graph:
    """The result of a forward run for its backward passes. It is as large as the layer."""

    inputs: Mapping[str, Any]
    arrays: list[Any]
    vjp: Any

    def let_go(self) -> None:
        self.inputs, self.arrays, self.vjp = {}, [], None


@dataclass(eq=False, slots=True)
class _Seen:
    """What the passes of one call show: their gradients (`passes`) or the dtypes of these, whether
    a cotangent was written to (`spoilt`), and which gradients were `overwritten` after they were
    `returned`. `handed`: which outputs were written to after the forward run."""

    passes: list[list[Any]] = field(default_factory=list)
    dtypes: dict[str, str] = field(default_factory=dict)
    spoilt: bool = False
    overwritten: set[str] = field(default_factory=set)
    returned: WrittenNames = tuple
    handed: WrittenNames = tuple


def _rows_of(call: Call) -> list[tuple[Array, Layout]]:
    """The cotangents of a call, each with its layout."""
    rows = [] if call.cotangents is None or not call.tracking else list(call.cotangents)
    layouts: list[Layout] = list(call.layouts) or ["contiguous" for _ in rows]
    return list(zip(rows, layouts, strict=True))


class LayerSubject(FrameworkLayer, Subject):
    """`subject.Subject` of a layer that a framework has bound: its values, gradients and second
    derivatives, and the operations inside of it."""

    _function: Any = None  # what the user handed over, as it is called, where that is Python
    shows_pairs = False

    # Values

    def value(self, values: Mapping[str, Array]) -> Array:
        if self._declared_value is not None:
            return self._declared_value(values)
        return self.plain_value(values)

    @property
    def is_held(self) -> bool:
        """Whether a declaration about something inside the layer is followed."""
        return self._declared_value is not None

    def plain_value(self, values: Mapping[str, Array]) -> Array:
        """The value of the layer itself, without following declarations."""
        with self.ready(values), self.untracked():
            return self.flat(self.call(self.inputs(values)))

    def several(self, many: Sequence[Mapping[str, Array]]) -> Array:
        return one_by_one(self, many)

    # First derivatives

    def run(self, call: Call) -> CallResult:
        if self.mode == "reverse":
            try:
                return self._call_result(call)
            except (NotImplementedError, ValueError) as error:
                if not (self.request.forward and self.no_reverse and self.no_reverse in str(error)):
                    raise
            self.mode = "forward"  # there is no other
        return self._by_columns(call)

    def _call_result(self, call: Call) -> CallResult:
        wrt = self.wrt if call.wrt is None else call.wrt
        seen = _Seen()
        with self.ready(call.values), self.only(call.wrt):
            inputs = self.inputs(call.values, wrt if call.tracking else (), call.inputs)
            if call.earlier_inputs is not None:
                earlier = self.inputs(call.earlier_inputs, wrt, call.inputs)
                self._run_earlier(call, wrt, earlier, seen)
                del earlier
            written = self.watch(inputs) if call.watch else tuple
            with self.watch_draws() if call.watch else nullcontext() as draws:
                arrays, vjp = self._forward(inputs, wrt, call.tracking)
            graph = _Graph(inputs, arrays, vjp)
            del inputs, arrays, vjp
            output, changed = self.flat(graph.arrays), written()
            if call.watch:
                seen.handed = self._watch_outputs(graph.arrays)
            if call.interleaved_inputs is not None and self.interleaves:
                with self.ready(call.interleaved_inputs):
                    others = wrt if call.tracking else ()
                    self._forward(self.inputs(call.interleaved_inputs, others), wrt, call.tracking)
            self._run_backward(call, wrt, graph, output, seen)
            graph.arrays, graph.vjp = [], None
            later, output_written = written(), bool(seen.handed())
            random = call.watch and self.has_drawn(graph.inputs, draws)
            accumulated = self.accumulated(graph.inputs) if call.watch else ()
            del graph, written
            result = CallResult(output, dtypes=seen.dtypes)
            if call.each is None:
                result = self.result(output, wrt, seen.passes, self.fw.numpy)
            return replace(
                result,
                changed=changed,
                changed_later=later,
                upstream_changed=seen.spoilt,
                overwritten=tuple(n for n in wrt if n in seen.overwritten),
                output_written=output_written,
                accumulated=accumulated,
                random=random,
            )

    def _run_earlier(
        self, call: Call, wrt: Sequence[str], inputs: Mapping[str, Any], seen: _Seen
    ) -> None:
        """A forward run and a backward pass at other inputs, before those of the call."""
        arrays, vjp = self._forward(inputs, wrt, True)
        seen.handed = self._watch_outputs(arrays)
        row, layout = _rows_of(call)[0]
        grads, _ = self._pass(call, row, layout, vjp, False)
        seen.returned = self._watch_returned(wrt, grads)

    def _run_backward(
        self, call: Call, wrt: Sequence[str], graph: _Graph, output: Array, seen: _Seen
    ) -> None:
        """A backward pass for each cotangent. `call.each` receives their gradients one by one, or
        `seen.passes` collects all of them."""
        rows = _rows_of(call)
        for i, (row, layout) in enumerate(rows):
            keep = i + 1 < len(rows)
            with ExitStack() as anew:
                if i and self.runs_once:
                    graph.vjp = anew.enter_context(self._fresh_vjp(call, wrt))
                try:
                    grads, wrote = self._pass(call, row, layout, graph.vjp, keep)
                except WrongKind:
                    raise
                except Exception as error:  # what finds nothing kept for it may raise anything
                    if not self.learns(error, i == 0, call):
                        raise
                    vjp = anew.enter_context(self._fresh_vjp(call, wrt))
                    grads, wrote = self._pass(call, row, layout, vjp, keep)
            seen.spoilt |= wrote
            seen.overwritten.update(seen.returned())
            if keep and call.retained:
                seen.returned = self._watch_returned(wrt, grads)
            if self.copies or (keep and call.each is None):  # what follows may write to them
                grads = [None if g is None else self.in_own_memory(g) for g in grads]
            if call.each is None:
                seen.passes.append(grads)
            else:
                if not keep and not call.watch:
                    graph.let_go()
                result = self.result(output, wrt, [grads], self.numbers)
                seen.dtypes.update(result.dtypes)
                call.each(i, result.row(0))
                del result
            del grads  # whose memory is needed for what comes next

    def vjp(self, inputs: Mapping[str, Any], wrt: Sequence[str]) -> tuple[list[Any], VJP]:
        """One forward run, and the vjp of the layer there."""
        primals = [self.primal(name, inputs) for name in wrt]
        arrays, _, vjp = self.fw.vjp(self.function(wrt, inputs), primals)
        return arrays, vjp

    def _vjp_of_gradient(
        self, inputs: Mapping[str, Any], wrt: Sequence[str], row: Array
    ) -> tuple[list[Any], VJP]:
        """One forward and backward pass of a row: the gradients that arrive, and their vjp."""
        primals = [self.primal(name, inputs) for name in wrt]
        function = gradient_of(self.fw, self.function(wrt, inputs), self.cotangents(row))
        arrays, _, vjp = self.fw.vjp(function, primals)
        return [gradient for gradient in arrays if gradient is not None], vjp

    def _forward(
        self, inputs: Mapping[str, Any], wrt: Sequence[str], tracking: bool
    ) -> tuple[list[Any], Any]:
        if tracking:
            return self.vjp(inputs, wrt)
        with self.untracked():
            return self.call(inputs), None

    @contextmanager
    def _fresh_vjp(self, call: Call, wrt: Sequence[str]) -> Iterator[VJP]:
        """Another forward run, whose backward pass sees the writes of that run."""
        with self.ready(call.values):
            yield self.vjp(self.inputs(call.values, wrt, call.inputs), wrt)[1]

    def _pass(
        self, call: Call, row: Array, layout: Layout, vjp: VJP, keep: bool
    ) -> tuple[list[Any], bool]:
        """The gradients of one row, and whether the pass wrote to its cotangents."""
        bars = self.cotangents(row, call.used_outputs, layout)
        keep &= not self.runs_once
        marked = {str(i): bar for i, bar in enumerate(bars) if bar is not None}
        written = self.watch_arrays(marked) if call.watch else tuple
        with np.errstate():  # which the backward may set
            return self.pass_back(vjp, bars, keep), bool(written())

    def _watch_returned(self, wrt: Sequence[str], grads: Sequence[Any]) -> WrittenNames:
        """Watches whether gradients are written to after they were returned. Large ones are not
        kept for that."""
        small = {
            name: gradient
            for name, gradient in zip(wrt, grads, strict=True)
            if gradient is not None and 8 * math.prod(self.shapes[name]) <= SMALL
        }
        return differing(lambda: {n: self.fw.numpy(g).tobytes() for n, g in small.items()})

    def _watch_outputs(self, arrays: Sequence[Any]) -> WrittenNames:
        return self.watch_arrays(dict(zip(self.output_names, arrays, strict=True)))

    def result(
        self,
        output: Array,
        wrt: Sequence[str],
        passes: Sequence[Sequence[Any]],
        numbers: Callable[[Any], Array],
    ) -> CallResult:
        """The gradients of all passes, by leaf. `numbers` converts an array. Raises WrongKind."""
        gradients: dict[str, Array | None] = {}
        dtypes: dict[str, str] = {}
        for place, name in enumerate(wrt):
            parts = [grads[place] for grads in passes]
            known = [part for part in parts if part is not None]
            gradients[name] = (
                self._stacked(name, self.shapes[name], parts, numbers) if known else None
            )
            if known:
                dtypes[name] = self.fw.dtype_of(known[0])
        return CallResult(output, gradients, dtypes)

    def _stacked(
        self,
        name: str,
        shape: tuple[int, ...],
        parts: Sequence[Any],
        numbers: Callable[[Any], Array],
    ) -> Array:
        size = math.prod(shape)
        rows = []
        for part in parts:
            if part is not None and tuple(part.shape) != shape:
                raise WrongKind(
                    f"the gradient of `{name}` has shape {tuple(part.shape)}, but `{name}` has "
                    f"shape {shape}"
                )
            rows.append(np.zeros(size) if part is None else numbers(part).reshape(size))
        if len(rows) > 1:
            return np.stack(rows)
        (row,) = rows  # which may be as large as the layer; a small one is not the framework's own
        return row[None] if row.nbytes > SMALL else np.array(row)[None]

    def _by_columns(self, call: Call) -> CallResult:
        """The answer of a layer without a reverse mode: that of its forward, and rows of its
        Jacobian, whose columns forward mode gives. Raises Unsupported where there are too many."""
        forward = replace(call, cotangents=None, layouts=(), earlier_inputs=None, each=None)
        result = self._call_result(forward)
        if call.cotangents is None or not call.tracking:
            return result
        wrt = self.wrt if call.wrt is None else call.wrt
        leaves = [leaf for name in wrt for leaf in self.leaves if leaf.name == name]
        count = sum(leaf.size for leaf in leaves)
        if count > MOST_COLUMNS:
            raise Unsupported(
                "the framework has no reverse mode for it, and a gradient by forward mode would "
                f"take {count} passes, more than {MOST_COLUMNS}"
            )
        used = np.zeros(call.cotangents.shape[1])  # zeros for outputs that are not used
        for output in self.outputs:
            named = call.used_outputs is None or output.name in call.used_outputs
            used[output.start : output.start + output.size] = named
        rows = call.cotangents * used
        with self.forward_mode(wrt), np.errstate(all="ignore"):
            by_leaf = {leaf.name: rows @ self.columns(leaf, call.values) for leaf in leaves}
        result = replace(result, gradients=by_leaf)
        if call.each is None:
            return result
        for i in range(len(call.cotangents)):
            call.each(i, result.row(i))
        return replace(result, gradients={})

    def columns(self, leaf: Leaf, values: Mapping[str, Array]) -> Array:
        """The Jacobian with respect to one leaf, (m, n), by forward mode along each of its entries.
        Each column is a call of its own, with the same state and random numbers."""
        units = np.eye(leaf.size).reshape(leaf.size, *leaf.shape)
        return np.array([self._column(leaf, values, unit) for unit in units]).T

    def _column(self, leaf: Leaf, values: Mapping[str, Array], unit: Array) -> Array:
        with self.ready(values):
            x_dot = self.leaf_array(leaf.name, unit)
            return self._joined(self._jvp((leaf.name,), self.inputs(values), [x_dot]))

    def jvp(self, tangents: Mapping[str, Array]) -> Array | None:
        with self.ready({}), self.forward_mode(tuple(tangents)):
            return self._jvp_of(tangents)

    def tangents_of(self, tangents: Mapping[str, Array]) -> Array:
        with self.ready({}), self.forward_mode(tuple(tangents)):
            parts = zip(self.outputs, self._parts(tangents), strict=True)
            return np.concatenate([np.full(y.size, part is not None) for y, part in parts])

    def _jvp_of(self, tangents: Mapping[str, Array]) -> Array | None:
        tangent_parts = self._parts(tangents)
        if tangent_parts and all(part is None for part in tangent_parts):
            return None
        return self._joined(tangent_parts)

    def _parts(self, tangents: Mapping[str, Array]) -> list[Any]:
        """The tangent of each output, or None if it has none."""
        names = tuple(tangents)
        made = self.spare_array if isinstance(tangents, Spare) else self.leaf_array
        along = [made(name, tangent) for name, tangent in tangents.items()]
        evaluated = self.evaluated("jvp", names, partial(self._jvp, names))
        return list(evaluated(self.inputs({}), along))

    def _jvp(
        self, names: Sequence[str], inputs: Mapping[str, Any], along: Sequence[Any]
    ) -> list[Any]:
        primals = [self.primal(name, inputs) for name in names]
        return self.fw.jvp(self.function(names, inputs), primals, along)[1]

    # Second derivatives

    def hvp(
        self,
        mode: Mode,
        row: Array,
        tangents: Mapping[str, Array],
        along: Mapping[str, Array] | None = None,
    ) -> dict[str, Array | None]:
        wrt = self.wrt

        def product(
            inputs: Any, bars: list[Any], firsts: Mapping[str, Any], seconds: Mapping[str, Any]
        ) -> list[Any]:
            primals = [self.primal(name, inputs) for name in wrt]
            function = self.function(wrt, inputs)
            if firsts:
                function = gradient_of(self.fw, function, bars)
                bars = [firsts.get(name) for name in wrt]
            directions = [seconds.get(name) for name in wrt]
            return _COMPOSED[mode](self.fw, function, primals, bars, directions)

        forward = "forward" in modes_in(mode)
        with self.ready({}), self.forward_mode(tuple(tangents)) if forward else nullcontext():
            firsts, seconds = (
                {name: self.leaf_array(name, part) for name, part in given.items()}
                for given in (along or {}, tangents)
            )
            evaluated = self.evaluated(mode, (*wrt, "along", *seconds, "along", *firsts), product)
            found = evaluated(self.inputs({}, wrt), self.cotangents(row), firsts, seconds)
            return {
                name: None if part is None else self.fw.numpy(part).reshape(-1)
                for name, part in zip(wrt, found, strict=True)
            }

    def second_tangent(
        self, row: Array, firsts: Mapping[str, Array], tangents: Mapping[str, Array]
    ) -> float | None:
        names, moving = tuple(tangents), tuple(firsts)

        def product(inputs: Any, along: Sequence[Any], other: Sequence[Any]) -> list[Any]:
            every = tuple(dict.fromkeys((*moving, *names)))
            primals = [self.primal(name, inputs) for name in every]
            by_name, others = (
                dict(zip(names, along, strict=True)),
                dict(zip(moving, other, strict=True)),
            )
            pairs = [[moves.get(name) for name in every] for moves in (others, by_name)]
            return forward_over_forward(self.fw, self.function(every, inputs), primals, *pairs)

        with self.ready({}), self.forward_mode((*names, *moving)):
            along, other = (
                [self.leaf_array(name, part) for name, part in moves.items()]
                for moves in (tangents, firsts)
            )
            what = forward_over_forward.__name__
            evaluated = self.evaluated(what, (*names, "along", *moving), product)
            second = evaluated(self.inputs({}), along, other)
            if all(part is None for part in second):
                return None
            return float(row @ self._joined(second))

    def double_vjp(self, row: Array, tangents: Mapping[str, Array]) -> Array:
        wrt = self.wrt

        def product(inputs: Any, bars: list[Any], directions: Sequence[Any]) -> list[Any]:
            primals = [self.primal(name, inputs) for name in wrt]
            return double_vjp(self.fw, self.function(wrt, inputs), primals, bars, directions)

        with self.ready({}):
            directions = [self.leaf_array(name, tangents[name]) for name in wrt]
            evaluated = self.evaluated(double_vjp.__name__, (*wrt, "along"), product)
            bars = self.differentiable(self.cotangents(row))
            found = evaluated(self.inputs({}, wrt), bars, directions)
            return self._joined(found)

    def _joined(self, parts: Sequence[Any]) -> Array:
        """The parts flattened and joined, with zeros for outputs without a tangent."""
        flat = [
            np.zeros(output.size) if part is None else self.fw.numpy(part).reshape(-1)
            for output, part in zip(self.outputs, parts, strict=True)
        ]
        return flat[0] if len(flat) == 1 else np.concatenate([np.zeros(0), *flat])

    # What is inside

    @contextmanager
    def passes(self, row: Array | None = None, derived: bool = False) -> Iterator[Passes]:
        """A forward pass, and the backward pass of a row, ready to be watched. If `derived`, the
        forward pass is both, and returns the gradients."""
        wrt = self.wrt
        with self.ready({}), self.operation_by_operation():
            inputs = self.inputs({}, wrt)
            leaves = {leaf.name: self.primal(leaf.name, inputs) for leaf in self.leaves}
            made: list[Any] = []

            def call() -> list[Any]:
                with self.seeded():
                    if derived:
                        assert row is not None
                        arrays, vjp = self._vjp_of_gradient(inputs, wrt, row)
                    else:
                        arrays, vjp = self.vjp(inputs, wrt)
                made[:] = [vjp]
                return arrays

            def pull() -> list[Any]:
                assert row is not None
                return self.pass_back(made[0], self.cotangents(row), keep=False)

            def reached(arrays: Sequence[Any]) -> frozenset[str]:
                pairs = zip(wrt, made[0].reaches(arrays), strict=True)
                return frozenset(name for name, is_reached in pairs if is_reached)

            yield Passes(leaves, wrt, call, pull, reached)

    def arguments(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The arguments of a forward pass, and its leaves as it receives them."""
        inputs = self.inputs({})
        return inputs, {leaf.name: self.primal(leaf.name, inputs) for leaf in self.leaves}

    @contextmanager
    def forward_pass(self) -> Iterator[ForwardPass]:
        """A forward pass as in inference, ready to be watched."""
        with self.ready({}), self.operation_by_operation():
            inputs, leaves = self.arguments()

            def call() -> list[Any]:
                with self.untracked():
                    return self.call(inputs)

            yield ForwardPass(leaves, call)

    @property
    def ones(self) -> Array:
        """A row of cotangents in which every output counts."""
        return np.ones(output_size(self))

    def record(self, row: Array) -> Recording:
        from gradcheck_cli.engines.layer.recording import record

        recorder = self.recorder()
        with self.passes(row) as passes:
            return record(recorder, passes, self.request.implementation.span)

    def record_forward(self) -> Recording:
        from gradcheck_cli.engines.layer.recording import record

        recorder = self.recorder()
        with self.forward_pass() as forward:
            return record(recorder, forward, self.request.implementation.span)

    def lift(self) -> Lifted:
        from gradcheck_cli.engines.layer.lifting import lifted

        recording = self.record_forward()
        found = lifted(recording, self.leaves, self.request.implementation.span)
        if not found.islands:  # which run operations again
            recording.execution.clear()
        return found

    @property
    def user_function(self) -> Any:
        return self._function

    # The user's source

    def evaluations_of(
        self, expression: Expression, run: Callable[[], object], others: Sequence[ast.expr] = ()
    ) -> Sequence[Seen]:
        with self.rewritten(), expression.collecting(self._numbers, others) as found:
            run()
        return found

    @contextmanager
    def replacing(
        self, expression: Expression, text: str, names: Mapping[str, Any]
    ) -> Iterator[None]:
        with self.rewritten(), expression.replacing(text, names):
            yield

    def _numbers(self, value: Any) -> Array | None:
        if isinstance(value, (bool, int, float)):
            return np.asarray(value)
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            return None
        if "complex" in str(value.dtype) and not self.shows_pairs:
            return None
        try:
            array = value if isinstance(value, np.ndarray) else self.fw.numpy(value)
        except Exception:  # what stands for numbers while a function is traced has none
            return None
        if array.dtype.kind == "c":
            array = as_pairs(array)
        return np.array(array) if array.dtype.kind in "fiub" else None

    # What is declared as meant

    def hold(self, declared: Declared) -> None:
        call, wrt = self.declared_call(declared), self.wrt
        if call is None:
            return

        def value(values: Mapping[str, Array]) -> Array:
            with self.ready(values):
                return self.flat(call(self.inputs(values, wrt)))

        def replayed(values: Mapping[str, Array]) -> Array:
            with declared.replaying():
                return value(values)

        with self.separate_functions(), declared.recording():
            value({})
        self._declared_value = replayed if declared.any else None

    def declared_call(self, declared: Declared) -> Callable[[dict[str, Any]], list[Any]] | None:
        """The call of the layer with everything that is declared passed through `declared`; None if
        nothing inside has its own derivative."""
        return None

    def close(self) -> None:
        self._declared_value = None
