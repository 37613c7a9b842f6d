"""`gradcheck self-test`: planted bugs, each of which must raise exactly its code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

import gradcheck_cli
from gradcheck_cli.cli.option_types import Number
from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for, talk
from gradcheck_cli.cli.words import counted
from gradcheck_cli.domain.codes import CODES
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.records import dataclass

if TYPE_CHECKING:
    from gradcheck_cli.domain.report import Report, SpecError, SpecResult
    from gradcheck_cli.domain.spec import Spec

_PACKAGE = Path(gradcheck_cli.__file__).parent
# In a checkout the specs are next to the package, in an installed wheel inside it.
FOLDERS = (_PACKAGE.parent / "specs" / "planted", _PACKAGE / "specs" / "planted")
_EXPECT = re.compile(r"^#\s*expect:\s*(GC\d{3})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One planted bug: the expected code, the codes that were found, and whether these are right.

    `right` is None if the spec could not run.
    """

    path: str
    expected: str
    found: tuple[str, ...]
    right: bool | None
    remark: str = ""


@click.command()
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False))
@color_option
@click.option(
    "--timeout", type=Number(min=0, min_open=True), help="Time limit in seconds, per engine."
)
def command(folder: str | None, color: str | None, timeout: float | None) -> int:
    """Run planted bugs and check that each is found, and nothing else.

    The bugs come with gradcheck, or are the specs of FOLDER. A comment `# expect: GC302` in each
    spec says what must be found.
    """
    from gradcheck_cli.run.workers.launch import prewarm

    prewarm()
    from gradcheck_cli.report.console import print_lines
    from gradcheck_cli.report.table import table_lines

    prepare_streams()
    plants = planted(Path(folder) if folder else _shipped())
    outcomes = compare_outcomes(plants, _report(plants, timeout))
    style = style_for(sys.stdout, color)
    words = {True: "ok", False: "WRONG", None: "not run"}
    rows = [
        [words[one.right], one.expected, ", ".join(one.found) or "-", one.path, one.remark]
        for one in outcomes
    ]
    header = ["", "expected", "found", "spec", "remark"]
    print_lines(sys.stdout, style, table_lines(header, rows, style, wrap=(2, 4)))
    wrong = sum(one.right is False for one in outcomes)
    skipped = sum(one.right is None for one in outcomes)
    talk(
        f"{counted(len(outcomes), 'planted bug')}: {len(outcomes) - wrong - skipped} as expected, "
        f"{wrong} wrong, {skipped} not run"
    )
    return _code(outcomes)


def _code(outcomes: list[Outcome]) -> int:
    from gradcheck_cli.cli.exits import FOUND, NOTHING_CHECKED, PASSED

    if any(one.right is False for one in outcomes):
        return FOUND
    return PASSED if any(one.right for one in outcomes) else NOTHING_CHECKED


def _shipped() -> Path:
    for folder in FOLDERS:
        if folder.is_dir():
            return folder
    raise UsageError("the planted specs are missing from this installation")


def planted(folder: Path) -> dict[str, str]:
    """The specs of a folder, and the code that each must raise. Raises UsageError for a spec
    without one."""
    plants: dict[str, str] = {}
    for path in sorted(folder.glob("*.yaml")):
        expected = _EXPECT.search(path.read_text("utf-8"))
        if expected is None or expected[1] not in CODES:
            raise UsageError(f"{path}: no comment `# expect: CODE` with a known code")
        plants[str(path)] = expected[1]
    return plants


def _report(plants: Iterable[str], timeout: float | None) -> Report:
    from gradcheck_cli.cli.execution import execute, read_specs
    from gradcheck_cli.domain.options import Layered, RunOptions
    from gradcheck_cli.engines.registry import engines

    here = {name for name, found in engines().items() if found.installed}
    errors: list[SpecError] = []
    specs = (spec for spec in read_specs(plants, errors) if _needed_engines(spec) <= here)
    options = RunOptions(timeout=Layered(override=timeout))
    return execute(specs, options, (), errors, "gradcheck self-test")


def _needed_engines(spec: Spec) -> set[str]:
    """The engines that a spec cannot run without."""
    return {*(spec.engines or ()), *(layer.engine for layer in spec.implementations)}


def compare_outcomes(plants: dict[str, str], report: Report) -> list[Outcome]:
    """Compare every planted bug with the findings of its specs."""
    results: dict[str, list[SpecResult]] = {}
    for result in report.results:
        results.setdefault(result.source.path, []).append(result)
    errors: dict[str, list[SpecError]] = {}
    for error in report.errors:
        errors.setdefault(error.path, []).append(error)
    return [
        _outcome(path, expected, results.get(path, []), errors.get(path, []))
        for path, expected in plants.items()
    ]


def _outcome(
    path: str, expected: str, results: list[SpecResult], errors: list[SpecError]
) -> Outcome:
    findings = [finding for result in results for finding in result.findings]
    grave = {f.code for f in findings if f.severity != "note"} | {e.code for e in errors}
    notes = {f.code for f in findings if f.severity == "note"}
    raised = tuple(sorted(grave | notes))
    name = Path(path).name
    if not any(result.checks or result.findings for result in results) and not errors:
        return Outcome(name, expected, raised, None, "the engine that it needs is not installed")
    requested = notes if CODES[expected].severity == "note" and not grave else grave
    return Outcome(name, expected, raised, requested == {expected})
