"""The page: a summary, filters, and a section for each spec, failed ones first.

The template escapes every text, after control characters were made visible. A page stays below
BUDGET: later specs have no pictures, then no details, and the page says how many.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gradcheck_cli.domain.report import Report, SpecError, SpecResult
from gradcheck_cli.report.blocks import code_name
from gradcheck_cli.report.curve import CURVE_STYLE
from gradcheck_cli.report.graph_svg import STYLE as GRAPH_STYLE
from gradcheck_cli.report.html.section import WORDS, section
from gradcheck_cli.report.numbers import seconds
from gradcheck_cli.report.status import mark_of
from gradcheck_cli.report.style import plain_lines
from gradcheck_cli.report.summary import finding_counts, set_aside_words, status_count, summary_line
from gradcheck_cli.report.window import TAB, place

BUDGET = 4_500_000
"""Bytes. Browsers open more, but mail and code review do not."""
_WITH_PICTURES = 0.7  # of it
_ROW = 700  # bytes of a spec without details

_ORDER = ("error", "warning", "note", "ok")


def page(report: Report) -> str:
    """A whole file."""
    order = sorted(
        enumerate(report.results), key=lambda one: _ORDER.index(WORDS[mark_of(one[1])[0]][1])
    )
    sections, left_out = _within_budget([(number, result) for number, result in order])
    template = _environment().get_template("page.html")
    return template.render(
        report=report,
        style=style(),
        script=_part("page.js"),
        headline=_headline(report),
        summary=summary_line(report).plain,
        set_aside=set_aside_words(report),
        seconds=seconds(report.duration_s),
        tiles=_tiles(report),
        codes=[(code, code_name(code), n) for code, n in finding_counts(report).items()],
        engines=list(dict.fromkeys(c.engine for r in report.results for c in r.checks)),
        sections=sections,
        left_out=left_out,
        errors=[_error(error) for error in report.errors],
    )


def spec_html(result: SpecResult) -> str:
    """The section of one spec with its style, for a notebook."""
    made = _rendered(section(result, 0))
    return f'<div class="gradcheck"><style>{style()}</style>{made}</div>'


def style() -> Markup:
    """The style sheet of a page."""
    return Markup(_part("style.css") + GRAPH_STYLE + CURVE_STYLE)


def _within_budget(ordered: list[tuple[int, SpecResult]]) -> tuple[list[Markup], dict[str, int]]:
    """The sections, and how many of them have no pictures or no details."""
    sections: list[Markup] = []
    left_out = {"pictures": 0, "details": 0}
    size = 0
    for written, (number, result) in enumerate(ordered):
        room = BUDGET - _ROW * (len(ordered) - written) - size
        made = _rendered(section(result, number)) if size < BUDGET * _WITH_PICTURES else None
        if made is None or len(made.encode()) > room * _WITH_PICTURES:
            left_out["pictures"] += 1
            made = _rendered(section(result, number, pictures=False))
        if len(made.encode()) > room:
            left_out["details"] += 1
            made = _rendered(section(result, number, pictures=False), details=False)
        size += len(made.encode())
        sections.append(made)
    return sections, left_out


def _rendered(values: dict[str, Any], details: bool = True) -> Markup:
    template = _environment().get_template("spec.html")
    return Markup(template.render(spec=values, details=details))


def _headline(report: Report) -> str:
    specs = len(report.results)
    bad = status_count(report, "failed") + status_count(report, "error")
    noun = "spec" if specs == 1 else "specs"
    if report.errors and not specs:
        return "No spec could be read"
    if not specs:
        return "Nothing was checked"
    if not bad:
        return f"All {specs} {noun} passed" if specs > 1 else "The spec passed"
    return f"{bad} of {specs} {noun} failed"


def _tiles(report: Report) -> list[tuple[str, int, str]]:
    """The words, counts and colours of the summary bar."""
    counts: dict[tuple[str, str], int] = {}
    for result in report.results:
        word = WORDS[mark_of(result)[0]]
        counts[word] = counts.get(word, 0) + 1
    if report.errors:
        noun = "mistake" if len(report.errors) == 1 else "mistakes"
        counts[f"{noun} in files", "error"] = len(report.errors)
    tiles = [(word, count, tone) for (word, tone), count in counts.items()]
    return sorted(tiles, key=lambda tile: _ORDER.index(tile[2]))


def _error(error: SpecError) -> dict[str, Any]:
    line = error.source.line(error.span.line) if error.source and error.span else ""
    return {
        "code": error.code,
        "name": code_name(error.code),
        "place": place(error.path, error.span),
        "message": error.message,
        "help": error.help,
        "line": line,
    }


def _visible(value: object) -> object:
    """A user's text with control characters made visible. Markup is made here and passes
    unchanged."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return "\n".join(plain_lines(value.replace("\t", TAB)))


def _with_code(text: str) -> Markup:
    """A message with the text between backticks as code."""
    escaped = str(escape(_visible(text)))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("gradcheck_cli.report.html"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _with_code
    return environment


@cache
def _part(name: str) -> Markup:
    environment = _environment()
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])
