"""Lists of numbers, read at once: a YAML parser in Python takes 0.1 ms for each number."""

from __future__ import annotations

import re

from gradcheck_cli.specfile.yaml_values import MAX_DEPTH, Scalar, Sequence, resolve

# A bracket where a value stands: after a key, or after the dash of a list.
_OPENING = re.compile(r"(?<=[:-] )\[")
# White space and comments, then a sign or a word. A comment with a quote would not stay one.
_TOKEN = re.compile(r"""(?:\s|(?<=\s)#[^\n"\\]*)*(?:([][,])|([-+.\w]+))""")
_WORDS = ("inf", "+inf", "-inf", "nan")  # text, and numbers where an input is written


def find_lists(text: str) -> dict[int, Sequence]:
    """The flow lists that hold nothing but numbers and such lists, by their first offset."""
    found: dict[int, Sequence] = {}
    after = 0
    for match in _OPENING.finditer(text):
        start = match.start()
        if start < after or "#" in text[text.rfind("\n", 0, start) + 1 : start]:
            continue  # inside a list that was read, or likely in a comment
        tree = _read(text, start)
        if tree is not None:
            found[start] = tree
            after = tree.end
    return found


def without_lists(text: str, lists: dict[int, Sequence]) -> str:
    """The text with each list as one quoted scalar of the same length: nothing else moves."""
    pieces: list[str] = []
    after = 0
    for tree in lists.values():
        pieces += [text[after : tree.start], '"', text[tree.start + 1 : tree.end - 1], '"']
        after = tree.end
    return "".join([*pieces, text[after:]])


def _read(text: str, start: int) -> Sequence | None:
    """The list that begins at `start`; None if there is anything in it that is not a number."""
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
