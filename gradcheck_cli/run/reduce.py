"""Finds the smallest formula that still has a finding: fewer operations, smaller shapes, rounder
numbers. A layer is reduced as the formula that it is lifted to; a layer that cannot be lifted keeps
its operations.

The method is greedy delta debugging (A. Zeller and R. Hildebrandt, Simplifying and isolating
failure-inducing input, IEEE Transactions on Software Engineering 28, 2002): the first smaller
formula that keeps the finding replaces the current one, until there is none.
"""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.engines import FRAMEWORK_OF
from gradcheck_cli.domain.events import Finished, SpecFinished
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.formula.folding import folded_statements
from gradcheck_cli.formula.program import used_inputs
from gradcheck_cli.run.lift import inputs_of, lift
from gradcheck_cli.run.plan import TIMEOUT_S
from gradcheck_cli.run.session import run
from gradcheck_cli.run.workers.pool import Pool

TOGETHER = 4
"""The most formulas that are run at once; of those that keep the finding, the first is taken. After
a step that was taken it is one, as the next one often is, too, and what is compiled costs seconds;
then twice as many each time."""

LEAST_S = 1.0  # for a step that begins within the budget

_DIGITS = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Reduced:
    """A formula as `text`, its spec, and its finding. `tried` formulas were run. If a layer cannot
    become a formula, the text is empty and `reason` says why. `is_smaller`: something was removed.
    `is_alone`: no other engine, dtype or mode has the finding. `stopped`: the time was over before
    every step was tried. `whole` has the finding and the spec before the first step."""

    text: str
    spec: Spec
    finding: Finding
    tried: int
    reason: str = ""
    is_smaller: bool = False
    is_alone: bool = True
    stopped: bool = False
    whole: tuple[Finding, Spec] | None = None


def reduce(
    spec: Spec, code: str | None, options: RunOptions, budget: float = math.inf
) -> Reduced | None:
    """The smallest formula or layer found within `budget` seconds that has the first finding of
    `spec` with this code (None: its first error). None if there is no such finding."""
    until = time.monotonic() + budget
    pool = Pool()
    try:
        whole = replace(spec, allow=(), train=None, points=spec.points[:1], pointed=False)
        kept = _finding_to_keep(_findings([whole], options, pool)[0], code)
        if kept is None:
            return None
        same = options.only(kept.engine, kept.dtype, kept.mode)
        is_alone = _finding_to_keep(_findings([whole], same, pool)[0], kept.code) is not None
        text = "" if spec.implementations else folded_statements(spec.program)
        start = Reduced(text, whole, kept, 2, is_alone=is_alone, whole=(kept, whole))
        if not is_alone:
            return _smallest(start, options, pool, until)
        if spec.implementations and kept.engine is not None:
            start = _as_formula(start, same, pool)
        return _smallest(start, same, pool, until)
    finally:
        pool.kill()


def _as_formula(layer: Reduced, options: RunOptions, pool: Pool) -> Reduced:
    """The formula that the layer is lifted to, if it has the finding on the same engine; otherwise
    the layer, with the reason."""
    spec, engine = layer.spec, layer.finding.engine
    try:
        (lifted,) = lift(spec, engine, options.seed)
    except EngineFault as fault:
        return replace(layer, reason=f"the layer is not lifted: {fault}")
    values, moving = inputs_of(lifted)
    inputs = {name: Input(name, value, name in moving) for name, value in values.items()}
    text = folded_statements(lifted.lifted.program)
    bare = replace(spec, implementations=(), wrt=moving)
    for _, formula in _as_spec(text, inputs, bare):
        finding = _finding_to_keep(_findings([formula], options, pool)[0], layer.finding.code)
        if finding is not None:
            return Reduced(text, formula, finding, layer.tried + 1, whole=layer.whole)
    return replace(layer, reason="its lifted formula does not have the finding")


def _smallest(best: Reduced, options: RunOptions, pool: Pool, until: float) -> Reduced:
    """Makes `best` smaller as long as a step keeps its finding and `time.monotonic` is below
    `until`."""
    tried, seen = best.tried, {best.text}
    while True:
        steps = (made for made in smaller(best.text, best.spec) if _key(made) not in seen)
        taken, together = None, 1
        while taken is None:
            batch = list(islice(steps, together))
            if batch and time.monotonic() >= until:
                return replace(best, tried=tried, stopped=True)
            if not batch:
                break
            together = min(2 * together, TOGETHER)
            seen.update(map(_key, batch))
            tried += len(batch)
            hurried = _within(options, best, until)
            results = _findings([made for _, made in batch], hurried, pool)
            for (text, made), findings in zip(batch, results, strict=True):
                kept = _finding_to_keep(findings, best.finding.code)
                if kept is not None:
                    smaller_one = replace(best, text=text, spec=made, finding=kept)
                    taken = replace(smaller_one, tried=tried, is_smaller=True)
                    break
        if taken is None:
            return replace(best, tried=tried)
        best = taken


def _within(options: RunOptions, best: Reduced, until: float) -> RunOptions:
    """The options with a time limit for the next step that ends with the budget. (A step that does
    not finish has lost its finding, unless that is the finding.)"""
    left = until - time.monotonic()
    if left >= options.timeout.resolve(best.spec.timeout, TIMEOUT_S):
        return options
    if best.finding.code == Codes.ENGINE_TIMED_OUT:
        return options
    return replace(options, timeout=Layered(override=max(left, LEAST_S)))


