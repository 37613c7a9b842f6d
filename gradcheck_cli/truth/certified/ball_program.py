"""Run a program in ball arithmetic, and estimate the work that this takes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.program import CONSTANT, INPUT, CustomGradient, Node, Program
from gradcheck_cli.domain.program_cache import cached_by_program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import SAME_STEP, Cost
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.truth.batching import batch_of_few
from gradcheck_cli.truth.certified.still_elements import SUMS, still_elements
from gradcheck_cli.truth.certified.ties import Mask, Ties, at_a_kink, tied_elements, with_unknown
from gradcheck_cli.truth.plain import constant, inlined, moving

NODES_BITS = 2200  # the square of the smallest float64, beside 1
FEW_BALLS = 64
"""The average size of a node up to which several cotangents are pulled back at once: a step of a
tape takes about as long as an operation on so many balls, and the forward run is repeated for
each."""


LARGEST = float(np.finfo(np.float64).max)


def has_value(ball: Any) -> bool:
    """Check whether a ball may hold a number. The whole line is such a ball: nothing is known
    yet."""
    return bool(ball.mid().is_finite())


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run of a program on balls at the precision `bits`: its output, its vjp, and whether a node
    that moves met a kink, a tie or a jump. A caller may store the Jacobian in `jacobian`, (m, n) an
    input."""

    bits: int
    output: Any
    pull: Callable[[Any], list[Any]]
    meets_ties: bool
    jacobian: dict[str, Any] = field(default_factory=dict)


class BallProgram:
    """A program as a function of its differentiated inputs; all other inputs are exact. `xs` are
    the differentiated inputs at the point of the request. A custom gradient counts as its forward
    or, with `stated`, as the derivative that the user wrote."""

    def __init__(self, request: TruthRequest, stated: bool = False) -> None:
        from reference_engine.arithmetic.balls import exactly

        self.program: Program = request.program if stated else inlined(request.program)
        self.wrt = request.wrt
        self.xs: list[Any] = [np.asarray(request.values[n], np.float64) for n in request.wrt]
        self._last: Recorded | None = None
        self._dtype = request.dtype
        self._nodes = _nodes(self.program, request.dtype, request.wrt)
        self._still: Ties = {}
        if not stated:
            self._still = still_elements(self.program, request.values, request.wrt, request.dtype)
        self._given: dict[str, Any] = {}
        for name in self.program.inputs:
            value = np.asarray(request.values[name])
            self._given[name] = exactly(value) if value.dtype.kind == "f" else value

    def __call__(self, *xs: Any) -> Any:
        return self._run(xs)

    def _run(self, xs: Sequence[Any], ties: Ties | None = None, unknown: bool = False) -> Any:
        given = {**self._given, **dict(zip(self.wrt, xs, strict=True))}
        inputs = (given[name] for name in self.program.inputs)
        (output,) = self._nodes.outputs(inputs, ties, unknown, self._still)
        return output

    def recorded(self, xs: Sequence[Any]) -> Recorded:
        """Return a run for reverse mode at the current precision. The last run at `xs` is kept, so
        that value, ties and derivative come from the same run."""
        from flint import ctx

        from reference_engine.arithmetic.ball_choices import noting_ties
        from reference_engine.enclosing import ball_vjp

        own = xs is self.xs
        if own and self._last is not None and self._last.bits == ctx.prec:
            return self._last
        with noting_ties() as met:
            output, pull = ball_vjp(self, xs)
        recorded = Recorded(ctx.prec, output, pull, bool(met))
        if own:
            self._last = recorded
        return recorded

    def pulled(self, cotangents: Array) -> list[Any] | None:
        """The vjps of the cotangents (k, m) of the flat output at `xs`, one array (k, n) an input,
        from one run at k points side by side. None if this takes longer than a pass for each
        cotangent, or is not possible."""
        from reference_engine.arithmetic.arbs import objects
        from reference_engine.arithmetic.balls import Ball
        from reference_engine.enclosing import ball_vjp

        count = len(cotangents)
        batch = batch_of_few(self.program, count, FEW_BALLS, self.wrt) if count > 1 else None
        if batch is None or self._still:
            return None
        nodes = _nodes(batch.program, self._dtype, self.wrt)

        def run(*xs: Any) -> Any:
            every = {**self._given, **dict(zip(self.wrt, xs, strict=True))}
            (found,) = nodes.outputs(every[name] for name in self.program.inputs)
            return found

        arrays = (np.broadcast_to(objects(x), (count, *x.shape)) for x in self.xs)
        _, pull = ball_vjp(run, [Ball(x) for x in arrays])
        output = self.program.result.shape
        found = pull(cotangents.reshape(count, *output))
        return [x_bar.reshape(count, -1) for x_bar in found]

    def leaves_range(self) -> bool:
        """Whether the first operation without a value at `xs` takes a number beyond the range of
        float64: functions of balls give up at very large numbers, which are in their domain
        nevertheless."""
        from reference_engine.arithmetic.balls import Ball

        nodes = _nodes(_with_every_output(self.program), self._dtype, self.wrt)
        inputs = (self._given[name] for name in self.program.inputs)  # at `xs`, too
        values = nodes.outputs(inputs, held=self._still)
        balls = [x.value.ravel().tolist() if isinstance(x, Ball) else [] for x in values]
        for node, mine in zip(self.program.nodes, balls, strict=True):
            if not all(map(has_value, mine)):
                return not all(abs(x) <= LARGEST for i in node.args for x in balls[i])
        return False

    def ties(self, xs: Sequence[Any]) -> Ties:
        """By node, mark the elements on a kink, a tie or a jump."""
        ties: Ties = {}
        self._run(xs, ties)
        return ties

    def with_unknown(self, ties: Ties) -> Callable[..., Any]:
        """The function, with a derivative that is not a number where it depends on one of these
        kinks."""
        return lambda *xs: self._run(xs, ties, unknown=True)


