"""Findings from verdicts: one per code, engine, dtype, mode and input, worst entries first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import CODES, Codes, Severity
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import FIRST_ORDER, SECOND, Evaluation, Mode
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import LISTED, SHOWN_ENTRIES, Entry, Finding, Indexing
from gradcheck_cli.domain.thresholds import ERROR_BITS, FEW_ULPS
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.judge.decision import OF_THE_ENGINE, OF_THE_POINT, Judged, Verdict
from gradcheck_cli.judge.measures import Mask, too_wide, unseen_in_float32
from gradcheck_cli.judge.wording import About, documented_of


def finding(
    case: Case,
    code: str,
    message: str,
    *,
    severity: Severity | None = None,
    evaluation: Evaluation | None = None,
    input: str | None = None,
    span: Span | None = None,
    entries: tuple[Entry, ...] = (),
    more: int = 0,
    truth_source: str | None = None,
    detail: str = "",
) -> Finding:
    """Return a finding of this case, with the fields that every finding has filled in."""
    found = Finding(
        code=code,
        severity=severity or CODES[code].severity,
        message=message,
        span=span or case.spec.program.result.span,
        engine=evaluation.engine if evaluation else None,
        dtype=case.dtype,
        mode=evaluation.mode if evaluation else None,
        input=input,
        point=case.point,
        entries=entries,
        more=more,
        indexing=_indexing(case, evaluation, input) if entries and input else None,
        along=tuple((name, tuple(map(float, u.ravel()))) for name, u in case.along.items()),
        truth_source=truth_source,
        detail=detail,
    )
    return _with_directions(found, case, evaluation.mode) if evaluation and entries else found


def _indexing(case: Case, evaluation: Evaluation | None, name: str) -> Indexing | None:
    """Return what the numbers in `entry_index` count. A finding about the point is described by the
    first mode of the case."""
    mode = evaluation.mode if evaluation else next((m for m in case.projections), None)
    if mode not in FIRST_ORDER:
        return None
    projection = case.projections[mode]
    output = case.spec.program.result.shape
    return Indexing(
        output_axes=len(output) if projection.rows is None else 1,
        cotangents=projection.rows is not None,
        directions=projection.columns is not None and name in projection.columns,
        complex_output=case.complex_output,
        complex_input=name in case.complex_leaves,
    )


def _with_directions(finding: Finding, case: Case, mode: Mode) -> Finding:
    """Return the finding with the cotangents and directions that its numbers are products with."""
    if finding.input is None:
        return finding
    projection, columns = case.projections[mode], finding.input
    if mode not in SECOND:
        directions = projection.columns or {}
        return replace(
            finding, cotangents=_listed(projection.rows), columns=_listed(directions.get(columns))
        )
    block = HessianBlock.named(finding.input, case.spec.wrt)
    firsts, directions = projection.firsts or {}, projection.columns or {}
    cotangents = _flat(projection.rows)[:1]
    return replace(
        finding,
        cotangents=cotangents,
        firsts=_listed(firsts.get(block.rows)),
        columns=_listed(directions.get(block.columns)),
    )


def _listed(arrays: Array | None) -> tuple[tuple[float, ...], ...]:
    return _flat(arrays) if arrays is not None and arrays.size <= LISTED else ()


def _flat(arrays: Array | None) -> tuple[tuple[float, ...], ...]:
    """Split an array (k, *shape) into k flat tuples."""
    return () if arrays is None else tuple(tuple(map(float, one.ravel())) for one in arrays)


def entry_index(case: Case, mode: str, name: str, row: int, column: int) -> tuple[int, ...]:
    """Return the index that a user expects: the index into the output first, unless it is a scalar,
    then the index into the input."""
    projection = case.projections[mode]  # type: ignore[index]
    if mode in SECOND:
        block = HessianBlock.named(name, case.spec.wrt)
        return (
            *_place(case, projection.firsts, block.rows, row),
            *_place(case, projection.columns, block.columns, column),
        )
    output = case.spec.program.result.shape
    if projection.rows is not None:
        left: tuple[int, ...] = (row,)
    else:
        left = index_of(row, output)
    return (*left, *_place(case, projection.columns, name, column))


def _place(
    case: Case, directions: Mapping[str, Array] | None, name: str, flat: int
) -> tuple[int, ...]:
    """The index of an entry of an input, or the number of a direction if directions are given."""
    if directions is not None and name in directions:
        return (flat,)
    shape = np.shape(case.values[name])
    return index_of(flat, shape)


def entries_of(
    case: Case,
    mode: str,
    name: str,
    block: TruthBlock,
    places: Array,
    g: Array | None,
    ulps: Array | None,
) -> tuple[tuple[Entry, ...], int]:
    """Return the worst `SHOWN_ENTRIES` entries at `places` (k, 2), and the number of the others.

    Entries that are not finite come first; the rest follow by the size of their error in ulps.
    """
    if ulps is None:
        order = np.arange(len(places))
    else:
        size = ulps[places[:, 0], places[:, 1]]
        order = np.argsort(-np.where(np.isnan(size), np.inf, size), kind="stable")
    shown = places[order[:SHOWN_ENTRIES]]
    entries = tuple(
        Entry(
            index=entry_index(case, mode, name, int(row), int(column)),
            computed=None if g is None else float(g[row, column]),
            truth=_truth(block, int(row), int(column)),
            truth_error=_none_for_nan(block.error[row, column]),
            finite_difference=_none_for_nan(block.difference[row, column]),
            finite_difference_error=_none_for_nan(block.difference_error[row, column]),
            ulps=None if ulps is None else _none_for_nan(ulps[row, column]),
        )
        for row, column in shown
    )
    return entries, len(places) - len(entries)


def _truth(block: TruthBlock, row: int, column: int) -> float | None:
    """Return the truth of an entry if it is smooth or a kink and its value is known, else None."""
    known = block.kind[row, column] in (PointKind.SMOOTH, PointKind.KINK)
    return _none_for_nan(block.value[row, column]) if known else None


def _none_for_nan(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def finding_at(
    about: About,
    code: str,
    message: str,
    *,
    block: TruthBlock | None = None,
    g: Array | None = None,
    ulps: Array | None = None,
) -> Finding:
    """Return a finding about the entries of a block, for which an engine returned `g`. The finding
    shows the truth in `block`, if given, in place of the truth that it is about."""
    case, name = about.case, about.name
    shown = about.block if block is None else block
    entries, more = entries_of(case, about.mode, name, shown, about.places, g, ulps)
    return finding(
        case,
        code,
        message,
        evaluation=about.evaluation,
        input=name,
        entries=entries,
        more=more,
        truth_source=source_of(case, about.block, about.places),
    )


def source_of(case: Case, block: TruthBlock, places: Array | None = None) -> str:
    """Return where the truth of a block comes from, or the truth of its entries at `places` (k, 2).
    A truth counts as confirmed only if its error bar is finite."""
    at = (slice(None), slice(None)) if places is None else (places[:, 0], places[:, 1])
    kind = block.kind[at]
    if (kind == PointKind.UNDECIDED).all():
        return "undecided"
    if block.certified[at].any():
        assert case.truth is not None
        return f"certified, {case.truth.origin}" if case.truth.origin else "certified"
    known = np.isfinite(block.error[at])
    if np.any(block.confirmed[at] & known & (kind == PointKind.SMOOTH)):
        return "confirmed"
    if np.all(np.isin(kind, (PointKind.KINK, PointKind.UNDEFINED, PointKind.JUMP))):
        return "one-sided-difference"
    return "finite-difference"


BESIDE = "negligible compared with the largest entry of its row or column"


def engine_findings(
    case: Case, evaluation: Evaluation, name: str, block: TruthBlock, judged: Judged
) -> Iterable[Finding]:
    """Yield the findings about one block of one engine's answer."""
    g = evaluation.gradients[name].values
    assert g is not None
    if not judged.verdict.any():
        return
    documented = documented_of(case, evaluation)
    counts = np.bincount(judged.verdict.ravel(), minlength=len(Verdict))
    for verdict, row in OF_THE_ENGINE.items():
        if not counts[verdict]:
            continue
        mode, places = evaluation.mode, np.argwhere(_entries_to_report(verdict, judged))
        second = verdict is Verdict.WRONG and mode in SECOND
        truth, ulps = block, judged.ulps
        if verdict is Verdict.APART:  # each entry alone is a possible slope of the kink
            alone = ulps <= FEW_ULPS
            truth = block.at(alone, value=np.nan)
            ulps = np.where(alone, np.nan, ulps)
        about = About(case, mode, name, block, places, evaluation, judged.ulps, judged.in_float32)
        found = finding_at(
            about,
            Codes.WRONG_SECOND_DERIVATIVE if second else row.code,
            row.says(about) + (f"; {BESIDE}" if _are_hidden(verdict, judged, places) else ""),
            block=truth,
            g=g,
            ulps=ulps,
        )
        severity = _severity(case, verdict, judged, places)
        if severity is not None:
            found = replace(found, severity=severity)
        if documented and verdict is Verdict.DOCUMENTED:
            found = replace(found, span=documented.span)
        unseen = verdict is Verdict.WRONG and not second
        if unseen and np.all(unseen_in_float32(g, block, FORMATS[case.dtype])[tuple(places.T)]):
            found = replace(found, unseen=True)
        yield found


