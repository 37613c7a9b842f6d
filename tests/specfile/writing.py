"""Short ways to write spec tests: text in, a spec or its mistakes out."""

from __future__ import annotations

from textwrap import dedent

from gradcheck_cli.domain.report import SpecError
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.specfile import read


def spec(text: str) -> Spec:
    """The only spec of a text without mistakes."""
    (found,), errors = read("specs/a.yaml", dedent(text))
    assert errors == []
    return found


def mistakes(text: str) -> list[str]:
    """All mistakes, each as "code line:column-end key: message"."""
    specs, errors = read("specs/a.yaml", dedent(text))
    assert specs == []
    return [told(error) for error in errors]


def told(error: SpecError) -> str:
    """One mistake on one line."""
    span = error.span
    where = "-"
    if span is not None:
        end = f"{span.end_line}:{span.end_column}" if span.end_line > span.line else span.end_column
        where = f"{span.line}:{span.column}-{end}"
    key = f" {error.key}:" if error.key else ""
    return f"{error.code} {where}{key} {error.message}"


def helps(text: str) -> list[str]:
    """The suggestions of what to write instead, one for each mistake."""
    return [error.help for error in read("specs/a.yaml", dedent(text))[1]]


def pointed(text: str) -> list[str]:
    """The stretch of the file under each mistake's caret, up to the end of its first line."""
    found: list[str] = []
    for error in read("specs/a.yaml", dedent(text))[1]:
        assert error.span is not None
        assert error.source is not None
        line = error.source.line(error.span.line)
        same = error.span.end_line == error.span.line
        found.append(line[error.span.column - 1 : error.span.end_column - 1 if same else None])
    return found