def exact_nodes(program: Program, values: Mapping[str, Array], dtype: str) -> list[Any] | None:
    """The value of every node without rounding, with the constants of a dtype; nan if the enclosure
    is not narrow. None if a row has no enclosure, or a comparison is undecided."""
    from reference_engine.arithmetic.arbs import NotInBalls, Undecided, precision
    from reference_engine.arithmetic.balls import Ball, exactly

    every = _with_every_output(rounded(program, dtype))
    arrays = (np.asarray(values[name]) for name in program.inputs)
    inputs = [exactly(x) if x.dtype.kind == "f" else x for x in arrays]
    try:
        with precision(NODES_BITS):
            found = Nodes(every, FORMATS[dtype]).outputs(inputs)
            return [_narrow_midpoints(x) if isinstance(x, Ball) else x for x in found]
    except (NotInBalls, Undecided):
        return None


def _with_every_output(program: Program) -> Program:
    """The program, which returns the values of all nodes."""
    return replace(program, outputs=tuple(range(len(program.nodes))))


def _narrow_midpoints(balls: Any) -> Array:
    from reference_engine.arithmetic.balls import midpoints, radii

    middle = midpoints(balls)
    narrow = radii(balls) <= np.maximum(SAME_STEP * np.abs(middle), np.finfo(np.float64).tiny)
    return np.where(narrow, middle, np.nan)


