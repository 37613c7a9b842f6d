"""Collects every mistake of one document, each with its place and the path of its key."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.report import SpecError
from gradcheck_cli.specfile.text import Lines
from gradcheck_cli.specfile.yaml_values import Mapping, Scalar, Sequence, Tree

Path = tuple[str | int, ...]
"""The way to a value: keys, and the places in lists."""


class Collector:
    """The mistakes found so far in one document of a file."""

    def __init__(self, source: Source, lines: Lines, root: Tree, errors: list[SpecError]) -> None:
        self.source = source
        self.lines = lines
        self.root = root
        self.errors = errors
        self.shared: dict[str, int] = {}
        """How many entries of a list, the first ones, are defaults of the file."""

    def add(
        self,
        message: str,
        path: Path,
        *,
        code: str = Codes.SPEC_SCHEMA,
        at_key: bool = False,
        help: str = "",
    ) -> None:
        """Adds an error at the value of `path`, or at its key. If the path does not exist, the
        error stands at its nearest existing ancestor."""
        key, value = locate(self.root, path)
        tree = key if at_key and key is not None else value
        self.add_at(code, message, self.span(tree), path, help)

    def add_at(self, code: str, message: str, span: Span, path: Path, help: str) -> None:
        """Adds an error at a known place."""
        self.errors.append(
            SpecError(
                code,
                self.source.path,
                visible(message),
                span,
                self.source,
                visible(dotted(path)),
                visible(help),
            )
        )

    def span(self, tree: Tree) -> Span:
        """The place of a value. For a block of keys: the place of its first key, because carets
        need a single line."""
        if isinstance(tree, Mapping) and tree.keys:
            first = next(iter(tree.keys.values()))
            if tree.start == first.start:
                return self.lines.span(first.start, first.end)
        return self.lines.span(tree.start, max(tree.end, tree.start + 1))


def visible(text: str) -> str:
    """The text with control characters escaped, which quoted YAML may contain and a terminal would
    obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def locate(root: Tree, path: Path) -> tuple[Scalar | None, Tree]:
    """The last key of the path, and its value. If the path does not exist, its last part that
    exists."""
    key: Scalar | None = None
    tree = root
    for part in path:
        if isinstance(tree, Mapping) and part in tree.keys:
            key, tree = tree.keys[str(part)], tree.values[str(part)]
        elif isinstance(tree, Sequence) and isinstance(part, int) and part < len(tree.items):
            key, tree = None, tree.items[part]
        else:
            break
    return key, tree


def dotted(path: Path) -> str:
    """("points", 1, "x") as "points[1].x"."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def listed(choices: Iterable[object]) -> str:
    """The choices as part of a sentence."""
    return ", ".join(str(choice) for choice in choices)
