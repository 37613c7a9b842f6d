"""The place in the file: an arrow, the source line, a caret."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from gradcheck_cli.domain.place import COMMAND_LINE, Source, Span
from gradcheck_cli.report.style import FRAME, Style, plain, wrapped

TAB = "    "


def place(path: str, span: Span | None) -> str:
    """`path:line:column`, as editors and terminals understand it. The spec that a command line
    makes has no lines that its user has seen."""
    if span is None or path == COMMAND_LINE:
        return plain(path)
    return f"{plain(path)}:{span.line}:{span.column}"


def window(
    path: str, source: Source | None, span: Span | None, detail: str, caret: str, style: Style
) -> list[Text]:
    """The arrow and, if the source is known, the line with a caret and `detail` beside it.

    `caret` is the style of the caret line. A line wider than the screen is cut around the caret.
    """
    arrow_place = place(path, span)
    line = source.line(span.line) if source and span else ""
    number = str(span.line) if span else ""
    if span and path == COMMAND_LINE:  # what was typed, of the line that was made of it
        line, number = line[span.column - 1 : span.end_column - 1].strip('"'), ""
        span = Span(1, 1, 1, len(line) + 1)
    gutter = max(len(number), 3)
    arrow = Text(" " * (gutter - 1)).append("--> ", style=FRAME).append(arrow_place)
    if span is None or not line.strip():
        rest = wrapped(detail, max(style.width - gutter - 3, 24)) if detail else []
        return [arrow, *(Text(" " * (gutter + 3) + text) for text in rest)]
    shown, start, length = _visible_part(line, span, max(style.width - gutter - 3, 20), style)
    bar = Text(" " * (gutter + 1)).append("|", style=FRAME)
    numbered = Text().append(number.rjust(gutter), style=FRAME).append(" | ", style=FRAME)
    return [
        arrow,
        bar,
        numbered.append(shown),
        *_carets(gutter, start, length, detail, caret, style),
    ]


def _carets(
    gutter: int, start: int, length: int, detail: str, caret: str, style: Style
) -> list[Text]:
    margin = " " * (gutter + 1)
    room = style.width - gutter - 3
    line = Text(margin).append("|", style=FRAME).append(" " * (start + 1))
    line.append("^" * length, style=caret)
    beside = room - start - length - 1
    if detail and cell_len(plain(detail)) <= beside and "\n" not in detail:
        return [line.append(" ").append(plain(detail), style=caret)]
    below = wrapped(detail, max(room, 24)) if detail else []
    return [
        line,
        *(Text(margin).append("| ", style=FRAME).append(text, style=caret) for text in below),
    ]


def _visible_part(line: str, span: Span, room: int, style: Style) -> tuple[str, int, int]:
    """The part of `line` that fits, with the first cell and the number of cells of the caret."""
    begin = min(span.column - 1, len(line))
    end = min(span.end_column - 1, len(line)) if span.end_line == span.line else len(line)
    before, marked, after = (
        plain(part.replace("\t", TAB)) for part in (line[:begin], line[begin:end], line[end:])
    )
    if cell_len(before + marked + after) > room:
        before, marked, after = _clip(before, marked, after, room, style.dots)
    return before + marked + after, cell_len(before), max(cell_len(marked), 1)


def _clip(before: str, marked: str, after: str, room: int, dots: str) -> tuple[str, str, str]:
    keep = max(room - 2 * len(dots), 8)
    if cell_len(marked) > keep:
        marked = _fit(marked, keep) + dots
    left = max((keep - cell_len(marked)) // 2, 0)
    if cell_len(before) > left:
        tail = _fit(before[::-1], left)[::-1]
        before = dots + tail if len(tail) < len(before) else before
    rest = max(keep - cell_len(before) - cell_len(marked), 0)
    if cell_len(after) > rest:
        after = _fit(after, rest) + dots
    return before, marked, after


def _fit(text: str, cells: int) -> str:
    """The longest beginning of `text` that is at most `cells` wide."""
    width = 0
    for position, character in enumerate(text):
        width += cell_len(character)
        if width > cells:
            return text[:position]
    return text
