"""A derivation as readable text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from gradcheck_cli.domain.derivation import Derivation, Section
from gradcheck_cli.report.style import DIM, LABEL, Style, plain, wrapped

_INDEX = re.compile(r"\[[^]]*\]")  # `[0, 1]`, which no line is to end in
_GLUE = "\N{OPEN BOX}"


def derivation_lines(name: str, derivation: Derivation, style: Style) -> list[Text]:
    """The name, and each section with its equations. Long equations are wrapped."""
    lines = [Text(plain(name), style=LABEL)]
    for section in derivation.sections:
        lines += [Text(), Text(f"  {section.title}", style=DIM)]
        for equation in section.equations:
            origin = f"{equation.origin} = " if equation.origin else ""
            lines += _hanging(f"{equation.left} = {origin}{equation.right}", style)
        lines += [Text(f"    {told}", style=DIM) for told in _remarks(section, style.dots)]
    return lines


def _hanging(text: str, style: Style) -> list[Text]:
    glued = _INDEX.sub(lambda index: index[0].replace(" ", _GLUE), text)
    lines = [line.replace(_GLUE, " ") for line in wrapped(glued, max(style.width - 8, 24))]
    return [Text(f"    {lines[0]}"), *(Text(f"        {line}") for line in lines[1:])]


def _remarks(section: Section, dots: str) -> Sequence[str]:
    more = [f"{dots} {section.more} more"] if section.more else []
    return [*more, *([section.note] if section.note else [])]


def derivation_latex(name: str, derivation: Derivation) -> str:
    """An `align*` for each section. Texts that are not mathematics are comments."""
    parts = [f"% {plain(name)}"]
    for section in derivation.sections:
        parts.append("\n".join(f"% {line}" for line in (section.title, *_remarks(section, "..."))))
        rows = []
        for equation in section.equations:
            origin = rf"{equation.origin} \\ &= " if equation.origin else ""
            rows.append(f"  {equation.left} &= {origin}{equation.right}")
        if rows:
            parts.append("\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}")
    return "\n".join(parts) + "\n"