OF_ROUNDING = (Verdict.PRECISION, Verdict.UNDERFLOW)


def _entries_to_report(verdict: Verdict, judged: Judged) -> Mask:
    """Mark the entries to report under this verdict. Entries with a hidden error are left out,
    unless there are no others."""
    mine = np.asarray(judged.verdict == verdict)
    if verdict not in OF_ROUNDING or judged.hidden is None:
        return mine
    seen = np.asarray(mine & ~judged.hidden)
    return seen if np.any(seen) else mine


def _are_hidden(verdict: Verdict, judged: Judged, places: Array) -> bool:
    if verdict not in OF_ROUNDING or judged.hidden is None:
        return False
    return bool(np.all(judged.hidden[places[:, 0], places[:, 1]]))


def _severity(case: Case, verdict: Verdict, judged: Judged, places: Array) -> Severity | None:
    if verdict is Verdict.OVERFLOW:
        return "warning"  # no defect: no program in this dtype does better
    if _are_hidden(verdict, judged, places):
        return "note"  # no training sees it
    if verdict not in (Verdict.PRECISION, Verdict.DOCUMENTED):
        return None
    worst = np.nanmax(judged.ulps[places[:, 0], places[:, 1]])
    return severity_of_loss(OF_THE_ENGINE[verdict].code, float(worst), FORMATS[case.dtype])


