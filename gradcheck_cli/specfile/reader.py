"""Reads a spec file: returns the specs of all valid documents, and every mistake in the others."""

from __future__ import annotations

import os
from collections.abc import Mapping as Keys
from dataclasses import field, replace
from pathlib import Path as FilePath

from pydantic_core import ValidationError

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.place import STDIN, Source, Span
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import SpecError
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.specfile import model, problems
from gradcheck_cli.specfile.collect import Collector, listed, visible
from gradcheck_cli.specfile.meaning import Meaning, known_keys
from gradcheck_cli.specfile.text import Lines, checked, first_line, load
from gradcheck_cli.specfile.yaml_tree import Document, Problem, documents
from gradcheck_cli.specfile.yaml_values import Mapping, Scalar, Sequence, Tree, as_python

MAX_ERRORS = 100
"""A file with more mistakes has one mistake many times."""

_KEY = "defaults"
_LISTS = ("allow", "by_design")
"""Lists that a spec adds to, and does not replace."""
_OF_LAYERS = ("by_design", "power", "setup", "surrogate")
"""Keys that say something about layers; a formula of the same file does without them."""


def read(
    path: str, text: str | None = None, *, first: int = 1, margin: int = 0, seed: int = 0
) -> tuple[list[Spec], list[SpecError]]:
    """The specs of one file, and everything that is wrong with it.

    `path` is the file as the user wrote it, "-" for standard input. If `text` is given it is read
    instead, with `first` and `margin` as in Source. A document with a mistake yields no spec, but
    all of its errors. The other documents still yield their specs, up to a YAML syntax error, after
    which nothing can be read. `seed` is the seed of recipes without one. Raises nothing: all
    problems with the file are in the list of errors.
    """
    source = load(path) if text is None else checked(Source(path, text, first, margin))
    if isinstance(source, SpecError):
        return [], [source]
    lines = Lines(source.text, first, margin)
    whole = [document for document in documents(source.text) if not _is_empty(document)]
    if not whole:
        help = "a spec needs at least `inputs` and `model`"
        span = _first_content(lines, source.text) or first_line(source)
        message = "there is no spec in this file"
        return [], [SpecError(Codes.YAML_SYNTAX, path, message, span, source, help=help)]
    stem = "stdin" if path == STDIN else _stem(path)
    specs: list[Spec] = []
    errors: list[SpecError] = []
    names: dict[str, Span] = {}
    defaults = _Defaults()
    if _is_defaults(whole[0].root) and not whole[0].problems:
        assert whole[0].root is not None
        defaults = _read_defaults(Collector(source, lines, whole[0].root, errors))
        errors.sort(key=_place)
        whole = whole[1:]
        if not whole:
            help = "below `---`, a spec with `inputs` and `model`"
            message = "this file has defaults, but no spec"
            errors.append(SpecError(Codes.YAML_SYNTAX, path, message, None, source, help=help))
    for number_, document in enumerate(whole, start=1):
        reader = _Reader(source, lines, document, defaults, seed)
        spec = reader.read(stem if len(whole) == 1 else f"{stem}#{number_}")
        if spec is not None and spec.name in names:
            message = f"two specs in this file are called {spec.name}"
            help = f"the first is on line {names[spec.name].line}"
            reader.errors.append(
                SpecError(Codes.SPEC_SCHEMA, path, message, spec.span, source, "name", help)
            )
        elif spec is not None:
            names[spec.name] = spec.span
            specs.append(spec)
        told = {(error.span, error.message) for error in errors}  # mistakes of the defaults
        new = [error for error in reader.errors if (error.span, error.message) not in told]
        errors += sorted(new, key=_place)
    return specs, _first_errors(errors)


def _first_errors(errors: list[SpecError]) -> list[SpecError]:
    """As many mistakes as a person can use, and how many more there are."""
    more = len(errors) - MAX_ERRORS
    if more <= 0:
        return errors
    last = errors[MAX_ERRORS]
    return [*errors[:MAX_ERRORS], replace(last, message=f"and {more} more mistakes", help="")]