class Nodes:
    """The nodes of a program on balls. A tie at a node in `still` does not count."""

    def __init__(self, program: Program, fmt: FloatFormat, still: Container[int] = ()) -> None:
        from reference_engine.traced import ROWS

        self._program = program
        self._still = still
        self._template: list[Any] = [None] * len(program.nodes)
        self._calls: list[tuple[int, Any]] = []
        for index, node in enumerate(program.nodes):
            if node.op == CONSTANT:
                value = constant(node, fmt)
                self._template[index] = self.exactly(value) if node.kind == "float" else value
            elif node.op != INPUT:
                call = ROWS[node.op] if node.custom is None else _custom_function(node.custom, fmt)
                self._calls.append((index, call))

    def exactly(self, value: Any) -> Any:
        """A number or an array as balls of radius 0."""
        from reference_engine.arithmetic.balls import exactly

        return exactly(value)

    def collecting_ties(self, still: bool, noted: bool) -> AbstractContextManager[set[str]]:
        """A context for one call; it collects the ties that the call meets if they are to be
        `noted`."""
        from reference_engine.arithmetic.ball_choices import noting_ties

        return noting_ties() if noted else nullcontext(set())

    def check_moved(self, node: Node, value: Any) -> None:
        """Called with the value of each node that moves; subclasses may raise."""

    def held(self, node: Node, value: Any, args: Sequence[Any], still: Mask) -> Any:
        """The value of a node, some elements of which are `still`: nothing passes through those of
        a sum."""
        from reference_engine.traced import ROWS

        if node.op not in SUMS:
            return value
        return ROWS["where"](still, ROWS["stop_gradient"](value), value)

    def outputs(
        self,
        inputs: Iterable[Any],
        ties: Ties | None = None,
        unknown: bool = False,
        held: Mapping[int, Mask] = MappingProxyType({}),
    ) -> list[Any]:
        """Return one array an output, None for a missing output, from one array an input. Nodes on
        a tie are noted in `ties`. With `unknown`, the nodes in `ties` get an unknown derivative
        instead. `held` marks elements of moving nodes that do not move (`still_elements`)."""
        from reference_engine.traced import Traced

        program, slots = self._program, self._template.copy()
        for index, value in zip(program.inputs.values(), inputs, strict=True):
            slots[index] = value
        for index, call in self._calls:
            node = program.nodes[index]
            args = [slots[i] for i in node.args]
            for k, wanted in enumerate(node.wants):
                if wanted == "float" and not isinstance(args[k], Traced):
                    whole = node.op == "power" and k == 1 and np.ndim(args[k]) == 0
                    # the rule for an integer exponent is shorter
                    args[k] = int(args[k]) if whole else self.exactly(args[k])
            # a tie between numbers that do not move (a mask of zeros and ones) does not count, nor
            # does the tie of a number with itself (x != x, which tests for nan)
            still = index in self._still or _compares_itself(node)
            with self.collecting_ties(still, still or ties is not None) as met:
                slots[index] = call(*args, **node.keywords)
            if index in held:
                slots[index] = self.held(node, slots[index], args, held[index])
            if not still:
                self.check_moved(node, slots[index])
            if ties is None or still:
                continue
            if unknown:
                if index in ties:
                    kinks = at_a_kink(node, args, ties[index])
                    slots[index] = with_unknown(slots[index], kinks)
            elif met:
                mask = tied_elements(call, args, node.keywords, slots[index])
                mask = mask & ~held[index] if index in held else mask
                if np.any(mask):
                    ties[index] = mask
        return [None if i is None else slots[i] for i in program.outputs]


@cached_by_program
def _nodes(program: Program, dtype: str, wrt: tuple[str, ...]) -> Nodes:
    """The nodes of the program. Nodes that do not depend on `wrt` stand still."""
    still = set(range(len(program.nodes))) - moving(program, wrt)
    return Nodes(program, FORMATS[dtype], still)


def _compares_itself(node: Node) -> bool:
    """Check whether a comparison compares a value with itself."""
    return node.op in ("equal", "not_equal") and len(set(node.args)) == 1


def _custom_function(custom: CustomGradient, fmt: FloatFormat) -> Callable[..., Any]:
    """The function with the custom gradient that the user wrote."""
    from reference_engine.custom import custom_gradient

    forward, vjp = Nodes(custom.forward, fmt), Nodes(custom.vjp, fmt)
    jvp = None if custom.jvp is None else Nodes(custom.jvp, fmt)

    def called(*args: Any) -> Any:
        (output,) = forward.outputs(args)
        return output

    def pull(*args: Any) -> Any:
        return tuple(vjp.outputs(args))

    def push(*args: Any) -> Any:
        assert jvp is not None
        (output,) = jvp.outputs(args)
        return output

    return custom_gradient(pull, push if jvp else None)(called)


@cached_by_program
def operations(program: Program) -> float:
    """The number of scalar operations of one evaluation; matrix products count for less."""
    total = 0.0
    for node in program.nodes:
        if node.op in (CONSTANT, INPUT):
            continue
        sizes = [int(np.prod(program.nodes[i].shape)) for i in node.args]
        size = max([int(np.prod(node.shape)), *sizes])
        if node.op in CONTRACTIONS and len(sizes) > 1:
            # the longest loop: sqrt(n k * k m * n m) = n k m
            product = sizes[0] * sizes[1] * int(np.prod(node.shape))
            size = max(size, int(np.sqrt(product) * CHEAPER))
        total += size
    return total


CONTRACTIONS = frozenset(
    [
        "matmul",
        "dot",
        "tensordot",
        "einsum",
        "conv1d",
        "conv2d",
        "conv_transpose2d",
        "linear",
        "solve",
    ]
)
CHEAPER: Cost = 0.15  # a product and a sum of balls, beside the average of other operations
