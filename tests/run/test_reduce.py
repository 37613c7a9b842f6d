"""Formulas become smaller as long as their finding stays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gradcheck_cli.cli.reduce import _spec
from gradcheck_cli.domain.events import Finished
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Entry, Finding, Report
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.report.repro.script import script
from gradcheck_cli.run import reduce as reducing
from gradcheck_cli.run.reduce import TOGETHER, _finding_to_keep, reduce, smaller
from gradcheck_cli.run.workers.pool import Pool
from gradcheck_cli.specfile import read
from tests.conftest import spec_of
from tests.report.repro.cases import FINDING

pytestmark = pytest.mark.usefixtures("forked")

TEXT = "sum(1 / exp(x) * y) + 3 * sum(sin(y))"
PLANTED = Path(__file__).parents[2] / "specs" / "planted" / "GC110.yaml"
OPTIONS = RunOptions(engines=Layered(override=("torch",)), dtypes=Layered(override=("float32",)))


def test_operations_go_first_then_entries_then_digits() -> None:
    made = list(smaller("exp(x) * y", spec_of("exp(x) * y", {"x": [1.25, 2.5], "y": [3.0, 4.0]})))
    texts = [text for text, _ in made]
    assert texts[:3] == ["y", "x * y", "exp(x)"]
    assert texts[3:] == ["exp(x) * y"] * (len(texts) - 3)
    assert "y" not in made[2][1].inputs
    assert [one.value.tolist() for one in made[3][1].inputs.values()] == [[1.25], [3.0]]
    assert [one.value.tolist() for one in made[-1][1].inputs.values()] == [[1.25, 2.5], [3.0, 4.0]]


def test_what_is_no_formula_is_passed_over() -> None:
    spec = spec_of("reshape(x, (2, 2))", {"x": [1.0, 2.0, 3.0, 4.0]})
    made = list(smaller("reshape(x, (2, 2))", spec))
    assert all(len(one.inputs["x"].value) == 4 for _, one in made)


LAYER = Implementation("torch", "layers.py:f", "", Span(1, 1, 1, 2), args=(2,))


def test_a_layer_keeps_its_operations_and_loses_entries_and_digits() -> None:
    spec = replace(spec_of("x", {"x": [1.25, 2.5]}), implementations=(LAYER,))
    made = [one for _, one in smaller("", spec)]
    assert all(one.implementations == (LAYER,) for one in made)
    assert [one.inputs["x"].value.tolist() for one in made[:2]] == [[1.25], [2.5]]
    assert [1.0, 2.0] in [one.inputs["x"].value.tolist() for one in made[2:]]


def test_a_layer_without_numbers_is_reduced_too(tmp_path: Path) -> None:
    """GC109 has no mode and no entries."""
    (tmp_path / "layers.py").write_text("def f(x):\n    x + 1\n")
    layer = Implementation("torch", "layers.py:f", str(tmp_path), Span(1, 1, 1, 2))
    spec = replace(spec_of("x", {"x": [1.25, 2.5]}), implementations=(layer,))
    found = reduce(spec, None, OPTIONS)
    assert found is not None
    assert found.finding.code == "GC109"
    assert found.spec.inputs["x"].value.size == 1
    assert "modes:" not in _spec(found)


def test_when_the_time_is_over_what_has_the_finding_is_given_as_it_is() -> None:
    spec = spec_of(TEXT, {"x": [200.0, 1.0], "y": [1.0, 2.0]})
    found = reduce(spec, "GC201", OPTIONS, budget=0)
    assert found is not None
    assert (found.finding.code, found.stopped, found.is_smaller) == ("GC201", True, False)
    whole = reduce(spec, "GC201", OPTIONS)
    assert whole is not None
    assert (whole.stopped, whole.is_smaller) == (False, True)


def test_a_second_derivative_stays_one() -> None:
    path = PLANTED.with_name("GC106.yaml")
    (spec,), _ = read(str(path), path.read_text("utf-8"))
    found = reduce(spec, "GC106", OPTIONS)
    assert found is not None
    assert found.is_alone
    (again,), mistakes = read(str(path), _spec(found))
    assert mistakes == []
    assert again.order == 2


def test_a_finding_about_two_engines_keeps_both() -> None:
    (spec,), _ = read(str(PLANTED), PLANTED.read_text("utf-8"))
    found = reduce(spec, "GC110", RunOptions())
    assert found is not None
    assert not found.is_alone
    (again,), mistakes = read(str(PLANTED), _spec(found))
    assert mistakes == []
    assert [one.engine for one in again.implementations] == ["torch", "numpy"]


def test_without_a_code_a_number_is_reduced_rather_than_a_time_out() -> None:
    slow = Finding("GC703", "error", "", Span(1, 1, 1, 2), "torch")
    wrong = replace(slow, code="GC101", entries=(Entry(index=(), computed=0.0, truth=1.0),))
    warned = replace(wrong, code="GC302", severity="warning")
    assert _finding_to_keep([slow, warned, wrong], None) is wrong
    assert _finding_to_keep([slow, warned], None) is slow
    assert _finding_to_keep([slow, wrong], "GC703") is slow


def test_a_run_that_is_interrupted_reduces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report("0", {}, 0, 0.0, interrupted=True)
    monkeypatch.setattr("gradcheck_cli.run.reduce.run", lambda *_: iter([Finished(report)]))
    with pytest.raises(KeyboardInterrupt):
        reduce(spec_of("1 / exp(x)", {"x": [100.0]}), None, OPTIONS)


def test_a_framework_is_preferred_to_which_a_report_can_be_sent() -> None:
    text = "1 / exp(x)"
    spec = spec_of(text, {"x": [100.0]})
    options = replace(OPTIONS, engines=Layered(override=("reference", "torch")))
    found = reduce(spec, "GC201", options)
    assert found is not None
    assert found.finding.engine == "torch"


@pytest.mark.exhaustive
def test_a_layer_becomes_the_smallest_formula_that_has_its_finding(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(
        "import torch\n\ndef f(x, y):\n    return torch.sin(y) + (torch.exp(x) - 1) / x\n"
    )
    layer = Implementation("torch", "layers.py:f", str(tmp_path), Span(1, 1, 1, 2))
    values = {"x": [1.0e-4, 2.0], "y": [1.0, 2.0]}
    spec = replace(spec_of("x + y", values), implementations=(layer,), wrt=())
    found = reduce(spec, "GC301", OPTIONS)
    assert found is not None
    assert found.text == "(exp(x) - 1) / x"
    assert found.spec.inputs["x"].value.size == 1
    assert found.is_smaller


@pytest.mark.exhaustive
def test_the_finding_stays_and_a_script_shows_it(tmp_path: Path) -> None:
    found = reduce(
        spec_of(TEXT, {"x": [1.25, 100.125, 2.0], "y": [0.3, 0.2, 0.9]}), "GC201", OPTIONS
    )
    assert found is not None
    assert len(found.text) < len("1 / exp(x)")
    assert found.finding.code == "GC201"
    (again,), mistakes = read("reduced.yaml", _spec(found))
    assert mistakes == []
    assert again.inputs.keys() == found.spec.inputs.keys()
    text = script(found.finding, found.spec)
    assert text is not None
    assert "gradcheck" not in text
    path = tmp_path / "repro.py"
    path.write_text(text)
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    assert "computed: nan" in ran.stdout


def test_after_a_step_one_formula_is_run_and_then_ever_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is compiled costs seconds, and those beside the one that is taken are lost."""
    batches: list[tuple[int, bool]] = []

    def ran(specs: Sequence[Spec], options: RunOptions, pool: Pool) -> list[tuple[Finding, ...]]:
        found = [(FINDING,) if len(one.inputs["x"].value) > 3 else () for one in specs]
        batches.append((len(specs), any(found)))
        return found

    monkeypatch.setattr(reducing, "_findings", ran)
    reduced = reduce(spec_of("sum(sin(exp(x)))", {"x": [0.123] * 9}), "GC101", OPTIONS)
    assert reduced is not None
    assert len(reduced.spec.inputs["x"].value) == 4
    sizes = [size for size, _ in batches]
    for (size, kept), following in pairwise(batches[2:]):
        assert following[0] == 1 if kept else following[0] <= 2 * size
    assert max(sizes) == TOGETHER


@pytest.mark.parametrize("code", ["GC101", "GC703"])
def test_a_step_has_no_more_time_than_is_left(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that takes too long has lost the finding, unless it is about the time."""
    limits: list[float | None] = []

    def ran(specs: Sequence[Spec], options: RunOptions, pool: Pool) -> list[tuple[Finding, ...]]:
        limits.append(options.timeout.override)
        return [(replace(FINDING, code=code),) if len(limits) < 3 else ()] * len(specs)

    monkeypatch.setattr(reducing, "_findings", ran)
    spec = spec_of("sum(sin(exp(x)))", {"x": [0.123] * 9})
    for budget, least in ((30.0, 1.0), (1e9, None)):
        limits.clear()
        reduce(spec, code, OPTIONS, budget)
        steps = limits[2:]  # without the runs that find what is kept
        assert len(steps) > 3
        hurried = least is not None and code != "GC703"
        assert all((one is not None and 1.0 <= one <= budget) == hurried for one in steps)