def _key(made: tuple[str, Spec]) -> str:
    text, spec = made
    return text + "".join(f"{name}={one.value.tolist()}" for name, one in spec.inputs.items())


def _finding_to_keep(findings: Iterable[Finding], code: str | None) -> Finding | None:
    """The first finding with the code. Without a code: the first error with numbers, or else the
    first error. Findings of frameworks come first, because only their maintainers can use a
    report."""
    wanted = [
        one for one in findings if (one.severity == "error" if code is None else one.code == code)
    ]
    if code is None and wanted:
        first = next((one for one in wanted if one.entries), wanted[0])
        wanted = [one for one in wanted if one.code == first.code]
    return min(wanted, key=lambda one: one.engine not in FRAMEWORK_OF, default=None)


def _findings(specs: list[Spec], options: RunOptions, pool: Pool) -> list[tuple[Finding, ...]]:
    by_spec: list[tuple[Finding, ...]] = []
    for event in run(specs, options, pool):
        if isinstance(event, SpecFinished):
            by_spec.append(event.result.findings)
        elif isinstance(event, Finished) and event.report.interrupted:
            raise KeyboardInterrupt
    return by_spec


def smaller(text: str, spec: Spec) -> Iterator[tuple[str, Spec]]:
    """Formulas that are smaller in one respect, each with its spec. Fewer operations come first,
    beginning with the shortest formula; then smaller shapes, then rounder numbers. A layer keeps
    its operations."""
    inputs = spec.inputs
    if spec.implementations:
        for values in (*_shorter_inputs(inputs), *_rounder(inputs)):
            yield text, replace(spec, points=(values,))
        return
    others = set(_shorter(text)) - {ast.unparse(ast.parse(text))}
    for shorter in sorted(others, key=lambda one: (len(one), one)):
        yield from _as_spec(shorter, inputs, spec)
    for values in _shorter_inputs(inputs):
        yield from _as_spec(text, values, spec)
    for values in _rounder(inputs):
        yield from _as_spec(text, values, spec)


def _as_spec(text: str, inputs: Mapping[str, Input], spec: Spec) -> Iterator[tuple[str, Spec]]:
    """The spec of a formula, if the text is a valid formula."""
    arguments = {name: Argument.of(one.value) for name, one in inputs.items()}
    program = parse(text, inputs=arguments).program
    if program is None:
        return
    used = used_inputs(program)
    kept = {name: one for name, one in inputs.items() if name in used}
    wrt = tuple(name for name in spec.wrt if name in kept)
    again = parse(text, inputs={name: arguments[name] for name in kept}).program
    if wrt and again is not None:
        yield text, replace(spec, program=again, points=(kept,), wrt=wrt)


def _shorter(text: str) -> Iterator[str]:
    """The text with one operation replaced by one of its operands, and each operation on its
    own."""
    count = len(_operations(ast.parse(text)))
    for place in range(count):
        parts = len(_operands(_operations(ast.parse(text))[place]))
        for part in range(parts):
            tree = ast.parse(text)
            node = _operations(tree)[place]
            yield ast.unparse(_Replaced(node, _operands(node)[part]).visit(tree))
        tree = ast.parse(text)
        if isinstance(tree.body[-1], ast.Expr):
            tree.body[-1].value = _operations(tree)[place]
            yield ast.unparse(tree)


def _operations(tree: ast.AST) -> list[ast.expr]:
    kinds = ast.Call | ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Compare
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def _operands(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.Call():
            return list(node.args)
        case ast.BinOp():
            return [node.left, node.right]
        case ast.UnaryOp():
            return [node.operand]
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Subscript():
            return [node.value]
    return []


class _Replaced(ast.NodeTransformer):
    """Replaces one expression by another."""

    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _shorter_inputs(inputs: Mapping[str, Input]) -> Iterator[dict[str, Input]]:
    """The inputs with all axes of one length shortened: to one half, then by one entry."""
    lengths = sorted({n for one in inputs.values() for n in one.value.shape if n > 1}, reverse=True)
    for n in lengths:
        for kept in dict.fromkeys(((0, n // 2), (n // 2, n), (0, n - 1), (1, n))):
            yield {name: _with(one, _cut_at(one.value, n, *kept)) for name, one in inputs.items()}


def _cut_at(value: Array, length: int, first: int, last: int) -> Array:
    axes = tuple(slice(first, last) if n == length else slice(None) for n in value.shape)
    return value[axes]


def _rounder(inputs: Mapping[str, Input]) -> Iterator[dict[str, Input]]:
    """The inputs with fewer digits: all of them at once, then each."""
    floats = [name for name, one in inputs.items() if one.value.dtype.kind == "f"]
    for digits in _DIGITS:
        for names in [floats, *([name] for name in floats)]:
            yield {**inputs, **{n: _with(inputs[n], _rounded(inputs[n], digits)) for n in names}}


def _rounded(one: Input, digits: int) -> Array:
    flat: Iterable[float] = one.value.ravel()
    near = np.array([float(f"{x:.{digits}g}") for x in flat]).reshape(one.value.shape)
    return np.asarray(np.clip(near, one.low, one.high))


def _with(one: Input, value: Array) -> Input:
    return replace(one, value=value, seed=None)
