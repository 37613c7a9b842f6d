"""The journal of a run: one line for each finished spec, so that a run that was killed can
continue."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import EngineReady, LayerUnderWay, Notice
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.wire import Malformed, as_text, of_text
from gradcheck_cli.run.contents import Contents, lasts
from gradcheck_cli.run.executor import Examined, Executor


@dataclass(frozen=True, slots=True)
class _Known:
    """The content of a line: a result, and the versions of the engines that took part."""

    result: SpecResult
    engines: Mapping[str, str]


class Journal:
    """A file of results, each found again by the contents that it depends on. A line is written in
    one step when its spec is finished. Lines that a kill cut off, and lines about other contents,
    are ignored. Raises UsageError if the file cannot be read or written."""

    def __init__(self, file: str, options: RunOptions) -> None:
        self._name = file
        self._contents = Contents(options)
        self._key_of_file = ("", "")
        self._places: dict[str, int] = {}
        try:
            self._file = open(file, "a+b", buffering=0)  # noqa: SIM115 - until `close`
            self._read_places()
        except OSError as error:
            raise UsageError(f"--resume: cannot open {file}: {error.strerror}") from error

    def _read_places(self) -> None:
        place, line = 0, b"\n"
        with open(self._file.fileno(), "rb", closefd=False) as stream:
            stream.seek(0)
            for line in stream:
                if key := _key_of(line):
                    self._places[key] = place
                place += len(line)
        if not line.endswith(b"\n"):
            self._file.write(b"\n")  # what follows is a line of its own

    def found(self, spec: Spec) -> Any | None:
        """What was added about the spec."""
        place = self._places.get(self._key(spec))
        if place is None:
            return None
        with open(self._file.fileno(), "rb", closefd=False) as stream:
            stream.seek(place)
            line = stream.readline()
        try:
            return of_text(json.loads(line)["result"])
        except (ValueError, KeyError, TypeError, Malformed):
            return None

    def add(self, spec: Spec, value: object, **words: str) -> None:
        """Adds a line about the spec. Its `words` are for people who read the file."""
        key = self._key(spec)
        line = {"key": key, "spec": spec.name, **words, "result": as_text(value)}
        left = (json.dumps(line) + "\n").encode()
        try:
            while left:  # a disk that is nearly full takes a part of it
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise UsageError(f"--resume: cannot write to {self._name}: {error.strerror}") from error

    def recall(self, spec: Spec) -> _Known | None:
        """The result of an earlier run for this spec."""
        match self.found(spec):
            case (SpecResult() as result, dict() as engines):
                return _Known(replace(result, cached=True), engines)
        return None

    def keep(self, spec: Spec, result: SpecResult, engines: Mapping[str, str]) -> None:
        """Adds a line, unless another run may find something else and the spec has to run again."""
        if not lasts(spec, result):
            return
        used = {check.engine for check in result.checks}
        versions = {name: version for name, version in engines.items() if name in used}
        self.add(spec, (result, versions), status=result.status)

    def close(self) -> None:
        self._file.close()

    def _key(self, spec: Spec) -> str:
        source = spec.source
        if self._key_of_file[0] != source.path:
            text = source.text.encode("utf-8", "surrogateescape")
            self._key_of_file = source.path, self._contents.key(source.path, text)
        parts = (self._key_of_file[1], spec.name, spec.span, self._contents.of_layers(spec))
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _key_of(line: bytes) -> str:
    """The key of a complete line; empty for any other line."""
    if not line.endswith(b"}\n"):
        return ""
    try:
        return str(json.loads(line)["key"])
    except (ValueError, KeyError, TypeError):
        return ""


class Journaled:
    """An executor that takes results from a journal. It passes all other specs on, and writes their
    results to the journal. If writing fails, as on a full disk, the run continues without it."""

    def __init__(self, executor: Executor, journal: Journal) -> None:
        self._executor = executor
        self._journal = journal
        self._known: deque[Examined | Notice] = deque()
        self._is_kept = True
        self._specs: dict[int, Spec] = {}  # under way
        self._engines: dict[str, str] = {}

    @property
    def ahead(self) -> int:
        return self._executor.ahead

    def start(self) -> None:
        self._executor.start()

    def submit(self, number: int, spec: Spec) -> None:
        known = self._journal.recall(spec)
        if known is None:
            self._specs[number] = spec
            self._executor.submit(number, spec)
            return
        self._engines |= known.engines
        self._known.append(Examined(number, known.result))

    def next(self) -> Examined | EngineReady | LayerUnderWay | Notice:
        if self._known:
            return self._known.popleft()
        message = self._executor.next()
        if isinstance(message, Examined):
            spec = self._specs.pop(message.number)
            self._keep(spec, message.result)
        return message

    def _keep(self, spec: Spec, result: SpecResult) -> None:
        try:
            if self._is_kept:
                self._journal.keep(spec, result, self.engines())
        except UsageError as error:
            self._is_kept = False  # what is written after half a line would be lost with it
            self._known.append(Notice(f"{error}; the run goes on, and cannot be resumed from here"))

    def engines(self) -> Mapping[str, str]:
        return {**self._engines, **self._executor.engines()}

    def close(self) -> None:
        self._executor.close()
        self._journal.close()

    def kill(self) -> None:
        self._executor.kill()
        self._journal.close()
