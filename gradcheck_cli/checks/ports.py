"""Find implementations of one spec that compute different functions, and where they first differ.

Each gradient is judged by the forward of its own layer; this module compares the values. If two
values differ, both forwards are lifted and followed back from the output, through values that the
other run does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gradcheck_cli.checks.findings import finding_for
from gradcheck_cli.checks.protocol import Ask, Steps
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem, LiftedRun, LiftRequest
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.program import CONSTANT, INPUT
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding

LOST = (
    Codes.NON_FINITE_OUTPUT,
    Codes.UNSTABLE_OUTPUT,
    Codes.ILL_CONDITIONED,
    Codes.STOCHASTIC,
    Codes.NONDETERMINISTIC,
    Codes.STATEFUL_GRADIENT,
)
"""A layer with one of these findings is not compared with other layers."""


@dataclass(frozen=True, slots=True)
class Port:
    """The output of one implementation at one point in one dtype."""

    problem: LayerProblem
    output: Array

    @property
    def engine(self) -> str:
        return self.problem.implementation.engine


class Ports:
    """The implementations of one spec, compared with each other. `findings` has the results,
    `notes` the comparisons that were not made."""

    def __init__(self, problems: Sequence[LayerProblem]) -> None:
        self._problems = problems
        self.findings: list[Finding] = []
        self.notes: list[str] = []

    def steps(self, answers: Sequence[LayerAnswer]) -> Steps[None]:
        """Compare the answers to the problems."""
        for ports in _by_point(self._problems, answers):
            base = max(ports, key=lambda one: sum(_outputs_agree(one, other) for other in ports))
            others = [one for one in ports if not _outputs_agree(one, base)]
            if not others:
                continue
            asked = [base, *others]
            runs = yield [Ask(one.engine, LiftRequest(one.problem)) for one in asked]
            for port, run in zip(others, runs[1:], strict=True):
                self._compare(base, _lifted(runs[0]), port, _lifted(run))

    def _compare(self, base: Port, expected: LiftedRun, port: Port, found: LiftedRun) -> None:
        if not _same_parameters(expected, found):
            self.notes.append(
                f"{port.engine} and {base.engine} are not compared: their parameters differ"
            )
            return
        if expected.exact and found.exact and port.output.shape == base.output.shape:
            same = _agree(_output(found), _output(expected), "float64")
        else:  # the two may round differently, or compute in float32 inside
            same = _agree(port.output, base.output, "float32")
        if not same:
            self.findings.append(_finding(base, expected, port, found))


def _by_point(
    problems: Sequence[LayerProblem], answers: Sequence[LayerAnswer]
) -> Iterator[list[Port]]:
    """The outputs at each point, in the widest dtype."""
    pairs = list(zip(problems, answers, strict=True))
    lost = {
        (problem.implementation.engine, finding.dtype)
        for problem, answer in pairs
        for finding in answer.findings
        if finding.code in LOST
    }
    points: dict[int, dict[str, Port]] = {}
    for problem, answer in sorted(pairs, key=lambda pair: -FORMATS[pair[0].dtype].bits):
        engine = problem.implementation.engine
        if answer.readings and not {(engine, problem.dtype), (engine, None)} & lost:
            output = np.asarray(answer.readings[0].output, np.float64)
            points.setdefault(problem.point, {}).setdefault(engine, Port(problem, output))
    for ports in points.values():
        widest = max(FORMATS[port.problem.dtype].bits for port in ports.values())
        yield [one for one in ports.values() if FORMATS[one.problem.dtype].bits == widest]


def _outputs_agree(one: Port, other: Port) -> bool:
    return _agree(one.output, other.output, one.problem.dtype)


def _agree(mine: Array, theirs: Array, digits: str) -> bool:
    """Whether two arrays are equal to half of the digits, relative to the largest number."""
    if mine.shape != theirs.shape:
        return False
    half = FORMATS[digits].half
    off = np.abs(mine.astype(np.float64) - theirs)
    finite = np.isfinite(theirs)
    size = np.max(np.abs(theirs), where=finite, initial=0.0)
    return bool(np.all((off <= half * size) | (mine == theirs) | ~(finite | np.isfinite(mine))))


def _lifted(answer: object) -> LiftedRun:
    """The answer of a worker as a lifted run; a failure becomes a run without a program."""
    return answer if isinstance(answer, LiftedRun) else LiftedRun({}, reason=str(answer))


def _output(run: LiftedRun) -> Array:
    assert run.program is not None
    assert run.trace is not None
    return np.ravel(run.trace.values[run.program.output])


def _same_parameters(one: LiftedRun, other: LiftedRun) -> bool:
    """Whether both layers have the same parameter values, in any order, or one has no parameters
    because they are its inputs."""

    def numbers(run: LiftedRun) -> Array:
        floats = [np.ravel(a) for a in run.parameters.values() if a.dtype.kind == "f"]
        return np.sort(np.concatenate([np.zeros(0), *floats]))

    mine, theirs = numbers(one), numbers(other)
    return not mine.size or not theirs.size or np.array_equal(mine, theirs)


def _finding(base: Port, expected: LiftedRun, port: Port, found: LiftedRun) -> Finding:
    message, place = f"it computes a different function from {base.engine}", None
    here, there = _parting(found, expected), _parting(expected, found)
    if here is None or there is None:
        reasons = {base.engine: expected.reason, port.engine: found.reason}
        detail = [f"{engine} is not lifted: {why}" for engine, why in reasons.items() if why]
    else:
        place, other = here.place, there.place
        mine, theirs = _one_entry(here.value, there.value)
        message = f"{mine} in {port.engine} and {theirs} in {base.engine}"
        detail = []
        if other is not None:
            detail = [f"{base.engine}: {other.source.path}:{other.span.line}: {other.text}"]
    return finding_for(
        port.problem,
        Codes.IMPLEMENTATIONS_DIFFER,
        message,
        dtype=port.problem.dtype,
        place=place,
        detail="\n".join([*detail, _values(base, port)]),
    )


@dataclass(frozen=True, slots=True)
class _Parting:
    """The user's expression at which a run first differs from another one, and its value."""

    place: Place | None
    value: Array


