"""Rounding errors bounded by adjoints: how far all roundings together move an output.

The rules of rows carry errors forward. Where two paths meet, they add both errors, although these
may cancel: an error of s in s + x s (1 - s) has the factor 1 + x (1 - 2 s). Let c_k be the computed
number of node k, v_k the exact one, and e_k the error that its own kernel makes for computed
arguments: c_k = f_k(c) + e_k. By the integral form of the mean value theorem

    c_k - v_k = sum_j D_kj (c_j - v_j) + e_k

where D_kj is the mean of the derivative of f_k by its argument j between v and c. These equations
are linear, without a remainder. So the error c - v of an output is the sum of A_k e_k, where A_k
are the adjoints of a reverse pass with the derivatives D. The rules of the op table write this pass
as a program, which is enclosed with every number between v and c. The rule of a row bounds e_k: its
error for exact arguments.

A row that is not continuous, or has no derivative, has no D: its e_k is its whole error. A choice
has the derivative of the side that exact arithmetic chooses; its e_k is the cost of the wrong side.
At a kink, as of a maximum or of |x|, D_kj lies between the slopes of both sides (Clarke,
Optimization and Nonsmooth Analysis, 1983, theorem 2.3.7). The range of the derivative over a box
with the kink contains these. If a slope has no bound, its range has none either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.trace.symbols import ProgramWriter, Symbol
from gradcheck_cli.search.enclosures.array_rules import MOVES, as_enclosed, as_mask
from gradcheck_cli.search.enclosures.enclosed import (
    Bounds,
    Enclosed,
    Exceeds,
    Mask,
    Rounding,
    between,
    literals,
    up,
)
from gradcheck_cli.search.enclosures.enclosing import BoxProgram, Run, filled, size_of
from gradcheck_cli.search.enclosures.facts import keywords_of
from gradcheck_cli.search.enclosures.faithful import BEYOND_THRESHOLD, kernel_of
from gradcheck_cli.search.enclosures.rules import times
from reference_engine.tape import Node as Variable
from reference_engine.tape import fit_cotangent, pull_back
from reference_engine.traced import ROWS, new_level

_NEARLY = 2.0**-60
"""Relative. The error of an argument that is not exact, in what its kernel makes of it: it is no
number of the dtype if it stays within a kernel."""
_WIDE = "float64"
_MOST_NODES = 400  # of a program; its reverse pass is several times as long

_CONTINUOUS = frozenset(
    (
        *(
            *MOVES,
            "negative",
            "stop_gradient",
            "add",
            "subtract",
            "multiply",
            "divide",
            "reciprocal",
        ),
        *("square", "power", "sqrt", "rsqrt", "cbrt", "abs", "hypot", "maximum", "minimum", "clip"),
        *(
            "exp",
            "exp2",
            "expm1",
            "log",
            "log1p",
            "log2",
            "log10",
            "logaddexp",
            "sin",
            "cos",
            "tan",
        ),
        *(
            "asin",
            "acos",
            "atan",
            "atan2",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "sinc",
        ),
        *("sigmoid", "log_sigmoid", "softplus", "softsign", "silu", "gelu", "elu", "selu", "relu"),
        *("leaky_relu", "hardtanh", "erf", "erfc", "ndtr", "lgamma", "digamma", "gaussian"),
        *("normal_density", "logistic_density", "sech_squared", "one_minus_square", "sum", "mean"),
        *("var", "max", "min", "logsumexp", "softmax", "log_softmax", "matmul", "dot", "outer"),
        *("norm", "std", "centered", "cumsum", "einsum", "entr", "xlogy", "xlog1py", "log_ndtr"),
        *("i0", "log1mexp", "logit", "det", "logdet", "slogdet_logabs", "inv", "solve"),
        *("bce_terms", "kl_terms", "logistic_terms", "soft_nll"),
    )
)
"""Rows that are continuous where they have values, and whose derivatives are those of the table."""
_STEPS = frozenset(("sign",))
"""Rows that hand nothing on, because their slope is 0."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The reverse pass as a program, which returns the adjoints of `nodes`; a node occurs once for
    each use if its number may differ between uses. Its inputs are the numbers `given` (name ->
    node) and the cotangents `seeds` (node of an output -> name). `inputs` has the places, among the
    nodes, of the inputs that move. `handed` are the nodes whose cotangent is passed on to their
    arguments; `is_whole`: so are all others, except `jumps`, whose slope is 0."""

    program: BoxProgram
    nodes: Sequence[int]
    given: Mapping[str, int]
    seeds: Mapping[int, str]
    inputs: Mapping[str, int]
    handed: frozenset[int]
    jumps: Sequence[int]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Sharper:
    """Bounds for an output over N boxes. `errors` (N, n): the largest error of each element; inf if
    unknown. `slopes`: for each moving input, the least and the largest derivative of each element
    by each of its elements, (N, n, elements); empty if a row has no derivative. `derived` (N, n):
    whether the element has these derivatives everywhere, without kinks. `smooth` (N,): whether no
    exact number jumps in the box."""

    errors: Bounds
    slopes: Mapping[str, tuple[Bounds, Bounds]]
    derived: Array
    smooth: Array


@dataclass(frozen=True, slots=True)
class Numbers:
    """The inputs of reverse passes over boxes: `own`, the error of each node's kernel; `given`, by
    name the ranges or masks that the pass takes; and in which boxes nothing jumps."""

    own: Mapping[int, Bounds | None]
    given: Mapping[str, Mask | tuple[Bounds, Bounds, Bounds]]
    in_one_piece: Array

    def of(self, rows: Array) -> tuple[dict[int, Bounds | None], dict[str, Any]]:
        """The inputs for some of the boxes."""
        own = {i: None if one is None else one[rows] for i, one in self.own.items()}
        given: dict[str, Any] = {}
        for name, one in self.given.items():
            if isinstance(one, Mask):
                given[name] = one.map(lambda part: part[rows])
                continue
            lo, hi, bad = (part[rows] for part in one)
            zero = np.broadcast_to(0.0, lo.shape)
            given[name] = Enclosed(lo, hi, zero, zero, bad, np.broadcast_to(False, lo.shape))
        return own, given


class Adjoints:
    """The reverse passes of a program. Raises Exceeds if they have no enclosure."""

    def __init__(self, program: BoxProgram, values: Mapping[str, Array], dtype: str) -> None:
        """`values` are the numbers of one point, in addition to the constants of the program."""
        self._program = program
        self._written = _Writer(program, values, dtype).write()

    def numbers(self, run: Run, size: int) -> Numbers:
        """The inputs of reverse passes, from a run of the program over `size` boxes."""
        written = self._written
        own = self._own_errors(run, size)
        given = {name: self._about(run, index, size) for name, index in written.given.items()}
        return Numbers(own, given, self._one_piece(run, size))

    def of(self, numbers: Numbers, rows: Array, output: int) -> Sharper:
        """Bounds for one output over some of the boxes."""
        written, count = self._written, len(rows)
        size = size_of(count)
        own, given = numbers.of(filled(rows, size))
        place = self._program.program.outputs[output]
        assert place is not None
        found = []
        slopes: dict[str, list[Enclosed]] = {name: [] for name in written.inputs}
        for element in range(math.prod(self._shape(place))):
            seeds = {name: np.zeros((size, *self._shape(i))) for i, name in written.seeds.items()}
            seeds[written.seeds[place]].reshape(size, -1)[:, element] = 1.0
            seeded = {name: between(seed, seed) for name, seed in seeds.items()}
            adjoints = written.program.run({**given, **seeded}, size).outputs
            found.append(self._total(adjoints, own, size)[:count])
            for name, i in written.inputs.items():
                slopes[name].append(adjoints[i].map(lambda part: part[:count].reshape(count, -1)))
        errors = np.stack(found, axis=1)
        if not written.is_whole:
            return Sharper(errors, {}, np.zeros(errors.shape, np.bool_), np.zeros(count, np.bool_))
        ranges = {}
        derived = np.ones(errors.shape, np.bool_)
        for name, parts in slopes.items():
            lost = np.stack([part.bad for part in parts], axis=1)
            derived &= ~np.any(np.stack([part.undefined for part in parts], axis=1), axis=2)
            lo, hi = (
                np.stack(ends, axis=1) for ends in zip(*((x.lo, x.hi) for x in parts), strict=True)
            )
            ranges[name] = np.where(lost, -np.inf, lo), np.where(lost, np.inf, hi)
        return Sharper(errors, ranges, derived, numbers.in_one_piece[rows])

    def _one_piece(self, run: Run, size: int) -> Array:
        """Mark the boxes in which nothing jumps in exact arithmetic."""
        found = np.ones(size, np.bool_)
        for index in self._written.jumps:
            value = run.single[index]
            if isinstance(value, Mask):
                several = value.true & value.false
            else:
                several = value.hi - value.lo > 0.5  # of whole numbers
            several = np.broadcast_to(several, (size, *self._shape(index)))
            found &= ~np.any(several.reshape(size, -1), axis=1)
        return found

    def _total(
        self, adjoints: Sequence[Any], own: Mapping[int, Bounds | None], size: int
    ) -> Bounds:
        total = np.zeros(size)
        for index, adjoint in zip(self._written.nodes, adjoints, strict=True):
            error = own[index]
            if error is not None:
                most = np.where(adjoint.bad, np.inf, adjoint.most)
                total += np.sum(times(most, error).reshape(size, -1), axis=1)
        return np.where(np.isnan(total), np.inf, up(total))

    def _shape(self, index: int) -> tuple[int, ...]:
        return self._program.program.nodes[index].shape

    def _own_errors(self, run: Run, size: int) -> dict[int, Bounds | None]:
        """The error that each node's kernel makes for computed arguments; None for no error. For a
        node without a derivative, or whose computed number is unknown, its whole error."""
        nodes = self._program.program.nodes
        found: dict[int, Bounds | None] = {}
        near: dict[int, Any] = {}
        for step in run.compiled.steps:
            near.update((i, _as_argument(run.values[i])) for i in step.node.args if i not in near)
            made = self._program.computed(step, [near[i] for i in step.node.args])
            if step.own is None:  # a part of the node that takes it
                near[step.index] = made
                continue
            whole = run.single[step.own]
            if not isinstance(whole, Enclosed):
                found[step.own] = None
                continue
            wrong = run.wrong.get(step.index)
            if wrong is not None:
                made = replace(made, a=np.minimum(made.a, wrong))
            mine = made if step.own in self._written.handed else whole
            found[step.own] = np.where(mine.bad | whole.bad, np.inf, mine.error)
        for index in range(len(nodes)):
            if index not in found:
                value = run.single[index]
                is_number = isinstance(value, Enclosed)
                found[index] = np.where(value.bad, np.inf, value.error) if is_number else None
        for index, error in found.items():
            if error is not None:
                shape = (size, *nodes[index].shape)
                found[index] = np.broadcast_to(error, shape) if np.any(error) else None
        return found

    def _about(self, run: Run, index: int, size: int) -> Any:
        """A range that contains the exact and the computed number of a node: ends and flags, or a
        mask."""
        value, shape = run.single[index], (size, *self._shape(index))
        if self._program.program.nodes[index].kind == "bool":
            return as_mask(value).map(lambda part: np.broadcast_to(part, shape))
        spread = as_enclosed(value).map(lambda part: np.broadcast_to(part, shape))
        error = np.where(spread.bad, np.inf, spread.error)
        return spread.lo - error, spread.hi + error, spread.bad | ~np.isfinite(error)


def _as_argument(x: Any) -> Any:
    """A computed number as a kernel receives it: exact, anywhere in the range."""
    if not isinstance(x, Enclosed):
        return x
    error = np.where(x.bad, np.inf, x.error)
    off = error > 0
    lo, hi = np.where(off, x.lo - error, x.lo), np.where(off, x.hi + error, x.hi)
    d = np.where(off, _NEARLY, x.d)
    a = np.where(off, 0.0, x.a)
    return Enclosed(lo, hi, d, a, x.bad, x.undefined)


class _Writer:
    """Writes down the reverse pass of a program."""

    def __init__(self, boxes: BoxProgram, values: Mapping[str, Array], dtype: str) -> None:
        self._boxes = boxes
        self._program: Program = boxes.program
        if len(self._program.nodes) > _MOST_NODES:
            raise Exceeds("adjoints of so many operations")
        self._dtype = dtype
        span = self._program.nodes[-1].span
        self._writer = ProgramWriter(span, _WIDE, public=False)
        self._numbers = _numbers(self._program, {**boxes.constants, **values}, dtype)
        moving = set(values)
        names = {index: name for name, index in self._program.inputs.items()}
        self._moves: set[int] = set()
        for index, node in enumerate(self._program.nodes):
            if names.get(index) in moving or self._moves.intersection(node.args):
                self._moves.add(index)
        self._symbols: dict[int, Any] = {}

    def write(self) -> _Written:
        nodes = self._program.nodes
        seeds: dict[int, str] = {}
        bars: dict[int, list[Symbol]] = {}
        for place in self._program.outputs:
            if place is None or place in seeds:
                continue
            seeds[place] = f"seed{place}"
            bars[place] = [self._writer.input(seeds[place], np.ones(nodes[place].shape))]
        found: list[tuple[int, Symbol]] = []
        handed: set[int] = set()
        for index in reversed(range(len(nodes))):
            uses = bars.pop(index, [])
            if not uses:
                continue
            total = uses[0]
            for bar in uses[1:]:
                total = ROWS["add"](total, bar)
            apart = len(uses) > 1 and self._may_differ(index)
            found += [(index, bar) for bar in (uses if apart else [total])]
            node = nodes[index]
            if index in self._moves and self._hands_on(node):
                handed.add(index)
                for i, bar in self._argument_cotangents(node, total):
                    bars.setdefault(i, []).append(bar)
        names = {index: name for name, index in self._program.inputs.items()}
        inputs = {names[i]: n for n, (i, _) in enumerate(found) if i in names and i in self._moves}
        program = self._writer.program(*(bar for _, bar in found))
        given = {f"n{i}": i for i in self._symbols if f"n{i}" in program.inputs}
        seeds = {i: name for i, name in seeds.items() if name in program.inputs}
        masks = [name for name, i in given.items() if nodes[i].kind == "bool"]
        boxes = BoxProgram(
            program,
            self._writer.constants,
            FORMATS[_WIDE],
            replace(Rounding.of(FORMATS[_WIDE], False), exact=True),
            masks,
        )
        reached = [i for i, _ in found]
        left = {i for i in reached if i in self._moves and i not in names and i not in handed}
        jumps = {i for i in left if nodes[i].op in _STEPS}
        jumps |= {nodes[i].args[0] for i in handed if nodes[i].op == "where"}
        whole = all(nodes[i].op in _STEPS for i in left)
        whole &= not any(kernel_of(nodes[i]) in BEYOND_THRESHOLD for i in handed)
        parts = frozenset(handed), sorted(jumps & self._moves), whole
        return _Written(boxes, reached, given, seeds, inputs, *parts)

    def _hands_on(self, node: Node) -> bool:
        nodes = self._program.nodes
        kinds = [nodes[i].kind for i in node.args]
        if node.op == "where":
            return kinds == ["bool", "float", "float"]
        still = not any(nodes[i].kind != "float" and i in self._moves for i in node.args)
        if node.op == "norm" and node.keywords.get("ord") not in (None, 1, 2):
            return False  # its derivative has a row without a rule
        return node.op in _CONTINUOUS and "float" in kinds and still

    def _is_number(self, index: int) -> bool:
        """Whether a node is one number, not of a run, that the engine has exactly."""
        node = self._program.nodes[index]
        still = node.op == INPUT and node.shape == () and index not in self._moves
        if node.op != CONSTANT and not still:
            return False
        if node.kind != "float":
            return node.op == CONSTANT
        return not np.any(literals(self._boxes.rounding, self._numbers[index]).error)

    def _may_differ(self, index: int) -> bool:
        """Whether the number may be different in each use. An engine that compiles several
        operations as one may compute it again, and a product may be fused with a sum in one kernel,
        and rounded in another."""
        node = self._program.nodes[index]
        if node.op in (INPUT, CONSTANT):
            return False
        if self._boxes.rounding.again and not node.kept:
            return True
        users = [n for n in self._program.nodes if index in n.args]
        return node.op in ("multiply", "square") and any(
            kernel_of(n) == kernel_of(node) and n.op in ("add", "subtract") for n in users
        )

    def _symbol(self, index: int) -> Any:
        """A number of the program as an input of the reverse pass; an exact constant stays a
        constant."""
        node = self._program.nodes[index]
        if index not in self._symbols:
            value = self._numbers[index]
            if self._is_number(index):
                self._symbols[index] = float(value) if node.kind == "float" else node.value
            elif node.kind == "int":
                self._symbols[index] = value
            else:
                self._symbols[index] = self._writer.input(f"n{index}", value)
        return self._symbols[index]

    def _argument_cotangents(self, node: Node, bar: Symbol) -> list[tuple[int, Symbol]]:
        """The cotangents of the arguments, by their nodes."""
        nodes = self._program.nodes
        if node.op == "stop_gradient":
            return [(node.args[0], bar)]
        level = new_level()
        variables: dict[int, Variable] = {}
        args: list[Any] = []
        for i in node.args:
            symbol = self._symbol(i)
            if nodes[i].kind == "float" and isinstance(symbol, Symbol):
                symbol = variables.setdefault(i, Variable(level, symbol))
            args.append(symbol)
        if not variables:
            return []
        self._writer.span, self._writer.text = node.span, node.text
        y = ROWS[node.op](*args, **keywords_of(node))
        if not isinstance(y, Variable) or y.level != level:
            return []
        reached = pull_back([(y, bar)], list(variables.values()))
        found = []
        for i, variable in variables.items():
            x_bar = reached.get(variable.record)
            if x_bar is not None:
                found.append((i, self._as_symbol(fit_cotangent(x_bar, variable.record))))
        return found

    def _as_symbol(self, x: Any) -> Symbol:
        return x if isinstance(x, Symbol) else self._writer.constant(np.asarray(x, np.float64))


def _numbers(program: Program, values: Mapping[str, Array], dtype: str) -> list[Any]:
    """All numbers of a program at one point."""
    names = {index: name for name, index in program.inputs.items()}
    found: list[Any] = []
    for index, node in enumerate(program.nodes):
        if index in names:
            value = np.asarray(values[names[index]])
            found.append(value.astype(np.float64) if value.dtype.kind == "f" else value)
        elif node.op == CONSTANT:
            found.append(np.asarray(node.value, np.float64 if node.kind == "float" else None))
        else:
            args = [found[i] for i in node.args]
            found.append(ROWS[node.op].on_arrays(args, keywords_of(node)))
    return found
