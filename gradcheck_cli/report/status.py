"""The status line of a spec: passed or failed, and the worst error; with -v also the numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.text import Text

from gradcheck_cli.domain.codes import CODES, Families
from gradcheck_cli.domain.decimals import PRECISION
from gradcheck_cli.domain.report import Check, SpecResult
from gradcheck_cli.report.numbers import FEW, reading_text, small_or_relative, training_text
from gradcheck_cli.report.style import DIM, LABEL, SEVERITY_STYLE, Style, labelled, plain, wrapped

_MARGIN = 6


def status_lines(result: SpecResult, style: Style) -> list[Text]:
    """`ok    quadratic  worst error 0 ulp  reference; float64; reverse`."""
    mark, severity = mark_of(result)
    facts = [word for word in (quality_of(result), _uncounted(result)) if word]
    extents = [_extent(result), _counted_extent(result)] if result.checks else [""]
    lines = _fitted_line(mark, severity, result.spec, facts, extents, style)
    if style.verbose:
        lines += _all_values(result, style)
        lines += _all_rules(result, style)
    for note in result.notes:
        lines += labelled("note", note, style)
    return lines


def mark_of(result: SpecResult) -> tuple[str, str]:
    """The word for the outcome of a spec, and its style."""
    if result.status == "failed":
        return "FAIL", SEVERITY_STYLE["error"]
    if result.status == "error":
        return "ERROR", SEVERITY_STYLE["error"]
    if any(found.severity == "warning" and not found.allowed for found in result.findings):
        return "warn", SEVERITY_STYLE["warning"]
    if result.unchecked:
        return "none", SEVERITY_STYLE["warning"]
    if any(CODES[code].severity != "note" for code in result.ignored):
        return "part", SEVERITY_STYLE["warning"]
    if any(found.severity != "note" for found in result.findings):  # all of them are allowed
        return "known", SEVERITY_STYLE["note"]
    return "ok", "bold green"


def quality_of(result: SpecResult) -> str:
    """How many checks failed or could not run; if all passed, the worst error."""
    if result.status != "passed":
        bad = [check.status for check in result.checks if check.status != "passed"]
        codes = [found.code for found in result.findings if found.severity == "error"]
        ran = any(not code.startswith((Families.ENGINE, Families.SPEC)) for code in codes)
        verb = "failed" if "failed" in bad or ran else "could not run"
        return f"{len(bad)} of {len(result.checks)} checks {verb}" if bad else ""
    if result.unchecked:
        why = "" if result.notes else ": there is no gradient"
        return f"nothing was checked{why}"
    return "; ".join(filter(None, (_worst(result), _other_rules(result))))


OF_DIGITS = ("few digits", "some digits", "rounding", "path")
"""Rules that let a few digits go: their error counts. What another rule is about is no error."""
OF_ROUNDING = ("rounding", "path")
"""Those of them that let more than a quarter go."""
UNSAID = ("flushed", "tolerance", "error bar", "zero", "small")
"""Rules of which no finding speaks."""


def _worst(result: SpecResult) -> str:
    """The largest error among the numbers that passed by their digits, in ulps or relative."""
    known = [(off, check.dtype, rule) for check in result.checks for off, rule in _errors(check)]
    if not known:
        return ""
    far = [one for one in known if one[0] >= FEW]
    worst = max(far, key=lambda one: one[0] * 2.0 ** -PRECISION[one[1]]) if far else max(known)
    off, dtype, rule = worst
    why = ", explained by rounding" if rule in OF_ROUNDING else ""
    return f"worst error {small_or_relative(off, dtype)}{why}"


def _errors(check: Check) -> Iterator[tuple[float, str]]:
    """Errors in ulps, each with the rule by which it passed. Errors of a few ulps need no rule."""
    small = check.max_ulps is not None and check.max_ulps < FEW
    if check.max_ulps is not None and (small or not check.passed_by):
        yield check.max_ulps, ""
    for passed in check.passed_by:
        if passed.rule in OF_DIGITS and passed.ulps is not None:
            yield passed.ulps, passed.rule


def _other_rules(result: SpecResult) -> str:
    """The rules that are not about digits, by which numbers passed and which no finding
    mentions."""
    found = [one.rule for check in result.checks for one in check.passed_by]
    others = dict.fromkeys(rule for rule in found if rule in UNSAID)
    return f"passed by rule: {', '.join(others)}" if others else ""


def _uncounted(result: SpecResult) -> str:
    """The findings that do not count."""
    ignored = sum(result.ignored.values())
    parts = [f"{result.allowed} allowed"] if result.allowed else []
    parts += [f"{ignored} ignored ({', '.join(result.ignored)})"] if ignored else []
    return ", ".join(parts)


def _extent(result: SpecResult) -> str:
    """The engines, dtypes and modes that were judged."""
    checks = result.checks
    parts = (
        _distinct(check.engine for check in checks),
        _distinct(check.dtype for check in checks),
        _distinct(check.mode for check in checks),
    )
    return "; ".join(part for part in parts if part)


def _distinct(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(name for name in names if name))


def _counted_extent(result: SpecResult) -> str:
    """The number of engines and dtypes, for lines that are too short for their names."""
    engines = {check.engine for check in result.checks}
    dtypes = {check.dtype for check in result.checks}
    return f"{_count_words(engines, 'engine')}, {_count_words(dtypes, 'dtype')}"


def _count_words(names: Collection[str], noun: str) -> str:
    return f"{len(names)} {noun if len(names) == 1 else noun + 's'}"


def _fitted_line(
    mark: str, severity: str, name: str, facts: list[str], extents: Sequence[str], style: Style
) -> list[Text]:
    """One line with the first of `extents` that fits; if none does, the facts follow below the
    name."""
    for extent in extents:
        line = _head(mark, severity, name, [word for word in (*facts, extent) if word])
        if line.cell_len <= style.width:
            return [line]
    below = wrapped(
        "  ".join(word for word in (*facts, extents[0]) if word), max(style.width - _MARGIN, 24)
    )
    return [_head(mark, severity, name, []), *(Text(" " * _MARGIN + line) for line in below)]


def _head(mark: str, severity: str, name: str, words: list[str]) -> Text:
    head = Text().append(mark.ljust(_MARGIN), style=severity).append(plain(name), style=LABEL)
    return head.append("".join(f"  {plain(word)}" for word in words))


def _all_rules(result: SpecResult, style: Style) -> list[Text]:
    """For each check, the rules by which numbers passed that are more than a few ulps off."""
    from gradcheck_cli.judge.gate import RULES  # NumPy, which no other line of a report needs

    lines = []
    for check in result.checks:
        if not check.passed_by:
            continue
        where = "" if check.point is None else f" points[{check.point}]"
        who = f"{check.engine} {check.dtype} {check.mode} {check.input}{where} passed by rule"
        told = []
        for one in check.passed_by:
            noun = "entry" if one.entries == 1 else "entries"
            off = "" if one.ulps is None else f", worst: {small_or_relative(one.ulps, check.dtype)}"
            told.append(f"{one.rule}: {RULES[one.rule].says} ({one.entries} {noun}{off})")
        lines += _engine_texts(who, told, style)
    return lines


def _all_values(result: SpecResult, style: Style) -> list[Text]:
    """Every number of every engine, dtype and mode."""
    lines = []
    for one in result.readings:
        who = f"{one.engine} {one.dtype} {one.mode}"
        lines += _engine_texts(who, [reading_text(one, result.output_name)], style)
    for training in result.trainings:
        who = f"{training.engine} {training.dtype}"
        lines += _engine_texts(who, [training_text(training)], style)
    return lines


def _engine_texts(who: str, texts: Iterable[str], style: Style) -> list[Text]:
    """Texts about an engine, below its name."""
    width = max(style.width - _MARGIN - 2, 24)
    body = [line for text in texts for line in wrapped(text, width)]
    return [
        Text(" " * _MARGIN + plain(who), style=DIM),
        *(Text(" " * (_MARGIN + 2) + line) for line in body),
    ]