def _parting(run: LiftedRun, other: LiftedRun) -> _Parting | None:
    """The expression at which `run` first differs from `other`; None if one is not lifted."""
    first = first_differing_node(run, other)
    if first is None or run.program is None or run.trace is None:
        return None
    nodes = run.program.nodes
    node, last = nodes[first], first
    for index in range(first, len(nodes)):
        if nodes[index].op in (INPUT, CONSTANT):
            continue
        if (nodes[index].source, nodes[index].span) != (node.source, node.span):
            break
        last = index
    place = None if node.source is None else Place(node.source, node.span, node.text)
    return _Parting(place, run.trace.values[last])


def _one_entry(mine: Array, theirs: Array) -> tuple[str, str]:
    """The entry that differs most in both arrays, or their shapes if the shapes differ."""
    if mine.shape != theirs.shape:
        return f"shape {mine.shape}", f"shape {theirs.shape}"
    index = _worst(mine, theirs)
    return f"{mine[index]:.9g}", f"{theirs[index]:.9g}"


def _worst(mine: Array, theirs: Array) -> tuple[int, ...]:
    off = np.abs(mine.astype(np.float64) - theirs)
    worst = int(np.argmax(np.nan_to_num(off, nan=np.inf)))
    return index_of(worst, off.shape)


def _values(base: Port, port: Port) -> str:
    """A sentence that names an output that differs most, with both values."""
    if port.output.shape != base.output.shape:
        own, other = port.output.shape, base.output.shape
        return f"its output has shape {own}, but {other} in {base.engine}"
    index = _worst(port.output, base.output)
    at = f"output[{','.join(map(str, index))}]" if index else "the output"
    return (
        f"{at} is {port.output[index]:.9g} in {port.engine} and {base.output[index]:.9g} in "
        f"{base.engine}"
    )


def first_differing_node(run: LiftedRun, other: LiftedRun) -> int | None:
    """The node at which a run first differs from another one: its value does not occur in the other
    run, its arguments do, and only such new values lie between it and the output. The earliest node
    if there are several; None if one of the runs is not lifted."""
    if run.program is None or run.trace is None or other.trace is None:
        return None
    known: dict[int, list[Array]] = {}
    for value in other.trace.values.values():
        known.setdefault(value.size, []).append(np.ravel(value))
    nodes, values = run.program.nodes, run.trace.values

    def shared(index: int) -> bool:
        if nodes[index].op in (INPUT, CONSTANT):
            return True
        mine = np.ravel(values[index])
        return any(_agree(mine, theirs, "float64") for theirs in known.get(mine.size, ()))

    waiting, seen, parted = [run.program.output], set[int](), []
    while waiting:
        index = waiting.pop()
        if index in seen or shared(index):
            continue
        seen.add(index)
        apart = [arg for arg in nodes[index].args if not shared(arg)]
        waiting += apart
        if not apart:
            parted.append(index)
    return min(parted, default=None)
