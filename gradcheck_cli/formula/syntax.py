"""Text to a syntax tree, by Python's own parser. Nothing of the text is ever run."""

from __future__ import annotations

import ast
import re
import warnings

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.formula.errors import FormulaError
from gradcheck_cli.formula.place import Positions

MAX_LENGTH = 100_000
"""Characters of a formula: far above what a person writes, far below what makes the parser slow."""

# Python takes some of these for line breaks, and none of them belongs in a formula.
_ASCII_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f]"
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"

TOO_DEEP = "the formula is nested too deeply"
TOO_DEEP_HELP = "give parts of it names: z = ...; then use z"

# What Python's parser says, and what is meant for a formula.
_HINTS = (
    ("unexpected indent", "the lines of a formula are not indented"),
    ("unindent does not match", "lines of one block have the same indentation"),
    ("was never closed", "the bracket has no match"),
    ("unmatched", "the bracket has no match"),
    ("invalid character", "only the letters, digits and signs of Python"),
    ("Maybe you meant '=='", "one = assigns, two compare"),
    ("cannot assign to", "an assignment is: name = expression"),
    ("leading zeros", "write the number without leading zeros"),
)


def parse_text(text: str, positions: Positions) -> tuple[ast.Module | None, FormulaError | None]:
    """The syntax tree, or what is wrong with the text."""
    if len(text) > MAX_LENGTH:
        message = f"the formula has more than {MAX_LENGTH} characters"
        return None, FormulaError(Codes.FORMULA_SYNTAX, message, positions.at(0, 1))
    bad = re.search(_ASCII_CONTROL if text.isascii() else _CONTROL, text)
    if bad:
        span = positions.at(bad.start(), bad.end())
        message = f"the formula contains the control character U+{ord(bad[0]):04X}"
        return None, FormulaError(Codes.FORMULA_SYNTAX, message, span)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's advice on style is not the user's concern
            return ast.parse(text), None
    except SyntaxError as error:
        return None, _told(error, text, positions)
    except (RecursionError, MemoryError):
        return None, FormulaError(Codes.FORMULA_SYNTAX, TOO_DEEP, positions.at(0, 1), TOO_DEEP_HELP)


def _told(error: SyntaxError, text: str, positions: Positions) -> FormulaError:
    """Python's syntax error with its place in the file."""
    start = _offset(text, error.lineno, error.offset)
    if isinstance(error, IndentationError):
        start = _offset(text, error.lineno, 1)
        start += len(text[start:]) - len(text[start:].lstrip())
    end = _offset(text, error.end_lineno, error.end_offset)
    message = error.msg.split(" (<unknown>")[0]
    if "too many nested" in message or "too complex" in message:
        return FormulaError(
            Codes.FORMULA_SYNTAX, TOO_DEEP, positions.at(start, start + 1), TOO_DEEP_HELP
        )
    help = next((hint for word, hint in _HINTS if word in error.msg), "")
    if "digits" in message and "limit" in message:
        message = "a number has too many digits"
    if re.search(r"\bif\b|\belse\b", text[start:end]) and not help:
        help = "a choice between values is written where(condition, a, b)"
    span = positions.at(start, max(end, start + 1))
    reason = "" if message == "invalid syntax" else f": {message}"
    return FormulaError(Codes.FORMULA_SYNTAX, f"not valid syntax{reason}", span, help)


def _offset(text: str, line: int | None, column: int | None) -> int:
    """The offset of a line and column (from 1, in characters), inside the text."""
    lines = text.split("\n")
    row = min(max((line or 1) - 1, 0), len(lines) - 1)
    start = sum(len(before) + 1 for before in lines[:row])
    # Column 0 or -1 is Python's way to say that it knows the line only.
    return start + min(max((column or 1) - 1, 0), len(lines[row]))
