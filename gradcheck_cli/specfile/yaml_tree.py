"""Parses YAML 1.2 to a tree of values with their places, and avoids the known traps of YAML.

The parser of ruamel.yaml yields events, which are composed here. No loader offers everything that a
spec needs: places of keys and values, all duplicate keys, limits on depth and aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.specfile.yaml_values import MAX_DEPTH, Mapping, Scalar, Sequence, Tree, resolve

MAX_ALIASED = 10_000
"""How many values aliases may add to one file. A billion laughs needs more, a person does not."""

MAX_EVENTS = 20_000
"""Keys, values and ends of collections in one file, without lists of numbers: 2 s of parsing."""

# A bracket where a value stands: after a key, or after the dash of a list.
_OPENING = re.compile(r"(?<=[:-] )\[")
# White space and comments, then a sign or a word. A comment with a quote would not stay one.
_TOKEN = re.compile(r"""(?:\s|(?<=\s)#[^\n"\\]*)*(?:([][,])|([-+.\w]+))""")
_WORDS = ("inf", "+inf", "-inf", "nan")  # text, and numbers where an input is written


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem from offset `start` to `end`. `first` is the first place of a duplicate key."""

    message: str
    start: int
    end: int
    help: str = ""
    first: int | None = None


@dataclass(slots=True)
class Document:
    """One YAML document; `root` is None if its syntax is invalid."""

    root: Tree | None
    problems: list[Problem]


class _Broken(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def documents(text: str) -> list[Document]:
    """Every document of the text. Nothing can be read after a document with invalid syntax."""
    lists = find_lists(text)
    if lists:
        composer = _Composer(text, lists)
        whole = _compose(composer)
        if composer.lists_met == len(lists) and whole and whole[-1].root is not None:
            return whole
        # Some list was part of a comment or of a text, or the syntax is broken: read it all.
    return _compose(_Composer(text, {}))


def _compose(composer: _Composer) -> list[Document]:
    composed: list[Document] = []
    while True:
        composer.problems = []
        try:
            root = composer.document()
        except _Broken as broken:
            composed.append(Document(None, [*composer.problems, broken.problem]))
            return composed
        if root is None:
            return composed
        composed.append(Document(root, composer.problems))


class _Composer:
    """Makes trees from the events of the parser. `lists` are already parsed, by their first
    offsets."""

    def __init__(self, text: str, lists: dict[int, Sequence]) -> None:
        from ruamel.yaml import YAML

        self.problems: list[Problem] = []
        self.lists_met = 0
        self._text = text
        self._lists = lists
        parsed = _without_lists(text, lists)
        self._events: Iterator[Any] = YAML(typ="safe", pure=True).parse(parsed)
        self._count = 0
        self._anchors: dict[str, tuple[Tree, int]] = {}
        self._aliased = 0
        self._next_event()  # the start of the stream

    def _next_event(self) -> Any:
        self._count += 1
        try:
            event = next(self._events)
        except Exception as error:  # the parser also raises ValueError and OverflowError
            raise _Broken(_syntax(error, self._text)) from error
        if self._count > MAX_EVENTS:
            start = event.start_mark.index
            message = f"the file has more than {MAX_EVENTS} keys and values"
            raise _Broken(Problem(message, start, start + 1))
        return event

    def document(self) -> Tree | None:
        """The root of the next document; None at the end of the text."""
        event = self._next_event()
        if type(event).__name__ == "StreamEndEvent":
            return None
        version = event.version
        if version is not None and tuple(version) != (1, 2):
            mark = event.start_mark.index
            raise _Broken(Problem("a spec is YAML 1.2", mark, mark + 1, "remove the %YAML line"))
        self._anchors = {}
        root, _ = self._value(self._next_event(), 0)
        self._next_event()  # the end of the document
        return root

    def _value(self, event: Any, depth: int) -> tuple[Tree, int]:
        """The value that begins with `event`, and how many values it contains."""
        start, end = event.start_mark.index, event.end_mark.index
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._alias(event.anchor, start, end)
        if depth > MAX_DEPTH:
            message = f"nested more than {MAX_DEPTH} levels deep"
            raise _Broken(Problem(message, start, start + 1))
        if event.tag is not None:
            self.problems.append(
                Problem(
                    f"the tag `{_written_tag(self._text, start)}` is not allowed",
                    start,
                    end,
                    "a spec has no tags: write the value alone",
                )
            )
        if event.anchor is not None or event.tag is not None:
            # The parser counts the anchor and the tag to the value; a place in its text does not.
            properties = _PROPERTIES.match(self._text, start, max(start, end))
            start = properties.end() if properties else start
        tree: Tree
        size = 1
        if kind == "ScalarEvent" and start in self._lists and event.style == '"':
            tree = self._lists[start]
            size = _node_count(tree)
            self.lists_met += 1
        elif kind == "ScalarEvent":
            text = self._joined_surrogates(event.value, start, end)
            value = resolve(text) if event.style is None else text
            tree = Scalar(start, end, value, text, event.style)
        elif kind == "SequenceStartEvent":
            tree, size = self._sequence(start, end, depth)
        else:
            tree, size = self._mapping(start, end, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (tree, size)
        return tree, size

    def _joined_surrogates(self, text: str, start: int, end: int) -> str:
        r"""The text with the two halves joined in which JSON escapes a character
        (`\ud83d\ude00`). A single half is a problem."""
        if not _HALF.search(text):
            return text
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if whole.count("\ufffd") > text.count("\ufffd"):
            help = "JSON writes such a character as two escapes, and YAML as one: `\\U0001f600`"
            self.problems.append(Problem("an escape is half a character", start, end, help))
        return whole

    def _sequence(self, start: int, end: int, depth: int) -> tuple[Sequence, int]:
        tree = Sequence(start, end)
        size = 1
        while type(event := self._next_event()).__name__ != "SequenceEndEvent":
            item, held = self._value(event, depth + 1)
            tree.items.append(item)
            size += held
        tree.end = _end(event, tree.items, end)
        return tree, size

    def _mapping(self, start: int, end: int, depth: int) -> tuple[Mapping, int]:
        tree = Mapping(start, end)
        size = 1
        while type(event := self._next_event()).__name__ != "MappingEndEvent":
            key, _ = self._value(event, depth + 1)
            value, held = self._value(self._next_event(), depth + 1)
            size += held + 1
            self._enter(tree, key, value)
        tree.end = _end(event, [*tree.keys.values(), *tree.values.values()], end)
        return tree, size

    def _enter(self, tree: Mapping, key: Tree, value: Tree) -> None:
        """Adds one pair to a mapping, or reports why it is not allowed."""
        if not isinstance(key, Scalar) or not isinstance(key.value, str):
            shown = "a list or a mapping"
            if isinstance(key, Scalar):
                shown = f"`{key.text}`" if key.text else "empty"
            message = f"a key must be a word, not {shown}"
            self.problems.append(Problem(message, key.start, key.end))
        elif key.text == "<<" and key.style is None:
            message = "merge keys (`<<`) are not part of YAML 1.2"
            help = "write the keys out, or give an anchor to one whole value"
            self.problems.append(Problem(message, key.start, key.end, help))
        elif key.text in tree.keys:
            first = tree.keys[key.text].start
            message = f"duplicate key `{key.text}`"
            self.problems.append(Problem(message, key.start, key.end, first=first))
        else:
            tree.keys[key.text] = key
            tree.values[key.text] = value

    def _alias(self, anchor: str, start: int, end: int) -> tuple[Tree, int]:
        if anchor not in self._anchors:
            message = f"the alias `*{anchor}` has no finished anchor `&{anchor}` before it"
            help = "a formula that begins with `*` needs a block: `model: |`"
            raise _Broken(Problem(message, start, end, help))
        tree, size = self._anchors[anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            message = f"aliases repeat more than {MAX_ALIASED} values: refused"
            raise _Broken(Problem(message, start, end, "write the values out"))
        return tree, size


_HALF = re.compile("[\ud800-\udfff]")
_PROPERTIES = re.compile(r"(?:[&!]\S*|\s+|(?<=\s)#.*)*")


def _end(event: Any, children: list[Any], start: int) -> int:
    """The end of a collection: its closing bracket, or the end of its last child (not the next
    line)."""
    index, after = event.start_mark.index, event.end_mark.index
    if after > index:
        return int(after)
    return max((child.end for child in children), default=start)


def _node_count(tree: Tree) -> int:
    return 1 + sum(_node_count(item) for item in tree.items) if isinstance(tree, Sequence) else 1


def _written_tag(text: str, start: int) -> str:
    match = re.compile(r"\S*").search(text, text.find("!", start))
    return match[0] if match and match[0].startswith("!") else "!"


_HINTS = (
    ("'\\t'", "YAML does not indent by tabs: use spaces"),
    (
        "'@'",
        "a formula that begins with `@` needs a block: `model: |` and the text on the next lines",
    ),
    ("'`'", "text that begins with a backquote needs quotes"),
    ("'%'", "text that begins with `%` needs quotes"),
    ("mapping values are not allowed", "text with `: ` in it needs quotes or a block: `model: |`"),
    ("found unexpected end of stream", "a quote is opened and never closed"),
    ("expected ',' or", "a bracket is opened and never closed, or a comma is missing"),
    ("expected <block end>", "this line is not indented like the lines before it"),
    ("could not find expected ':'", "every line here needs `key: value`"),
)


def _syntax(error: Exception, text: str) -> Problem:
    """An exception of the YAML parser as a message with its place."""
    problem = str(getattr(error, "problem", None) or error)
    context = getattr(error, "context", None)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    start = min(mark.index if mark is not None else 0, len(text))
    help = next((hint for word, hint in _HINTS if word in problem), "")
    message = f"{context}: {problem}" if context else problem
    more = "; what follows in this file was not read" if "\n---" in text[start:] else ""
    return Problem(f"not valid YAML: {message}{more}", start, start + 1, help)


def find_lists(text: str) -> dict[int, Sequence]:
    """The flow lists that contain only numbers and such lists, by their first offset. They are
    parsed here, because a YAML parser in Python takes 0.1 ms for each number."""
    lists: dict[int, Sequence] = {}
    after = 0
    for match in _OPENING.finditer(text):
        start = match.start()
        if start < after or "#" in text[text.rfind("\n", 0, start) + 1 : start]:
            continue  # inside a list that was read, or likely in a comment
        tree = _read_numbers(text, start)
        if tree is not None:
            lists[start] = tree
            after = tree.end
    return lists


def _without_lists(text: str, lists: dict[int, Sequence]) -> str:
    """The text with each list replaced by a quoted scalar of the same length, so that all offsets
    stay the same."""
    pieces: list[str] = []
    after = 0
    for tree in lists.values():
        pieces += [text[after : tree.start], '"', text[tree.start + 1 : tree.end - 1], '"']
        after = tree.end
    return "".join([*pieces, text[after:]])


def _read_numbers(text: str, start: int) -> Sequence | None:
    """The list that begins at `start`; None if it contains anything except numbers."""
    outermost = Sequence(start, start)
    open_lists = [outermost]
    position = start + 1
    item_next = True
    while match := _TOKEN.match(text, position):
        position = match.end()
        sign, number = match.group(1, 2)
        if sign == ",":
            if item_next:
                return None
            item_next = True
        elif sign == "]":
            open_lists.pop().end = position
            if not open_lists:
                return outermost
            item_next = False
        elif not item_next or len(open_lists) >= MAX_DEPTH:
            return None
        elif sign == "[":
            tree = Sequence(match.start(1), position)
            open_lists[-1].items.append(tree)
            open_lists.append(tree)
        else:
            value = resolve(number)
            if value is None or (isinstance(value, str) and value not in _WORDS):
                return None
            open_lists[-1].items.append(Scalar(match.start(2), position, value, number, None))
            item_next = False
    return None
