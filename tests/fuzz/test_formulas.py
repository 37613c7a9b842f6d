"""Random formulas: a few of them in every run of the tests, and what the fuzzer must see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Entry, Finding, Reading, SpecResult
from gradcheck_cli.domain.truth import Truth
from tests.fuzz import formulas
from tests.fuzz.formulas import Formulas, _Oracle
from tests.fuzz.grammar import Formula, Step
from tests.fuzz.running import Runner

SPAN = Span(1, 1, 1, 2)
SINE = Formula({"x": np.array([0.5, 1.0])}, (Step("v", "sin", ("x",), (2,)),), dtypes=("float64",))


@pytest.fixture(scope="module")
def fuzzer(runner: Runner) -> Iterator[Formulas]:
    with Formulas(runner, ("torch",)) as made:
        yield made


@pytest.fixture(scope="module")
def result(fuzzer: Formulas) -> SpecResult:
    (found,) = fuzzer._runner.results([SINE.spec(("reference",))])
    return found


@pytest.mark.exhaustive
def test_right_formulas_are_not_accused(fuzzer: Formulas) -> None:
    found = list(fuzzer.check(20, range(6)))
    assert [finding.says for finding in found] == []
    assert fuzzer.counted["certified entries compared with mpmath"] > 20
    assert fuzzer.counted["passed entries compared with mpmath"] > 20


def test_a_wrong_certificate_is_found(fuzzer: Formulas, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = formulas.compute

    def off(request: Any) -> Truth:
        truth = compute(request)
        blocks = {
            key: replace(block, value=block.value * (1 + 2.0**-50))
            for key, block in truth.blocks.items()
        }
        return replace(truth, blocks=blocks)

    monkeypatch.setattr(formulas, "compute", off)
    (faults,) = fuzzer._faults([(SINE, "torch")])
    assert faults
    assert all(fault.startswith("certified: float64") for fault in faults)


def _accused(result: SpecResult, entry: Entry) -> SpecResult:
    """The result with a finding about this entry alone."""
    about = ("reference", "float64", "reverse", "x")
    accusation = Finding("GC301", "error", "digits are lost", SPAN, *about, entries=(entry,))
    return replace(result, findings=(accusation,))


def test_an_accusation_of_a_right_number_is_found(fuzzer: Formulas, result: SpecResult) -> None:
    cosine = float(np.cos(0.5))
    entry = Entry((0, 0), cosine, cosine, 1e-16, None, None, 9.0)
    faults = list(fuzzer._unearned(_accused(result, entry), _Oracle(SINE)))
    assert [fault.partition(":")[0] for fault in faults] == ["false GC301"]


def test_a_row_that_is_wrong_alone_upholds_accusations_of_every_order(
    fuzzer: Formulas, result: SpecResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = _accused(result, Entry((0, 0), 2.0, 0.8, 1e-16, None, None, 9.0))
    monkeypatch.setattr(fuzzer._runner, "results", lambda texts: [off for _ in texts])
    faults = [f"{code} of a right formula: reference float64" for code in ("GC101", "GC106")]
    assert fuzzer._wrong_kernel(SINE, "torch", faults)
    other = "truth of GC106: reference float64"
    assert not fuzzer._wrong_kernel(SINE, "torch", [*faults, other])
    assert not fuzzer._wrong_kernel(SINE, "torch", [faults[0].replace("reference", "torch")])


@pytest.mark.parametrize(
    ("words", "is_fault"), [("Input is not invertible. [Op:MatrixInverse]", False), ("no", True)]
)
def test_what_a_framework_refuses_is_counted(
    fuzzer: Formulas, result: SpecResult, words: str, is_fault: bool
) -> None:
    raised = Finding("GC701", "error", f"InvalidArgumentError: {words}", SPAN)
    faults = list(fuzzer._unearned(replace(result, findings=(raised,), readings=()), _Oracle(SINE)))
    assert bool(faults) == is_fault


def test_a_wrong_truth_of_a_finding_is_found(fuzzer: Formulas, result: SpecResult) -> None:
    entry = Entry((1, 1), 2.0, 0.25, 1e-9, None, None, 9.0)
    faults = list(fuzzer._unearned(_accused(result, entry), _Oracle(SINE)))
    assert [fault.partition(":")[0] for fault in faults] == ["truth of GC301"]


def test_a_wrong_gradient_that_passes_is_found(fuzzer: Formulas, result: SpecResult) -> None:
    wrong = tuple(_negated(reading) for reading in result.readings)
    faults = list(fuzzer._unearned(replace(result, readings=wrong), _Oracle(SINE)))
    assert faults
    assert all(fault.startswith("unearned pass: reference float64") for fault in faults)
    assert list(fuzzer._unearned(result, _Oracle(SINE))) == []


def _negated(reading: Reading) -> Reading:
    turned = {name: (-np.array(g)).tolist() for name, g in reading.gradients.items()}
    return replace(reading, gradients=turned)
