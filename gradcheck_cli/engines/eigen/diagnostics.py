"""A compiler's messages in readable form: its first error, at a line of the user's file."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from gradcheck_cli.domain.evaluation import FailureKind
from gradcheck_cli.domain.place import Place, Source, Span
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.errors import EngineFault

_RECORD = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+)(?::(?P<column>\d+))?: +"
    r"(?:(?P<kind>fatal error|error|warning|note): )?(?P<says>.*)$"
)
_ERRORS = ("error", "fatal error")
_UNDERLINE = re.compile(r"[~^]+")
_WORD = re.compile(r"\w+|.")
_SCALAR = "AutoDiffScalar<"
_PLAIN = re.compile(r"(Eigen::)?Matrix<(float|double), \d+, 1(, \d+)*> *&?")
# Storage order and largest sizes, which usually follow from the other parameters; 1 means rows.
_STORAGE = re.compile(r"((?:Matrix|Array)<[^<>]*, -?\d+, -?\d+), (\d+), -?\d+, -?\d+>")
_NOTES = 6  # most notes about the user's own file under an error
_UNDEDUCED = re.compile(r"couldn.t (deduce|infer) template (parameter|argument)|Eigen::Ref\b")
_OURS = Path(__file__).parent
_REQUIREMENT = re.compile(r" due to requirement '.*': ")  # Clang: the whole condition
_NOTHING = re.compile(r"\bvoid\b.*(expression|incomplete)")  # "incomplete type" is Clang's
_RESULT = re.compile(r"no matching function for call to .result(<T>)?(\((?P<what>.*)\))?.$")


class CompileError(EngineFault):
    """The compiler's first error. `line` is a line of the translation unit, if the error is there;
    `place` is in the user's file; `kind` is "missing-output" if a layer returns no T."""

    def __init__(
        self,
        message: str,
        detail: str,
        line: int | None,
        place: Place | None = None,
        kind: FailureKind = "raised",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.detail = detail
        self.line = line
        self.place = place


@dataclass(slots=True)
class _Record:
    """One message of the compiler about a place, and the lines of source below it. `kind` is empty
    for the steps that led there (GCC: "required from")."""

    file: str
    line: int
    column: int
    kind: str
    says: str
    below: list[str]

    @property
    def is_error(self) -> bool:
        return self.kind in _ERRORS


def first_error(text: str, source: Path, theirs: Collection[Path]) -> CompileError:
    """The first error in the compiler's output about `source`. `theirs` are the user's files. If
    the error is in none of them, its place is the line that led to it, or the function that was to
    be called."""
    records = _records(text)
    at = next((i for i, record in enumerate(records) if record.is_error), None)
    if at is None:
        words = (text.strip().splitlines() or ["the compiler failed without a message"])[0]
        return CompileError(f"it does not compile: {words}", text, None)
    error = records[at]
    start = at
    while start and not records[start - 1].kind:
        start -= 1
    end = next((i for i in range(at + 1, len(records)) if records[i].is_error), len(records))
    about = (error, *records[start:at], *records[at + 1 : end])
    own = next((record for record in about if Path(record.file).resolve() in theirs), None)
    mine = Path(error.file).name == source.name
    ours = mine or Path(error.file).parent == _OURS
    place = None if own is None else _place(own)
    failed, says = _failure_of(error, ours)
    where = "" if ours or place else f" ({error.file}:{error.line})"
    detail = [] if ours or own is error else [f"in {error.file}:{error.line}"]
    if not place and not (ours and theirs):  # nothing else shows where the error is
        detail = [f"{error.file}:{error.line}: {error.kind}: {error.says}", *error.below]
    detail += _notes(records[at + 1 : end], source, theirs)
    return CompileError(
        f"it does not compile: {says}{where}",
        "\n".join(detail),
        error.line if mine else None,
        place,
        failed,
    )


def _failure_of(error: _Record, ours: bool) -> tuple[FailureKind, str]:
    """How a layer fails, and the text of the error. An error in `ours` is about the layer's
    result."""
    says = _REQUIREMENT.sub(": ", readable(error.says))
    if ours and _NOTHING.search(says):
        return "missing-output", "the layer returns nothing: is a `return` missing?"
    if ours and (given := _RESULT.match(says)):
        kind = f", {given['what']}," if given["what"] else ""  # Clang does not tell
        what = f"its result{kind} is neither a T nor an array of T"
        return "missing-output", f"{what} (for an object to call, write name{{}})"
    return "raised", says


def _records(text: str) -> list[_Record]:
    records: list[_Record] = []
    for line in text.splitlines():
        told = _RECORD.match(line)
        if told:
            file, number, column, kind, says = told.groups()
            records.append(_Record(file, int(number), int(column or 1), kind or "", says, []))
        elif records and line.startswith(" "):
            records[-1].below.append(line)
    return records


def _notes(records: Sequence[_Record], source: Path, theirs: Collection[Path]) -> list[str]:
    """The compiler's notes about the user's functions: which they are, and why they do not fit."""
    lines: list[str] = []
    own = False
    for record in records:
        if record.kind != "note" or record.says.startswith("in instantiation of"):
            continue
        in_theirs = Path(record.file).resolve() in theirs
        reason = own and record.says.startswith("  ")  # of the candidate before it
        own = in_theirs or (own and Path(record.file).name == source.name)
        if own and (in_theirs or reason) and not record.says.endswith("failed:"):
            where = f"{Path(record.file).name}:{record.line}: " if in_theirs else "  "
            lines.append(f"{where}{readable(record.says.strip())}")
    if any(map(_UNDEDUCED.search, lines)):
        lines = [*lines[: _NOTES - 1], "if T cannot be deduced, write name<T> in the spec"]
    return lines[:_NOTES]


def readable(text: str) -> str:
    """The message with `T` for the scalar that is differentiated, `AutoDiffScalar<...>` for an
    expression of it, and matrices with only the parameters that one writes."""
    made, rest = "", text
    while _SCALAR in rest:
        before, _, after = rest.partition(_SCALAR)
        inside, after = _balanced(after)
        before = before.removesuffix("Eigen::")
        made += before + ("T" if _PLAIN.fullmatch(inside.strip()) else f"{_SCALAR}...>")
        rest = after
    made += rest
    while (shorter := _STORAGE.sub(_without_storage, made)) != made:
        made = shorter
    return made.replace(" >", ">").replace("‘::", "‘")


def _balanced(text: str) -> tuple[str, str]:
    """The text before the closing bracket, and the text after it."""
    depth = 1
    for i, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if depth == 0:
            return text[:i], text[i + 1 :]
    return text, ""


def _without_storage(found: re.Match[str]) -> str:
    kind, order = found.groups()
    usual = "1" if ", 1, " in kind and not kind.endswith(", 1") else "0"
    return f"{kind}>" if order == usual else f"{kind}, {order}>"


def _place(record: _Record) -> Place | None:
    """The stretch that the compiler underlines, or the word that it points at."""
    from gradcheck_cli.engines.layer.source_lines import displayed_path

    try:
        text = Path(record.file).read_text("utf-8", "replace")
    except OSError:
        return None
    source = Source(displayed_path(record.file), text)
    line = source.line(record.line)
    begin, end = _underlined(record, line)
    span = Span(record.line, begin + 1, record.line, end + 1)
    return Place(source, span, line[begin:end])


def _underlined(record: _Record, line: str) -> tuple[int, int]:
    """The first and last columns of the underlined stretch, from 0."""
    point = min(record.column - 1, max(len(line) - 1, 0))
    for shown, marked in zip(record.below, record.below[1:], strict=False):
        margin = len(shown) - len(line)
        if "^" not in marked or margin < 0:
            continue
        for run in _UNDERLINE.finditer(marked):
            if run.start() <= margin + point < run.end():
                return max(run.start() - margin, 0), min(run.end() - margin, len(line))
    word = _WORD.match(line, point)
    return point, word.end() if word else point + 1
