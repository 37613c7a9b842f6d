"""Add causes and patterns to the findings of a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation, Mode
from gradcheck_cli.domain.program import INPUT, Program, ProgramCopy
from gradcheck_cli.domain.report import Cause, Finding, internal_about
from gradcheck_cli.engines.tracebacks import internal_failure
from gradcheck_cli.explain.blame.explanation import blame, blame_row, blame_tie
from gradcheck_cli.explain.blame.patterns import axis_sizes, name_pattern
from gradcheck_cli.explain.blame.stated_rules import blame_rule
from gradcheck_cli.explain.blame.traces import Traces, traces_of

WRONG = (Codes.WRONG_GRADIENT, Codes.WRONG_SECOND_DERIVATIVE)

_MOST_USES = 16  # uses of an input that are shown separately; nobody reads a longer sentence


def explain(case: Case, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, each with its cause and pattern, if known. If explaining a finding raises, it
    stays unchanged, and GC706 reports the exception once."""
    explained: list[Finding] = []
    faults: dict[str, Finding] = {}
    for finding in findings:
        try:
            explained.append(_explain(case, finding))
        except Exception as error:
            explained.append(finding)
            fault = unexplained(finding, error)
            faults[fault.message] = fault
    return (*explained, *faults.values())


def unexplained(finding: Finding, error: Exception) -> Finding:
    """GC706 for an exception of gradcheck's own code while it explained a finding."""
    failure = internal_failure(error, f"{finding.code} could not be explained")
    return internal_about(finding, failure, finding.span)


def _explain(case: Case, finding: Finding) -> Finding:
    if finding.engine is None or finding.mode is None:
        return finding
    traced = case.traced.get((finding.engine, finding.mode))
    if traced is not None and traced.trace is None:
        traced = None
    if finding.code in WRONG:
        cause = (
            _custom_rule_cause(case, finding) if traced is None else _wrong(case, traced, finding)
        )
        return replace(finding, cause=cause, pattern=_pattern(case, finding))
    if traced is None:
        return finding
    if finding.code == Codes.DOCUMENTED_APPROXIMATION:
        return finding  # the documentation is the cause
    cause = blame(_traces(case, finding), finding.code)
    return replace(finding, cause=cause, span=cause.span if cause else finding.span)


def _wrong(case: Case, traced: Evaluation, finding: Finding) -> Cause | None:
    """The cause: a custom rule, an engine's choice at a kink or tie, or its formula for a row."""
    return (
        blame_rule(case, traced)
        or _convention(case, finding)
        or blame_row(_traces(case, finding), finding.code)
    )


def _custom_rule_cause(case: Case, finding: Finding) -> Cause | None:
    """The wrong custom rule, from another engine's trace: it is wrong in every engine."""
    others = (e for (_, mode), e in case.traced.items() if mode == finding.mode and e.trace)
    return next((cause for one in others if (cause := blame_rule(case, one))), None)


def _convention(case: Case, finding: Finding) -> Cause | None:
    """The kink or tie at which the engine's rule chooses; None if the program has custom rules, or
    if the truth is certified: then it depends on no kink or tie."""
    assert finding.mode is not None
    key = (finding.mode, finding.input or "")
    truth = case.truth.blocks.get(key) if case.truth else None
    if case.spec.program.has_custom_gradient or (truth is not None and truth.certified.all()):
        return None
    return blame_tie(_traces(case, finding))


def _traces(case: Case, finding: Finding) -> Traces:
    assert finding.engine is not None
    assert finding.mode is not None
    key = (finding.engine, finding.mode)
    traced, wide = case.traced[key], case.wide.get(key)
    assert traced.trace is not None
    return traces_of(
        case.spec.program,
        case.dtype,
        finding.mode,
        traced.trace,
        wide.trace if wide else None,
        _target(case, finding),
    )


def _target(case: Case, finding: Finding) -> float | None:
    """The exact value of the worst entry, or of the largest number of an output that was lost."""
    if finding.code == Codes.NON_FINITE_OUTPUT:
        if case.truth is None or not case.truth.output_certified or not np.size(case.truth.output):
            return None
        sizes = np.abs(np.asarray(case.truth.output, dtype=np.float64))
        return None if np.all(np.isnan(sizes)) else float(np.nanmax(sizes))
    return finding.entries[0].truth if finding.entries else None


def _pattern(case: Case, finding: Finding) -> str | None:
    evaluation = next(
        (e for e in case.evaluations if (e.engine, e.mode) == (finding.engine, finding.mode)), None
    )
    if evaluation is None or case.truth is None or finding.input is None:
        return None
    block = case.truth.blocks.get((evaluation.mode, finding.input))
    gradient = evaluation.gradients.get(finding.input)
    if block is None or gradient is None or gradient.values is None:
        return None
    name = finding.input
    first_order = evaluation.mode in ("reverse", "forward")
    shape = np.shape(case.values[name]) if first_order else ()
    projection = case.projections[evaluation.mode]
    return name_pattern(
        gradient.values,
        block.value,
        shape,
        FORMATS[case.dtype],
        axis_sizes({name: np.shape(value) for name, value in case.values.items()}),
        (lambda: terms_of(case, evaluation.mode, name)) if first_order else tuple,
        complex_output=first_order and case.complex_output and projection.rows is None,
        complex_input=first_order
        and name in case.complex_leaves
        and name not in (projection.columns or {}),
    )


def terms_of(case: Case, mode: Mode, name: str) -> Sequence[tuple[str, Array]]:
    """The uses of an input that has several: pairs (text of the use, its part of the float64
    gradient)."""
    from gradcheck_cli.engines.reference.engine import ReferenceEngine
    from gradcheck_cli.truth.plain import inlined

    program = inlined(case.spec.program)
    split, uses = _split(program, name)
    if not 2 <= len(uses) <= _MOST_USES or case.projections[mode].columns is not None:
        return ()
    values = {**case.values, **dict.fromkeys(uses, case.values[name])}
    problem = case.problem(mode, program=split, values=values, wrt=tuple(uses), dtype="float64")
    answer = ReferenceEngine().evaluate(problem)
    if answer.failure is not None:
        return ()
    result = []
    for use, text in uses.items():
        gradient = answer.gradients.get(use)
        if gradient is not None and gradient.values is not None and np.any(gradient.values):
            result.append((text, gradient.values))
    return result


def _split(program: Program, name: str) -> tuple[Program, dict[str, str]]:
    """The program with a new input for each use of `name`, and the text of each use."""
    source = program.inputs[name]
    copy = ProgramCopy(program)
    inputs: dict[str, int] = {}
    uses: dict[str, str] = {}
    for index, node in enumerate(program.nodes):
        args = []
        for arg in node.args:
            if arg != source:
                args.append(copy.place[arg])
                continue
            new = f"{name}:{len(uses)}"
            uses[new] = node.text
            inputs[new] = copy.add(replace(program.nodes[source], op=INPUT, name=new))
            args.append(inputs[new])
        copy.place[index] = copy.add(replace(node, args=tuple(args)))
    return copy.finished(inputs), uses
