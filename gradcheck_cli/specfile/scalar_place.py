"""The place in the file of each character of a YAML scalar, for every scalar style."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.domain.place import Span
from gradcheck_cli.specfile.text import Lines
from gradcheck_cli.specfile.yaml_values import Scalar

_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_CODES = {"x": 2, "u": 4, "U": 8}


class ScalarPlace:
    """Maps ranges of the content of a scalar to the file: `place(start, end) -> Span`.

    Folding, indentation and quoting change only white space, and escapes replace one character by
    several. All other characters appear in both texts in the same order and define the map. The
    ends of a range are mapped to the nearest of them.
    """

    def __init__(self, scalar: Scalar, text: str, lines: Lines) -> None:
        self._lines = lines
        raw = text[scalar.start : scalar.end]
        marks = _characters(raw, scalar.style)
        self._starts: list[int] = []
        self._ends: list[int] = []
        after = scalar.start
        for character in scalar.text:
            if character.isspace():
                # White space has no place of its own: it stands right after what is before it.
                self._starts.append(after)
                self._ends.append(after + 1)
                continue
            found, start, end = next(marks)
            assert found == character, (found, character)
            after = scalar.start + end
            self._starts.append(scalar.start + start)
            self._ends.append(after)
        self._starts.append(after)

    def __call__(self, start: int, end: int) -> Span:
        """The place of characters `start` to `end` (exclusive) of the content. An empty range gets
        one column."""
        first = self._starts[min(start, len(self._starts) - 1)]
        if end <= start or not self._ends:
            return self._lines.span(first, first + 1)
        return self._lines.span(first, max(self._ends[min(end, len(self._ends)) - 1], first + 1))


def _characters(raw: str, style: str | None) -> Iterator[tuple[str, int, int]]:
    """The characters of the scalar that are not white space, with their offsets in the raw text."""
    if style == '"':
        yield from _joined_surrogates(_double_quoted(raw))
        return
    index, end = 0, len(raw)
    if style in ("|", ">"):
        index = len(raw.splitlines(keepends=True)[0])  # the header, with its comment
    elif style == "'":
        index, end = 1, len(raw) - 1
    while index < end:
        width = 2 if style == "'" and raw[index] == "'" else 1
        if not raw[index].isspace():
            yield raw[index], index, index + width
        index += width


def _joined_surrogates(
    characters: Iterator[tuple[str, int, int]],
) -> Iterator[tuple[str, int, int]]:
    """Joins the two halves in which JSON escapes a character. A single half becomes U+FFFD."""
    first: tuple[str, int, int] | None = None
    for character, start, end in characters:
        if first is not None:
            if first[2] == start and "\udc00" <= character <= "\udfff":
                both = (first[0] + character).encode("utf-16", "surrogatepass").decode("utf-16")
                yield both, first[1], end
                first = None
                continue
            yield "\ufffd", first[1], first[2]
            first = None
        if "\ud800" <= character <= "\udbff":
            first = character, start, end
        else:
            yield "\ufffd" if "\udc00" <= character <= "\udfff" else character, start, end
    if first is not None:
        yield "\ufffd", first[1], first[2]


def _double_quoted(raw: str) -> Iterator[tuple[str, int, int]]:
    index, end = 1, len(raw) - 1
    while index < end:
        character, width = raw[index], 1
        if character == "\\":
            letter = raw[index + 1]
            digits = _CODES.get(letter, 0)
            width = 2 + digits
            if digits:
                character = chr(int(raw[index + 2 : index + width], 16))
            else:
                character = _ESCAPES.get(letter, letter)
        if not character.isspace():
            yield character, index, index + width
        index += width
