"""Propose corrections of a hand-written derivative, as framework code at the user's line.

The forward of the custom function is lifted; the rule must return the vjp (or jvp) of that program.
First an edit of the user's own expression is searched for (`explain/fixes/edits.py`), then the
derivative is written out in the variables available there. Both are tried: the function runs with
the new code at fresh points, the layer at its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from gradcheck_cli.checks.causes.products import wrong_products
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import LayerProblem, word_of
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Entry, Fix
from gradcheck_cli.domain.thresholds import ERROR_BITS, Step
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.custom import Rule
from gradcheck_cli.engines.layer.lifting import NotLifted, agree
from gradcheck_cli.engines.layer.recording import TooLarge
from gradcheck_cli.engines.layer.rewriting import Expression, NotRewritable, Seen
from gradcheck_cli.engines.layer.source_lines import read_function
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.engines.tracebacks import where_it_runs
from gradcheck_cli.explain.fixes.code import Inline
from gradcheck_cli.explain.fixes.dialects import dialect_of
from gradcheck_cli.explain.fixes.edits import Returned, edits, returned_value
from gradcheck_cli.explain.fixes.rule_programs import (
    RuleProgram,
    forward_program,
    reverse_program,
    tangent_of,
    upstream_of,
)
from gradcheck_cli.explain.fixes.user_code import in_names, named_in_all
from gradcheck_cli.truth.formulas.directional_program import NoDirectional
from gradcheck_cli.truth.plain import PlainFunction

FRESH = 4  # points at which the function runs with the new code
NEAR: Step = 2.0**-4  # relative move to another point on the same branches
FAR: Step = 2.0**-2
ELSEWHERE = 2  # points on any branch, at which a correction must spoil nothing
TRIALS = 8  # the most corrections that are tried in the function
LARGEST = 10_000  # the most entries of the output, since each edit is computed for all of them
_VARIABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")


@dataclass(frozen=True, slots=True)
class Correction:
    """Replaces the code at `place` with `code`."""

    place: Place
    code: Inline


@dataclass(frozen=True, slots=True)
class TriedCorrection:
    """A correction of `expression` that made the function right at `right` of `points` fresh
    points."""

    correction: Correction
    expression: Expression
    right: int
    points: int

    @property
    def replacement(self) -> tuple[Expression, str, Mapping[str, Any]]:
        code = self.correction.code
        return self.expression, code.expression, code.names()

    def fix(self, entry: Entry, value: float, dtype: str) -> Fix | None:
        """The correction as a fix of a finding with this worst entry, which has this `value` in the
        corrected layer; None if the value is still wrong."""
        if entry.truth is None:
            return None
        ulps = float(abs(value - entry.truth) / FORMATS[dtype].ulp(entry.truth))
        if not ulps <= FORMATS[dtype].lost(ERROR_BITS):
            return None
        place, code = self.correction.place, self.correction.code
        return Fix(
            before=place.text,
            after=code.text,
            model=code.text,
            rules=(),
            condition="",
            kink="",
            custom=False,
            value=value,
            ulps_before=entry.ulps,
            ulps_after=ulps,
            points=self.points,
            right=self.right,
            place=place,
        )


class RuleFixes:
    """Searches for the correction of a rule. `problem` is the function alone, in the mode that is
    wrong; `layer` calls the function."""

    def __init__(self, engine: Engine, problem: LayerProblem, layer: Subject, rule: Rule) -> None:
        self._framework = engine.capabilities.name
        self._subjects = Subjects(engine, problem)
        self._problem = problem
        self._layer = layer
        self._rule = rule
        self._rng = generator(problem.seed, 47)
        self._expressions: dict[Place, Expression] = {}

    def first_working(self) -> TriedCorrection | None:
        """The first correction that makes the function right at all fresh points, and with arrays
        of other sizes, where it runs (`x.shape[0]` may equal 2 by chance), and that does not make
        it wrong elsewhere."""
        try:
            for correction in islice(self._matching_corrections(), TRIALS):
                expression = self._expression(correction.place)
                code = correction.code
                with self._layer.replacing(expression, code.expression, code.names()):
                    answers = [a for a in map(self._is_right, self._fresh()) if a is not None]
                    if not answers or not all(answers):
                        continue
                    if False in map(self._is_right, self._resized):
                        continue
                    spoiled = [v for v in self._elsewhere if not self._is_right(v)]
                if not any(map(self._is_right, spoiled)):
                    return TriedCorrection(correction, expression, len(answers), len(answers))
        except NotRewritable:
            pass  # the source shows no user function that returns it
        return None

    def _matching_corrections(self) -> Iterator[Correction]:
        """Corrections that give the right numbers at two points, the smallest change first."""
        read = read_function(self._rule.function, self._rule.line)
        if read is None:
            return
        with closing(self._bound({})) as here:
            several = self._rule.is_jvp and len(here.outputs) > 1
            for part in range(len(here.outputs)) if several else (None,):
                returned = returned_value(read, self._rule.path, part)
                program = None if returned is None else self._program(here, part)
                if returned is None or program is None:
                    continue
                expression = self._expression(returned.place)
                with closing(self._bound(self._perturbed_leaves(here, NEAR))) as near:
                    runs = [_Run(one, self._rule, self._rng) for one in (here, near)]
                    yield from self._corrections(expression, returned, program, runs)

    def _expression(self, place: Place) -> Expression:
        if place not in self._expressions:
            callers = self._layer.user_function, self._problem.implementation.live
            self._expressions[place] = Expression(place, *callers, self._rule.function)
        return self._expressions[place]

    def _program(self, subject: Subject, output: int | None) -> RuleProgram | None:
        """The derivative that the rule must compute, for a jvp of one `output` or of all; None if
        it cannot be written as a program."""
        outputs = subject.outputs
        if sum(one.size for one in outputs) > LARGEST:
            return None
        try:
            lifted = subject.lift().without_islands()
            values = _words(subject) | dict(lifted.constants)
            if self._rule.is_jvp:
                moving = [word_of(name) for name in self._rule.moving]
                found = forward_program(lifted.program, values, moving, output)
            else:
                found = reverse_program(lifted.program, values, word_of(self._rule.name))
        except (NotLifted, TooLarge, Unsupported, NoDirectional):
            return None
        if found is None:
            return None
        return replace(found, constants={**lifted.constants, **found.constants})

    def _corrections(
        self, expression: Expression, returned: Returned, program: RuleProgram, runs: Sequence[_Run]
    ) -> Iterator[Correction]:
        points = [{**program.constants, **run.point} for run in runs]
        right = [PlainFunction(program.program, "float64")(point) for point in points]
        seen = [run.last_evaluation(expression) for run in runs]
        if all(self._is(one.value, of_it) for one, of_it in zip(seen, right, strict=True)):
            return  # this output is right
        named = named_in_all(seen)
        arrays = {
            name: values[0].shape
            for name, values in named.items()
            if _VARIABLE.fullmatch(name) and values[0].dtype.kind == "f"
        }
        dialect = dialect_of(self._framework)
        is_complex = any(run.is_complex for run in runs)
        sized = program.has_sizes and not is_complex
        every = edits(returned, arrays, dialect.notation, sized, is_complex)
        for run, one in zip(runs, right, strict=True):
            if every:
                tried = run.last_evaluation(expression, [edit.whole for edit in every]).tried
                every = [e for e, value in zip(every, tried, strict=True) if self._is(value, one)]
        for edit in every:
            yield Correction(edit.place, Inline(edit.after, "", dialect.imports))
        if program.has_sizes or program.has_shapes or is_complex:  # pairs, if complex
            return
        for place, own in returned.places:
            others = {name: values for name, values in named.items() if name != own}
            code = in_names(program.program, points, others, self._framework)
            if code is not None:
                yield Correction(place, code)

    def _is(self, values: Array | None, right: Array) -> bool:
        """Whether the values agree, as far as the dtype of the function lets them."""
        if values is None or values.shape != right.shape:
            return False
        return agree(values, right, FORMATS[self._problem.dtype])

    def _fresh(self) -> list[Values]:
        with closing(self._bound({})) as subject:
            return [self._perturbed_leaves(subject, FAR) for _ in range(FRESH)]

    @cached_property
    def _resized(self) -> list[Values]:
        """Points with one more entry along all axes of one size, for each size. The axis of the
        parts of complex numbers stays."""
        with closing(self._bound({})) as subject:
            leaves = [leaf for leaf in subject.leaves if leaf.is_floating]
            near = self._perturbed_leaves(subject, FAR)
        axes = {leaf.name: leaf.rank for leaf in leaves}
        values = {leaf.name: near.get(leaf.name, leaf.value) for leaf in leaves}
        sizes = sorted({size for n, x in values.items() for size in x.shape[: axes[n]] if size > 1})
        return [
            {n: _with_longer_axes(x, axes[n], size) for n, x in values.items()} for size in sizes
        ]

    @cached_property
    def _elsewhere(self) -> list[Values]:
        """Random points far from that of the layer. Near the latter, a correction may be right only
        because everything cancels or another branch is taken."""
        with closing(self._bound({})) as subject:
            moved = [leaf for leaf in subject.leaves if leaf.differentiable]
            return [
                {leaf.name: leaf.inside(self._rng.standard_normal(leaf.shape)) for leaf in moved}
                for _ in range(ELSEWHERE)
            ]

    def _is_right(self, values: Values) -> bool | None:
        """Whether the function with the correction is right for the rule's argument, or for all
        arguments if the rule is a jvp; None if it does not run."""
        return where_it_runs(partial(self._is_right_where_it_runs, values), None)

    def _is_right_where_it_runs(self, values: Values) -> bool:
        mode: Mode = self._problem.modes[0]
        with closing(self._bound(values)) as subject:
            wrong = wrong_products(subject, self._problem.seed, mode)
        return not any(self._rule.is_jvp or product.leaf == self._rule.name for product in wrong)

    def _bound(self, values: Values) -> Subject:
        return self._subjects.bound(self._problem.dtype, values)

    def _perturbed_leaves(self, subject: Subject, part: float) -> dict[str, Array]:
        """The leaves, moved by about this part of themselves."""
        rng = self._rng
        moved = {}
        for leaf in subject.leaves:
            if leaf.differentiable:
                size = np.where(leaf.value == 0, 1.0, leaf.value) * rng.uniform(0.5, 1, leaf.shape)
                moved[leaf.name] = leaf.inside(leaf.value + part * size)
        return moved


class _Run:
    """The rule at one point, with a random cotangent or random tangents. `point` has the inputs of
    its program."""

    def __init__(self, subject: Subject, rule: Rule, rng: np.random.Generator) -> None:
        self._subject = subject
        self.point = _words(subject)
        outputs = subject.outputs
        self.is_complex = any(one.is_complex for one in outputs)
        self.is_complex |= any(leaf.is_complex for leaf in subject.leaves)
        subject.shows_pairs = self.is_complex
        self._run: Callable[[], object]
        if rule.is_jvp:
            shapes = {leaf.name: leaf.shape for leaf in subject.leaves}
            tangents = {name: rng.standard_normal(shapes[name]) for name in rule.moving}
            self.point |= {tangent_of(word_of(name)): u for name, u in tangents.items()}
            self._run = partial(subject.jvp, tangents)
        else:
            rows = [rng.standard_normal(output.size) for output in outputs]
            self.point |= {
                upstream_of(number): part.reshape(output.shape)
                for number, (part, output) in enumerate(zip(rows, outputs, strict=True))
            }
            row = np.concatenate(rows)
            self._run = partial(subject.run, Call(cotangents=row[None]))

    def last_evaluation(self, expression: Expression, others: Sequence[ast.expr] = ()) -> Seen:
        """The last evaluation of the returned expression. Raises NotRewritable if there is none."""
        found = self._subject.evaluations_of(expression, self._run, others)
        if not found:
            raise NotRewritable("it was not evaluated in the run")
        return found[-1]


def _words(subject: Subject) -> dict[str, Array]:
    return {word_of(leaf.name): np.asarray(leaf.value) for leaf in subject.leaves}


def _with_longer_axes(values: Array, axes: int, size: int) -> Array:
    """The array with its first entries repeated at the end of each of its first `axes` that has
    this size."""
    for axis in range(axes):
        if values.shape[axis] == size:
            values = np.take(values, np.arange(size + 1) % size, axis)
    return values
