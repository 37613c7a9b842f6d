"""Calls the command line like a user, and compares whole screens with stored ones.

A stored screen (tests/cli/snapshots/NAME.txt) begins with the exit code. `make snapshots` writes
all screens again; look at the difference before you commit it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from gradcheck_cli.cli.app import app
from gradcheck_cli.cli.exits import guarded
from tests.forked_workers import forked_workers

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = bool(os.environ.get("UPDATE_SNAPSHOTS"))


@dataclass(frozen=True, slots=True)
class Screen:
    """The results of a call."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return (
            f"exit code {self.code}\n\n--- standard output\n{lasting(self.out)}"
            f"\n--- standard error\n{lasting(self.err)}"
        )


def lasting(text: str) -> str:
    """The text without seconds, and without differences and their error bars, whose last digits
    depend on the processor and its mathematical library."""
    text = re.sub(r"\b\d+(\.\d+)? s$", "N s", text, flags=re.M)
    text = re.sub(r"\S+ ± \S+ *", "VALUE ± BAR   ", text)
    text = re.sub(r"^  entry .*$", lambda line: re.sub(" {3,}", "   ", line[0]), text, flags=re.M)
    return re.sub(r" +$", "", text, flags=re.M)


def environment(**changes: str) -> dict[str, str]:
    """The tests' own environment, without settings of the person who runs them."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GRADCHECK_")
        and name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM"}
    }
    ours = {"PYTHONPATH": str(Path(__file__).parents[2]), "GRADCHECK_NO_CACHE": "1"}
    return {**kept, **ours, **changes}


def call(
    *arguments: str,
    cwd: Path,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 120,
) -> Screen:
    """Run `gradcheck ARGUMENTS` in `cwd`, without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "gradcheck_cli", *arguments],
        cwd=cwd,
        env=environment(**(env or {})),
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )
    return Screen(done.returncode, done.stdout, done.stderr)


def call_here(
    *arguments: str, cwd: Path, stdin: str | None = None, env: Mapping[str, str] | None = None
) -> Screen:
    """Like `call`, but in the tests' own process, which takes a third of the time. Click's own
    messages about a wrong call, closed streams and signals need a process
    (`gradcheck_cli.cli.app.main`)."""
    removed = dict.fromkeys(os.environ.keys() - environment().keys())
    runner = CliRunner(env={**removed, "GRADCHECK_NO_CACHE": "1", **(env or {})})
    with chdir(cwd), forked_workers(), runner.isolation(stdin) as (out, err, _):
        code = guarded(app, list(arguments))
        sys.stdout.flush()  # as a process does at its end
        sys.stderr.flush()
    return Screen(code, out.getvalue().decode(), err.getvalue().decode())


def assert_snapshot(screen: Screen, name: str) -> None:
    """Assert that the whole screen, exit code first, equals the one stored under `name`."""
    path = SNAPSHOTS / f"{name}.txt"
    if UPDATE:
        path.write_text(str(screen), "utf-8")
    assert path.is_file(), f"{path} is missing; `make snapshots` writes it"
    assert str(screen) == path.read_text("utf-8")
