import numpy as np
import pytest

from gradcheck_cli.checks.protocol import drive
from gradcheck_cli.domain.search import KINDS, Kind
from gradcheck_cli.engines.base import make
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.search.searching import Searching

from .searched import answer_of, answering, domain_in, searched, spec_of


def test_each_kind_has_a_witness_that_was_run_alone() -> None:
    found = searched(spec_of("{x: {value: 1, domain: [-100, 100]}}", "1 / exp(x)"))
    verdicts = {kind: one.verdict for kind, one in found.items()}
    assert {kind for kind, verdict in verdicts.items() if verdict == "found"} == {
        "value-nonfinite",
        "gradient-nonfinite",
        "gradient-underflow-to-zero",
        "gradient-inaccurate",
    }
    for one in found.values():
        assert (one.witness is None) == (one.verdict != "found")
    witness = found["gradient-underflow-to-zero"].witness
    assert witness is not None
    assert (witness.entry, witness.computed) == ("x", 0.0)
    assert abs(witness.truth) > 2.0**-126


def test_a_pole_at_a_single_number_of_two_inputs_is_found() -> None:
    inputs = "{x: {value: 1, domain: [1, 4]}, y: {value: 1, domain: [1, 4]}}"
    found = searched(spec_of(inputs, "1 / (x * y - 6)"), kinds=("undefined",))
    witness = found["undefined"].witness
    assert witness is not None
    assert float(witness.values["x"] * witness.values["y"]) == 6


def test_what_cannot_be_batched_is_run_point_by_point() -> None:
    found = searched(spec_of("{x: {value: [1, 2], domain: [0, 4]}}", "log(sort(x)[0])"), budget=0.7)
    assert found["undefined"].verdict == "found"


def test_an_engine_that_raises_leaves_all_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(ReferenceEngine, "differentiate", raises)
    found = searched(spec_of("{x: {value: 1, domain: [0, 1]}}", "1 / x"), budget=0.5)
    assert {one.verdict for one in found.values()} == {"undecided"}


def test_a_row_without_an_enclosure_in_some_box_is_no_proof_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gradcheck_cli.search.searching.unfaithful", lambda *_: "")
    inputs = "{x: {value: [1, 1.5], domain: [1, 2]}}"
    found = searched(spec_of(inputs, "norm(x, ord=3)"), budget=0.5)
    assert {one.verdict for one in found.values()} == {"undecided"}
    assert {one.why for one in found.values()} == {"`signed_power` has no enclosure rule"}


def test_points_that_fail_in_too_many_kinds_end_a_search_before_it_begins() -> None:
    spec = spec_of("{x: {value: 1, domain: [-100, 100]}}", "1 / exp(x)")
    domain = domain_in(spec)
    first = domain.point({"x": np.array(95.0)})[None]
    searching = Searching(spec, "reference", domain, KINDS, 5.0, 0, 0, first)
    answering(searching.look())
    assert {one.boxes for one in searching.so_far().searches} == {0}
    assert "found" in {one.verdict for one in searching.so_far().searches}


def test_a_point_at_which_no_bound_decides_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradcheck_cli.search.searching.unfaithful", lambda *_: "")
    found = searched(spec_of("{x: {value: 2, domain: [1, 10]}}", "acosh(x)"))
    verdicts = {kind: one.verdict for kind, one in found.items()}
    assert verdicts["undefined"] == "found"
    assert verdicts["gradient-nonfinite"] == "undecided"  # it is infinite, where there is none
    assert verdicts["gradient-inaccurate"] == "proven-absent"
    assert any("were run" in one for one in found["gradient-inaccurate"].assumptions)


def test_other_kinds_are_looked_for_around_a_witness() -> None:
    inputs = "{x: {value: 0.6, domain: [0.1, 1]}, y: {value: 0.2, domain: [-1, 1]}}"
    spec = spec_of(inputs, "acos(x / sqrt(x * x + y * y))")
    rare, common = "gradient-underflow-to-zero", "gradient-inaccurate"
    # one point of ten thousand near those that fail otherwise
    found = (searched(spec, seed=seed, kinds=(rare, common))[rare] for seed in range(1, 5))
    assert any(one.verdict == "found" for one in found)


def test_an_edge_of_the_domain_with_a_slope_has_a_gradient() -> None:
    """x, and x sqrt(x), by formulas with a root whose slope is infinite at 0."""
    for model in ("sqrt(x) * sqrt(x)", "sqrt(x) * x"):
        found = searched(spec_of("{x: {value: 1, domain: [0, 4]}}", model))
        witness = found["gradient-nonfinite"].witness
        assert witness is not None, model
        assert witness.values["x"] == 0, model


def test_a_point_is_not_judged_by_those_beside_it() -> None:
    """PyTorch's derivative of a product divides by its factors, unless one of them is 0 anywhere in
    the array that it gets."""
    pytest.importorskip("torch")
    engine = make(engines()["torch"].target)
    engine.load()
    spec = spec_of("{v: {value: [0.5, 0.5, 0.5], domain: [-2, 2]}}", "prod(v)")
    kinds: tuple[Kind, ...] = ("gradient-underflow-to-zero", "gradient-inaccurate")
    searching = Searching(spec, "torch", domain_in(spec), kinds, 5.0, 0)
    drive(searching.look(), lambda ask: answer_of(ask.question, engine))
    assert {one.verdict for one in searching.so_far().searches} == {"found"}
