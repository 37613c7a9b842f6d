"""The values of a YAML text, each with its place, and the meaning of plain scalars."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import field
from typing import Any

from gradcheck_cli.domain.records import dataclass

MAX_DEPTH = 50


@dataclass(slots=True)
class Scalar:
    """A number, text, true, false or null; `text` is its content as written, `style` its quotes."""

    start: int
    end: int
    value: Any
    text: str
    style: str | None


@dataclass(slots=True)
class Sequence:
    start: int
    end: int
    items: list[Tree] = field(default_factory=list)


@dataclass(slots=True)
class Mapping:
    """`keys` and `values` by the text of the key."""

    start: int
    end: int
    keys: dict[str, Scalar] = field(default_factory=dict)
    values: dict[str, Tree] = field(default_factory=dict)


Tree = Scalar | Sequence | Mapping


def as_python(tree: Tree) -> Any:
    """The tree as Python objects: dict, list, str, int, float, bool, None."""
    if isinstance(tree, Scalar):
        return tree.value
    if isinstance(tree, Sequence):
        return [as_python(item) for item in tree.items]
    return {key: as_python(value) for key, value in tree.values.items()}


# YAML 1.2.2, section 10.3.2, the core schema.
_INT = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_INFINITY = re.compile(r"[-+]?\.(inf|Inf|INF)\Z")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_DIGITS = 400  # an integer with more digits begins with zeros


def resolve(text: str) -> Any:
    """The value of a plain scalar in the core schema: `1e-3` is a number and `no` is text. `1e999`
    is text, too, because no floating-point format can hold it."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INT.match(text) or _FLOAT.match(text):
        number = float(text)
        if math.isinf(number):
            return text
        return int(text) if _INT.match(text) and len(text) < _DIGITS else number
    if _HEX.match(text) or _OCTAL.match(text):
        whole = int(text[2:], 16 if text[1] == "x" else 8)
        return whole if whole <= sys.float_info.max else text
    if _INFINITY.match(text):
        return float("-inf" if text[0] == "-" else "inf")
    return text
