"""Whether a static argument has the type that its keyword needs."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from gradcheck_cli.domain.keywords import CHOICES, KEYWORDS, KeywordType
from gradcheck_cli.formula.context import Frame
from gradcheck_cli.formula.errors import did_you_mean
from gradcheck_cli.formula.static import as_constant


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62


def _wholes(value: Any) -> bool:
    return _whole(value) or (isinstance(value, tuple) and all(map(_whole, value)))


def _pairs(value: Any) -> bool:
    return _wholes(value) or (isinstance(value, tuple) and all(map(_wholes, value)))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_FITS: dict[KeywordType, tuple[Callable[[Any], bool], str]] = {
    "whole": (_whole, "a whole number"),
    "wholes": (_wholes, "a whole number or a tuple of them"),
    "pairs": (_pairs, "a whole number, a pair, or a pair for each axis"),
    "flag": (lambda value: isinstance(value, bool), "True or False"),
    "number": (_number, "a number"),
    "exact": (_number, "a number"),
    "text": (lambda value: isinstance(value, str), 'a string such as "ij,jk->ik"'),
}


def as_argument(kind: KeywordType, value: Any) -> Any:
    """The value of a keyword; a number that takes part in the arithmetic is held as a constant of
    the formula is."""
    return as_constant(value) if kind in ("number", "exact") and _number(value) else value


def fits(frame: Frame, op: str, name: str, value: Any, part: ast.expr, usage: str) -> bool:
    """Whether `value` is of the keyword's type; a mistake is reported."""
    accepts, wanted = _FITS[KEYWORDS[name]]
    words = CHOICES.get(name)
    if accepts(value) and (words is None or value in words):
        return True
    if words is not None:
        wanted = f"{', '.join(map(quoted, words[:-1]))} or {quoted(words[-1])}"
        guess = did_you_mean(value, words) if isinstance(value, str) else ""
        usage = f"{guess} {usage}".strip()
    message = f"`{name}` of {op} must be {wanted}, not {quoted(value)}"
    frame.context.fail(part, message, usage)
    return False


def quoted(value: Any) -> str:
    """The value as one writes it in a formula."""
    return f'"{value}"' if isinstance(value, str) else repr(value)
