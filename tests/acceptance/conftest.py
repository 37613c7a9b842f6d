"""Runs the specs that come with gradcheck once, as a user runs them. The modules here read the
results."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from docs import generate
from gradcheck_cli.cli import execution
from gradcheck_cli.domain.report import Report
from gradcheck_cli.report.json_report import as_json
from tests.cli.calling import Screen, call_here

ROOT = Path(__file__).parents[2]
EXAMPLES = "specs/examples"
PLANTED = "specs/planted"
LAYERS = "specs/layers/code"
ENGINES = ("reference", "torch", "tensorflow", "jax")
WITHOUT_COMPILERS = (*ENGINES, "numpy")


@dataclass(frozen=True)
class Run:
    """The results of a command: exit code, screen and JSON report."""

    code: int
    screen: str
    report: dict[str, Any]
    table: str = ""

    def result(self, spec: str) -> dict[str, Any]:
        found: dict[str, Any]
        (found,) = [result for result in self.report["results"] if result["spec"] == spec]
        return found

    def findings(self, spec: str, **where: Any) -> list[dict[str, Any]]:
        found = self.result(spec)["findings"]
        return [f for f in found if all(f[key] == value for key, value in where.items())]

    def readings(self, spec: str) -> dict[str, str]:
        """The part of the screen for each "engine dtype mode", in one line."""
        shown: dict[str, str] = {}
        inside, where = False, ""
        for line in self.screen.splitlines():
            if header := re.match(r"(?:ok|FAIL) +(\w+)", line):
                inside, where = header[1] == spec, ""
            elif block := re.fullmatch(
                r" {6}((?:reference|torch|tensorflow|jax) float\d\d.*)", line
            ):
                where = block[1]
            elif inside and where and line.startswith(" " * 8):
                shown[where] = f"{shown.get(where, '')} {line.strip()}".strip()
        return shown


def run_of(folder: Path, *arguments: str, **variables: str) -> Run:
    """Run `gradcheck ARGUMENTS` at the top of the checkout, with a report in `folder`."""
    report = folder / "report.json"
    screen = call_here(*arguments, "--report", f"json={report}", cwd=ROOT, env=variables)
    return Run(screen.code, screen.out, json.loads(report.read_text("utf-8")))


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All examples on the engines that compile nothing, with a table (`Run.table`)."""
    return examples_on(WITHOUT_COMPILERS, tmp_path_factory.mktemp("examples"))


def examples_on(engines: Sequence[str], folder: Path) -> Run:
    """The run that makes the table of all examples, on these engines."""
    *command, every = generate.MATRIX_COMMAND
    assert every == ",".join(generate.ENGINES)
    table = folder / "matrix.md"
    run = run_of(folder, *command, ",".join(engines), "-v", "--report", f"matrix={table}")
    return replace(run, table=table.read_text("utf-8"))


@pytest.fixture(scope="session")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_of(tmp_path_factory.mktemp("layers"), "run", LAYERS, "-v")


@pytest.fixture(scope="session")
def self_test() -> tuple[Screen, dict[str, Any]]:
    """The screen of `gradcheck self-test` about the planted bugs, and the report that it has
    read."""
    reports: list[Report] = []

    def kept(*given: Any) -> Report:
        reports.append(run(*given))
        return reports[-1]

    run = execution.execute
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "execute", kept)
        screen = call_here("self-test", PLANTED, cwd=ROOT)
    return screen, as_json(*reports)
