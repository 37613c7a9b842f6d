"""Bind the layer of one problem: in the dtype that is judged, and in the highest precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np

from gradcheck_cli.checks.admissible import Admissible, kinds_of, moved_within_kind
from gradcheck_cli.checks.findings import BadSpec
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.evaluation import Failure
from gradcheck_cli.domain.layer import LayerProblem, Leaf, rounded
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import EngineFault, SpecMistake
from gradcheck_cli.engines.layer.custom import Lines
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.layer.loading import on_the_path
from gradcheck_cli.engines.layer.subject import Call, Subject, SubjectRequest, output_size
from gradcheck_cli.engines.tracebacks import one_line, raise_if_internal, where_it_runs
from gradcheck_cli.formula import FormulaError
from gradcheck_cli.specfile.kinds import Kind

ONE_TRIANGLE = (
    "the layer reads one triangle of `{name}`, but its gradient is split between both: checked "
    "with `{name}` kept {kind}"
)


class Subjects:
    """The layer of a problem, bound to its inputs rounded to its dtype. `notes` tells the user why
    the highest precision is not float64."""

    def __init__(self, engine: Engine, problem: LayerProblem) -> None:
        self._engine = engine
        self._problem = problem
        self.notes: dict[str, None] = {}  # in order, each once
        self.known: list[tuple[Subject, Array]] = []  # values of second calls
        fmt = FORMATS[problem.dtype]
        self._inputs = {name: rounded(entry.value, fmt) for name, entry in problem.inputs.items()}
        self.kinds = kinds_of(problem.inputs)
        self._origin = dict(self._inputs)
        self._chosen: Values = {}
        self._narrow_only = False

    def keep(self, kinds: Mapping[str, Kind]) -> None:
        """Keep these leaves of these kinds, because the layer reads one triangle of them."""
        self.kinds.update(kinds)
        for name, kind in kinds.items():
            self.notes[ONE_TRIANGLE.format(name=name, kind=kind.name)] = None

    def bound(self, dtype: str, values: Values | None = None, uncast: bool = False) -> Subject:
        """Bind the layer in `dtype`, with other `values` for some of its inputs; if `uncast`,
        without its casts to narrower dtypes. Raises BadSpec and any exception of the layer."""
        problem = self._problem
        point = problem.inputs
        there = moved_within_kind(self.kinds, self._origin, values or {})
        request = SubjectRequest(
            problem.implementation,
            {**self._inputs, **self._chosen, **there},
            dtype,
            problem.dtype,
            problem.seed,
            uncast,
            forward=all(mode == "forward" for mode in problem.modes),
            data=_data(problem),
            domains={name: (one.low, one.high) for name, one in point.items()},
            complex_inputs=frozenset(name for name, one in point.items() if one.is_complex),
        )
        subject: Subject = self._engine.subject(request)
        self._chosen = {**subject.chosen, **self._chosen}  # as at the first point
        if self.kinds:
            for leaf in subject.leaves:
                self._origin.setdefault(leaf.name, leaf.kept)
            subject = Admissible(subject, self.kinds, self._origin)
        self.notes.update(dict.fromkeys(subject.notes))
        subject.differentiate(_requested(subject.leaves, problem))
        return subject

    def uncast(self, narrow: Subject, digits: str) -> Subject | None:
        """Bind the layer in float64 without its casts. None if it does not run that way, still
        casts, or draws other random numbers than `narrow`, whose values have the precision of
        `digits`."""
        wide = where_it_runs(lambda: self.bound("float64", uncast=True), None)
        if wide is None:
            return None
        same = where_it_runs(
            lambda: not wide.casts() and not draws_other_numbers(narrow, wide, digits, self.known),
            False,
        )
        if same:
            return wide
        wide.close()
        return None

    def left_out(self, error: Exception) -> str | None:
        """A note that the problem's dtype is left out, if nobody requested it by name and the layer
        runs in another dtype. None if `error` has another cause and must be raised."""
        mine = self._problem.dtype
        if self._problem.named_dtype or isinstance(error, EngineFault | BadSpec):
            return None
        for dtype in (mine, "float32", "float64"):
            there = where_it_runs(partial(self.bound, dtype), None)
            if there is None:
                continue
            there.close()
            if dtype == mine:  # the layer runs now: the dtype was not the cause
                return None
            words = one_line(error)
            return f"{mine} was left out: the layer does not run in it ({words})"
        return None

    def highest(self, narrow: Subject | None = None) -> Subject:
        """Bind the layer in float64. If it does not run there, returns narrower outputs or draws
        other random numbers, return `narrow`, or bind the layer in the problem's dtype."""
        dtype = self._problem.dtype
        if dtype == "float64" or self._narrow_only:
            return narrow or self.bound(dtype)
        try:
            wide = self.bound("float64")
        except SpecMistake:
            raise
        except Exception as error:
            raise_if_internal(error)
            again = where_it_runs(lambda: self.bound("float64"), None)
            if again is not None:  # the layer runs now: the dtype was not the cause
                again.close()
                raise
            words = one_line(error)
            self.notes[f"{dtype} is the highest precision it runs in ({words})"] = None
            return narrow or self.bound(dtype)
        others = {output.dtype for output in wide.outputs} - {"float64"}
        if others:
            given = ", ".join(sorted(others))
            self.notes[f"it returns {given} for float64 inputs: checked in {dtype}"] = None
        elif narrow is not None and draws_other_numbers(narrow, wide, dtype, self.known):
            self.notes[f"it draws different random numbers in float64: checked in {dtype}"] = None
        else:
            return wide
        wide.close()
        return narrow or self.bound(dtype)

    def stays_narrow(self, narrow: Subject, wide: Subject) -> bool:
        """Whether the derivative runs in the problem's dtype but raises in the wider one, which is
        then given up: a failure there says nothing about the layer in its own dtype."""
        if narrow is wide or not where_it_runs(lambda: _differentiate(narrow), False):
            return False
        try:
            _differentiate(wide)
        except Exception as error:
            raise_if_internal(error)
            words = one_line(error)
            note = (
                f"its derivative runs in {narrow.dtype} only ({words}): checked in {narrow.dtype}"
            )
            self.notes[note] = None
            self._narrow_only = True
        return self._narrow_only