def severity_of_loss(code: str, ulps: float, fmt: FloatFormat) -> Severity:
    """Return "note" if no more than half of the digits are lost, else the severity of the code."""
    small = ulps <= fmt.lost(ERROR_BITS)
    return "note" if small else CODES[code].severity


def point_findings(case: Case, masks: Mapping[tuple[Mode, str], Array]) -> Iterable[Finding]:
    """Yield findings about kinks, jumps, undefined and undecided entries: once an input, not an
    engine.

    `masks` has an array of Verdicts (rows, columns) for each mode and block.
    """
    truth = case.truth
    assert truth is not None
    seen: set[tuple[str, str]] = set()
    for (mode, name), verdicts in masks.items():
        if not verdicts.any():
            continue
        block = truth.blocks[mode, name]
        for verdict, row in OF_THE_POINT.items():
            places = np.argwhere(verdicts == verdict)
            if not len(places) or (row.code, name) in seen:
                continue
            seen.add((row.code, name))
            if verdict is Verdict.UNDECIDED:  # a bar that is too wide confirms no number
                block = block.undecided_at(too_wide(block, FORMATS[case.dtype]))
            about = About(case, mode, name, block, places)
            yield finding_at(about, row.code, row.says(about))


def guard_findings(case: Case) -> Iterable[Finding]:
    """Yield a finding for each clip that makes the gradient of an input exactly zero, once an
    input."""
    truth = case.truth
    assert truth is not None
    for guard in truth.guards:
        seen: set[str] = set()
        for (mode, name), without in guard.without.items():
            if name in seen:
                continue
            seen.add(name)
            block, places = truth.blocks[mode, name], np.argwhere(~np.isnan(without))
            number = float(without[tuple(places[0])])
            message = (
                f"`{name}`: a bound before the pole of `{guard.pole}` makes the gradient zero; "
                f"without the bound it is {number:.4g}"
            )
            about = About(case, mode, name, block, places)
            found = finding_at(about, Codes.CLIPPED_GRADIENT, message)
            yield replace(found, span=guard.span, place=guard.place)
