from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradcheck_cli.domain.place import Source
from gradcheck_cli.domain.report import SpecError
from gradcheck_cli.report.problems import in_repository, problems

from . import samples


def test_findings_that_say_the_same_are_one_problem_and_the_worst_come_first() -> None:
    found = problems(samples.everything())
    assert [(p.severity, p.code, p.spec, p.who) for p in found] == [
        ("error", "GC905", "", ""),
        ("error", "GC201", "reciprocal_exp", "torch, tensorflow float32 reverse"),
        ("error", "GC101", "dense", "reference, torch, tensorflow float64 reverse"),
        ("note", "GC401", "relu_at_zero", "reference, torch, tensorflow float64 reverse"),
    ]
    assert [len(p.findings) for p in found] == [0, 2, 3, 3]


def test_a_problem_is_at_its_cause() -> None:
    found = samples.nan_finding("torch")
    assert found.cause is not None
    backward = replace(found.cause, source=Source("src/layer.py", "y = 1 / exp(x)\n" * 9))
    result = replace(samples.reciprocal_exp(), findings=(replace(found, cause=backward),))
    (problem,) = problems(samples.report(result))
    assert (problem.path, problem.span) == ("src/layer.py", found.cause.span)
    assert problem.message.splitlines() == [
        "the gradient is nan, and the truth is a number",
        "overflows float32: exp(100) = 2.69e+43 > 3.40e+38",
    ]


def test_no_two_problems_have_the_same_fingerprint() -> None:
    report = samples.report(samples.reciprocal_exp(), samples.reciprocal_exp())
    assert [problem.fingerprint for problem in problems(report)] == ["a1b2c3", "a1b2c3-2"]


@pytest.mark.parametrize(
    ("message", "same"), [("no name `epx`", True), ("unknown operation `abz`", False)]
)
def test_a_mistake_is_known_by_what_it_names_and_not_by_its_wording(
    message: str, same: bool
) -> None:
    def fingerprint(message: str) -> str:
        error = SpecError("GC905", "a.yaml", message, key="model")
        (problem,) = problems(replace(samples.report(), errors=(error,)))
        return problem.fingerprint

    assert (fingerprint("unknown operation `epx`") == fingerprint(message)) is same


def test_paths_are_those_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert in_repository("a.yaml") == "sub/a.yaml"
    assert in_repository("../b.yaml") == "b.yaml"
    assert in_repository(str(tmp_path / "src" / "layer.py")) == "src/layer.py"
    assert in_repository("/elsewhere/layer.py") == "/elsewhere/layer.py"
    assert in_repository("-") is None
    assert in_repository("command line") is None


def test_without_a_repository_paths_begin_at_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert in_repository(str(tmp_path / "a.yaml")) == "a.yaml"