def bind(engine: Engine, problem: LayerProblem, dtype: str | None = None) -> Subject:
    """Bind the layer of a problem in its dtype, or in another one. Raises as `Subjects.bound`."""
    return Subjects(engine, problem).bound(dtype or problem.dtype)


def _differentiate(subject: Subject) -> bool:
    """Run a forward and a backward pass and return True. Raises any exception of the two."""
    subject.run(Call(cotangents=np.ones((1, output_size(subject)))))
    return True


BESIDE = (
    "the layer runs at the given point, but raised at a nearby point, where differences are "
    "taken, or in a single call; the `domain` of an input keeps these points where the layer is "
    "defined"
)


BACKWARD = "the layer runs, but its derivative raises "


def with_runs_at_point(engine: Engine, problem: LayerProblem, failure: Failure) -> Failure:
    """Add to the failure what runs at the given point: everything (BESIDE), or only the forward
    pass (BACKWARD)."""
    if failure.kind != "raised" or problem.behaviour:
        return failure
    runs = False
    try:
        with (
            surroundings(),
            on_the_path(problem.implementation),
            closing(bind(engine, problem)) as subject,
        ):
            subject.value({})
            runs = True
            _differentiate(subject)
    except (Exception, SystemExit):  # raised at the given point, as the failure says
        return replace(failure, message=BACKWARD + failure.message) if runs else failure
    return replace(failure, detail="\n".join(filter(None, (failure.detail, BESIDE))))


def _data(problem: LayerProblem) -> frozenset[str]:
    """The inputs whose derivatives are not checked."""
    spec = problem.spec
    return frozenset(
        name
        for name, entry in problem.inputs.items()
        if not entry.requires_grad or (spec.wrt and name not in spec.wrt)
    )


def _requested(leaves: Sequence[Leaf], problem: LayerProblem) -> tuple[str, ...]:
    """Names of the leaves whose derivatives the spec requests. Raises BadSpec."""
    spec = problem.spec
    data = _data(problem)
    floating = {leaf.name for leaf in leaves if leaf.is_floating}
    known = [leaf.name for leaf in leaves if leaf.differentiable or leaf.name in data & floating]
    unknown = [name for name in spec.wrt if name not in known]
    if unknown:
        help = f"it has: {', '.join(known)}" if known else "it has none"
        span = problem.implementation.span
        raise BadSpec(
            [
                FormulaError(
                    Codes.SPEC_SCHEMA, f"`wrt`: the layer has no gradient for `{n}`", span, help
                )
                for n in unknown
            ]
        )
    return tuple(name for name in spec.wrt or known if name not in data)


def draws_other_numbers(
    narrow: Subject, wide: Subject, digits: str, known: list[tuple[Subject, Array]] | None = None
) -> bool:
    """Whether the layer draws different random numbers in the two dtypes. `digits` is the dtype by
    whose precision their values are compared. Values of second calls are added to `known`."""
    seen = []
    for subject in (narrow, wide):
        value = subject.first_value
        if value is None:
            value = subject.value({})
            if known is not None:
                known.append((subject, value))
        seen.append(value)
    one, other = seen
    half = FORMATS[digits].half
    if one.shape == other.shape and np.all(
        np.abs(one - other) <= half * np.max(np.abs(other), initial=0.0)
    ):
        return False
    if narrow.run(Call(watch=True)).random:
        return True
    lines = where_it_runs(lambda: narrow.lines(np.ones(one.size)), Lines())
    return lines.draws is not None  # the layer has a generator of its own