def _stem(path: str) -> str:
    """The name of the file as the name of a spec. Bytes that are not UTF-8 (half characters here)
    and control characters are escaped."""
    text = os.fsencode(FilePath(path).stem.removesuffix(".gradcheck"))
    name = text.decode("utf-8", errors="backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def _first_content(lines: Lines, text: str) -> Span | None:
    """The first line that contains more than a comment, a directive or a document marker, or None.
    YAML reads `&a`, `~` and `!!null` as nothing."""
    start = 0
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        if stripped and not stripped.startswith(("#", "%")) and stripped not in ("---", "..."):
            begin = start + line.index(stripped)
            return lines.span(begin, begin + len(stripped))
        start += len(line)
    return None


def _is_empty(document: Document) -> bool:
    root = document.root
    return not document.problems and isinstance(root, Scalar) and root.value is None


def _place(error: SpecError) -> tuple[int, int]:
    return (error.span.line, error.span.column) if error.span is not None else (0, 0)


class _Reader:
    """Reads one document. Errors are collected in `errors`, and each step uses the results of the
    previous one."""

    def __init__(
        self, source: Source, lines: Lines, document: Document, defaults: _Defaults, seed: int
    ) -> None:
        self._source = source
        self._lines = lines
        self._document = document
        self._defaults = defaults
        self._seed = seed
        self.errors: list[SpecError] = []

    def read(self, default_name: str) -> Spec | None:
        """The spec, or None after any error."""
        for problem in self._document.problems:
            self._tell(problem)
        if self._document.root is None:
            return None
        root = self._document.root
        if isinstance(root, Mapping):
            root = self._defaults.merged(root)
        collector = Collector(self._source, self._lines, root, self.errors)
        collector.shared = {key: self._defaults.count(key) for key in _LISTS}
        data = as_python(root)
        if isinstance(data, dict) and data.pop(_KEY, None) is not None:
            message = "`defaults` must be the only key, in the first document of a file"
            help = "`---` on a line of its own ends a document"
            collector.add(message, (_KEY,), at_key=True, help=help)
        if not isinstance(data, dict):
            message = (
                f"a spec is a mapping of keys, not {problems.value_words(self._document.root)}"
            )
            collector.add(message, (), help=f"keys: {listed(known_keys())}")
            return None
        spec = Meaning(collector, data, self._seed).spec(default_name)
        return None if self.errors else spec

    def _tell(self, problem: Problem) -> None:
        span = self._lines.span(problem.start, max(problem.end, problem.start + 1))
        help = problem.help
        if problem.first is not None:
            first = self._lines.span(problem.first, problem.first)
            help = f"its first occurrence is on line {first.line}, column {first.column}"
        self.errors.append(
            SpecError(
                Codes.YAML_SYNTAX,
                self._source.path,
                visible(problem.message),
                span,
                self._source,
                help=help,
            )
        )


def _is_defaults(root: Tree | None) -> bool:
    """Whether a document has the key `defaults` and is not a spec."""
    return isinstance(root, Mapping) and list(root.keys) == [_KEY]


@dataclass(frozen=True, slots=True)
class _Defaults:
    """The defaults for all specs of a file, from its first document if `defaults` is its only key.

    Its valid keys and values are inserted into the trees of the other documents, and keep their own
    places. All other code that reads a spec therefore knows nothing of defaults.
    """

    keys: Keys[str, Scalar] = field(default_factory=dict)
    values: Keys[str, Tree] = field(default_factory=dict)

    def merged(self, root: Mapping) -> Mapping:
        """The tree of a spec with the defaults for all keys that it lacks."""
        tree = Mapping(root.start, root.end, dict(root.keys), dict(root.values))
        layers = "implementations" in root.keys
        for key, value in self.values.items():
            if key in _OF_LAYERS and not layers:
                continue
            own = tree.values.get(key)
            if key == "surrogate":
                tree.values["implementations"] = self._with_surrogate(
                    tree.values["implementations"]
                )
            elif own is None:
                tree.keys[key], tree.values[key] = self.keys[key], value
            elif key in _LISTS and isinstance(own, Sequence) and isinstance(value, Sequence):
                tree.values[key] = Sequence(own.start, own.end, [*value.items, *own.items])
        return tree

    def _with_surrogate(self, layers: Tree) -> Tree:
        """The implementations. Those without a surrogate get the default one."""
        if not isinstance(layers, Mapping):
            return layers
        tree = Mapping(layers.start, layers.end, dict(layers.keys))
        for engine, form in layers.values.items():
            table = form
            if isinstance(form, Scalar):
                table = Mapping(form.start, form.end, {"target": form}, {"target": form})
            if isinstance(table, Mapping) and "surrogate" not in table.keys:
                table = Mapping(table.start, table.end, dict(table.keys), dict(table.values))
                table.keys["surrogate"] = self.keys["surrogate"]
                table.values["surrogate"] = self.values["surrogate"]
            tree.values[engine] = table
        return tree

    def count(self, key: str) -> int:
        """How many entries of a list in a spec come from the defaults. They stand first."""
        value = self.values.get(key)
        return len(value.items) if isinstance(value, Sequence) else 0


def _read_defaults(collector: Collector) -> _Defaults:
    """The defaults of a document. Values with a mistake go to the collector and are left out."""
    root = collector.root
    assert isinstance(root, Mapping)
    bad: set[str] = set()
    try:
        model.defaults_validator().validate_python(as_python(root))
    except ValidationError as error:
        mistakes = problems.report(error, collector, model.defaults_schema())
        if (_KEY,) in mistakes:
            return _Defaults()
        bad = {str(path[1]) for path in mistakes}
    table = root.values[_KEY]
    if not isinstance(table, Mapping):
        return _Defaults()
    good = [key for key in table.keys if key not in bad]
    return _Defaults(
        {key: table.keys[key] for key in good}, {key: table.values[key] for key in good}
    )
