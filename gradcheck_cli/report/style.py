"""The style of a screen: width, colour, symbols, and verbosity."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rich.cells import cell_len
from rich.text import Text

from gradcheck_cli.domain.records import dataclass

SIGNS = "±…"  # what a stream must be able to encode, else ASCII stands in


@dataclass(frozen=True, slots=True)
class Style:
    """`width` is in cells. `unicode` is False if the encoding of the stream lacks SIGNS."""

    width: int
    color: bool = False
    unicode: bool = True
    verbose: bool = False
    quiet: bool = False

    @property
    def plus_minus(self) -> str:
        return "±" if self.unicode else "+/-"

    @property
    def dots(self) -> str:
        return "…" if self.unicode else "..."


SEVERITY_STYLE = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
FRAME = "blue"
LABEL = "bold"
DIM = "dim"


def plain(text: str) -> str:
    """A user's text with control characters made visible, so that it cannot steer the terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if not _steers(character) else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def _steers(character: str) -> bool:
    # Cc: escape sequences; Cf: among others the marks that reverse the order of a line
    return unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp", "Cs"}


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells.

    Lines break at spaces. A word that is longer than a line (a path, a command) is not broken.
    """
    lines: list[str] = []
    for paragraph in plain_lines(text):
        line = ""
        for word in paragraph.split(" "):
            joined = f"{line} {word}" if line else word
            if line and cell_len(joined) > width:
                lines.append(line)
                line = word
            else:
                line = joined
        lines.append(line)
    return lines


def plain_lines(text: str) -> list[str]:
    return [plain(line) for line in text.splitlines()] or [""]


def labelled(
    label: str, text: str, style: Style, indent: int = 2, column: int = 6, whole: bool = False
) -> list[Text]:
    """` why text`, wrapped with a hanging indent. A text that will be copied as a `whole` is not
    wrapped."""
    margin = indent + column
    body = [text] if whole else wrapped(text, max(style.width - margin, 24))
    head = Text(" " * indent)
    head.append(label.ljust(column), style=LABEL)
    head.append(body[0])
    return [head, *(Text(" " * margin + line) for line in body[1:])]


def unlabelled(lines: Iterable[Text]) -> list[tuple[str, str]]:
    """The labels and texts of `labelled` lines, with wrapped texts joined again."""
    parts: list[tuple[str, str]] = []
    for line in lines:
        label, text = line.plain[:8].strip(), line.plain[8:]
        if label or not parts:
            parts.append((label, text))
        else:
            parts[-1] = parts[-1][0], f"{parts[-1][1]}\n{text}"
    return parts
