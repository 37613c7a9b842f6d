"""Right and broken specs: every mistake must have a place, and nothing may be an internal error.

Right specs are drawn from the schema, so that a new key is tried at once, or taken from the shipped
ones. Most are then damaged, as a tree or as text. All are read as `validate` reads them. Some of
the right ones run on the reference engine, and each must have a verdict.
"""

from __future__ import annotations

import io
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from gradcheck_cli import specfile
from gradcheck_cli.cli.app import app
from gradcheck_cli.cli.exits import guarded
from gradcheck_cli.domain.report import SpecError
from tests.fuzz.damage import DAMAGES, shorter
from tests.fuzz.driver import Finding, drawn, shrunk
from tests.fuzz.running import Runner
from tests.fuzz.sampling import json_or_yaml, sampled

SHIPPED = tuple(
    path.read_text("utf-8")
    for folder in ("examples", "planted")
    for path in sorted((Path(__file__).parents[2] / "specs" / folder).glob("*.yaml"))
)
SLOW_S = 10.0  # of this process: a file of a kilobyte takes some milliseconds
_SCREENED = 20  # every so many are given to the command line as well: its screens are slow
_NOTHING = ("", "null", "Null", "NULL")
_RUN = 12  # every so many right ones are run
_RUN_SECONDS = 20.0  # for the spec that is run: what a damaged recipe asks for may be large


class Slow(BaseException):
    """The time limit has passed."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Slow inside the block after this much processor time. Only works in the main thread."""

    def strike(number: int, frame: object) -> None:
        raise Slow

    before = signal.signal(signal.SIGVTALRM, strike)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Specs:
    """The fuzzer of spec files."""

    name = "specs"

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self._runner = Runner(("reference",), only=True)

    def __enter__(self) -> Specs:
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.__exit__()

    def input(self, seed: int, index: int) -> str:
        rng = drawn(seed, self.name, index)
        text = str(rng.choice(SHIPPED)) if rng.random() < 0.4 else json_or_yaml(rng, sampled(rng))
        for _ in range(int(rng.integers(0, 4))):
            text = DAMAGES[int(rng.integers(len(DAMAGES)))](rng, text)
        return text

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        runnable: list[tuple[int, str]] = []
        for index in indices:
            text = self.input(seed, index)
            fault = self.fault(text, screened=index % _SCREENED == 0)
            if fault:
                small = shrunk(text, shorter, lambda t: self.fault(t, screened=True) != "", 200)
                yield Finding(index, fault, small)
            elif self._right and index % _RUN == 0:
                runnable.append((index, text))
        yield from self._run(runnable)

    def fault(self, text: str, *, screened: bool) -> str:
        """The fault in how a text is read, in a sentence."""
        try:
            with within(SLOW_S):
                specs, mistakes = specfile.read("input.yaml", text)
        except Slow:
            return f"read takes more than {SLOW_S:g} s"
        except Exception as error:
            return f"read raises {type(error).__name__}: {error}"
        self._right = bool(specs) and not mistakes
        self.counted["right" if self._right else "with mistakes"] += 1
        for mistake in mistakes:
            if lack := _lacking(mistake, text):
                return f"{mistake.code} {mistake.message!r} {lack}"
        if not specs and not mistakes:
            return "neither a spec nor a mistake"
        return _screen_fault(text) if screened else ""

    def _run(self, chosen: Sequence[tuple[int, str]]) -> Iterator[Finding]:
        """Check that every right spec has a verdict on the reference engine."""
        for index, text in chosen:
            specs, _ = specfile.read("input.yaml", text)
            if any(spec.implementations for spec in specs):
                continue
            self.counted["run"] += 1
            try:
                results = self._runner.of(specs, timeout=_RUN_SECONDS)
            except Exception as error:
                yield Finding(index, f"the run raises {type(error).__name__}: {error}", text)
                continue
            for result in results:
                codes = {finding.code for finding in result.findings}
                silent = not (result.checks or result.findings or result.notes)
                if silent and not result.unchecked:
                    yield Finding(index, f"`{result.spec}` has no verdict", text)
                if codes & {"GC701", "GC702", "GC706"}:
                    told = [f.message for f in result.findings if f.code.startswith("GC70")]
                    yield Finding(index, f"{sorted(codes)}: {told[0]}", text)


def _lacking(mistake: SpecError, text: str) -> str:
    """The fault of a mistake that lacks a place in the text or a message; empty if it has both."""
    span = mistake.span
    if mistake.path != "input.yaml":
        return f"is about {mistake.path}"
    if span is None:  # of the file as a whole, where there is nothing in it to point at
        written = [line for line in text.splitlines() if line.strip("\ufeff \t-.~") not in _NOTHING]
        return (
            "" if all(line.lstrip().startswith(("#", "%")) for line in written) else "has no place"
        )
    lines = len(text.splitlines()) + 1
    if span.line < 1 or span.column < 1 or span.line > lines:
        return f"is at line {span.line}, column {span.column} of {lines} lines"
    return "" if mistake.message else "says nothing"


def _screen_fault(text: str) -> str:
    """The fault if the command line does not survive the text."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "input.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        out, err = io.StringIO(), io.StringIO()
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = guarded(app, ["validate", str(path)])
        except BaseException as error:
            return f"validate raises {type(error).__name__}: {error}"
    told = out.getvalue() + err.getvalue()
    if code not in (0, 2) or "Traceback" in told:
        return f"validate ends with exit code {code}: {told[-400:]}"
    if code == 2 and "input.yaml" not in told:
        return f"validate names no place: {told[-400:]}"
    return ""
