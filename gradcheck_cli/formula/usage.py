"""The call of an operation, as it is written in a formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gradcheck_cli.domain.keywords import KEYWORDS
from reference_engine.op import REQUIRED


class Signature(Protocol):
    """What a row and a function of several results have in common for a caller."""

    @property
    def name(self) -> str: ...

    @property
    def arrays(self) -> tuple[str, ...]: ...

    @property
    def keywords(self) -> Mapping[str, Any]: ...


def usage(row: Signature) -> str:
    """`sum(x, axis=None, keepdims=False)`; a keyword without a default stands bare, and a text
    before the arrays."""
    texts = texts_of(row)
    arrays = [
        name
        if name[0] != "*"
        else f"{name[1:]}1, {name[1:]}2, ..."
        if texts
        else f"[{name[1:]}1, {name[1:]}2, ...]"
        for name in row.arrays
    ]
    keywords = [
        name if default is REQUIRED else f"{name}={default!r}"
        for name, default in row.keywords.items()
        if name not in texts and name != "dtype"
    ]
    return f"{row.name}({', '.join([*texts, *arrays, *keywords])})"


def texts_of(row: Signature) -> list[str]:
    """The texts that stand before the arrays (the subscripts of einsum)."""
    required = [name for name, default in row.keywords.items() if default is REQUIRED]
    return [name for name in required if KEYWORDS.get(name) == "text"]
