"""Layers that nobody would want in his own process: each is a finding, and the others stand."""

from __future__ import annotations

import pytest

from gradcheck_cli import specfile
from gradcheck_cli.domain.events import Finished
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import Finding, SpecResult
from gradcheck_cli.run.session import run
from tests.forked_workers import forked_workers

LAYERS = """
import ctypes, os, sys, time
import torch

def helper(x):
    return torch.nn.functional.linear(x, torch.ones(7, 9))

def raises(x):
    return helper(x)

def exits(x):
    sys.exit("no more")

def interrupts(x):
    raise KeyboardInterrupt

def shouts(x):
    for _ in range(50):
        print("o" * 1_000_000)
        print("e" * 1_000_000, file=sys.stderr)
    return torch.sin(x)

def crashes_in_float32(x):
    if x.dtype == torch.float32:
        ctypes.string_at(0)
    return torch.sin(x)

def asks_for_too_much(x):
    return x + torch.ones(10**13)

def loops(x):
    while x.dtype == torch.float32:
        time.sleep(0.1)
    return torch.sin(x)
"""
NAMES = (
    "raises",
    "exits",
    "interrupts",
    "shouts",
    "asks_for_too_much",
    "crashes_in_float32",
    "loops",
)
BUILT_IN = ("input", "exit", "ord")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SpecResult]:
    """All in one run: a torch that is imported again costs seconds."""
    folder = tmp_path_factory.mktemp("isolation")
    (folder / "layers.py").write_text(LAYERS, "utf-8")
    (folder / "leaves.py").write_text("import sys\nsys.exit(5)\n", "utf-8")
    targets = {name: f"layers.py:{name}" for name in NAMES} | {"leaves": "leaves.py:layer"}
    targets |= {name: f"builtins:{name}" for name in BUILT_IN}
    texts = [
        f"name: {name}\ninputs: {{x: [[0.5, 2.0]]}}\nimplementations: {{torch: '{target}'}}\n"
        f"timeout: {12 if name == 'loops' else 60}\n"
        for name, target in targets.items()
    ]
    (folder / "all.yaml").write_text("---\n".join(texts), "utf-8")
    specs, errors = specfile.read(str(folder / "all.yaml"))
    assert not errors
    with forked_workers():
        *_, last = run(specs, RunOptions(modes=Layered(override=("reverse",))))
    assert isinstance(last, Finished)
    return {result.spec: result for result in last.report.results}


def found(result: SpecResult) -> dict[str | None, Finding]:
    """The errors of a spec by dtype."""
    return {f.dtype: f for f in result.findings if f.severity == "error"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "code", "message", "line"),
    [
        ("raises", "GC701", "RuntimeError: mat1 and mat2 shapes cannot be", "in helper"),
        ("exits", "GC701", "`layers.py:exits` called sys.exit(no more)", "in exits"),
        ("interrupts", "GC701", "KeyboardInterrupt", "raise KeyboardInterrupt"),
        ("leaves", "GC701", "`leaves.py:layer` called sys.exit(5)", "in <module>"),
        ("asks_for_too_much", "GC704", "RuntimeError: ", "torch.ones(10**13)"),
    ],
)
def test_what_a_layer_raises_is_told_with_its_own_lines(
    results: dict[str, SpecResult], name: str, code: str, message: str, line: str
) -> None:
    findings = found(results[name])
    assert set(findings) == {"float32", "float64"}
    for finding in findings.values():
        assert finding.code == code
        assert finding.message.startswith(message)
        assert line in finding.detail
        assert "gradcheck_cli" not in finding.detail
        assert len(finding.detail.splitlines()) < 12


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("input", "`builtins:input` raised EOFError: "),
        ("exit", "`builtins:exit` raised SystemExit: "),
        ("ord", "`builtins:ord` raised TypeError: "),
    ],
)
def test_what_has_no_lines_in_python_is_named_and_no_lines_of_ours_are_shown(
    results: dict[str, SpecResult], name: str, message: str
) -> None:
    findings = found(results[name])
    assert set(findings) == {"float32", "float64"}
    for finding in findings.values():
        assert finding.code == "GC701"
        assert finding.message.startswith(message)
        assert "File" not in finding.detail


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("crashes_in_float32", "GC702", "the worker process was killed by SIGSEGV"),
        ("loops", "GC703", "gave no answer within 12 s"),
    ],
)
def test_what_a_layer_loses_in_one_dtype_it_keeps_in_the_other(
    results: dict[str, SpecResult], name: str, code: str, message: str
) -> None:
    findings = found(results[name])
    assert set(findings) == {"float32"}
    assert findings["float32"].code == code
    assert findings["float32"].message.startswith(message)
    passed = {check.dtype for check in results[name].checks if check.status == "passed"}
    assert passed == {"float64"}


def test_a_crash_names_the_users_line(results: dict[str, SpecResult]) -> None:
    assert "in crashes_in_float32" in found(results["crashes_in_float32"])["float32"].detail


def test_a_timeout_points_at_the_users_line(results: dict[str, SpecResult]) -> None:
    place = found(results["loops"])["float32"].place
    assert place is not None
    assert place.text in ("while x.dtype == torch.float32:", "time.sleep(0.1)")


def test_a_flood_of_prints_changes_nothing(results: dict[str, SpecResult]) -> None:
    assert results["shouts"].status == "passed"
    assert {check.dtype for check in results["shouts"].checks} == {"float32", "float64"}
