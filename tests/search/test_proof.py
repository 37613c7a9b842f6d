from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.search import KINDS
from gradcheck_cli.engines.kit.gradient_program import engine_program
from gradcheck_cli.search.box import to_ordinals
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.enclosures.enclosed import Rounding, between
from gradcheck_cli.search.estimates import Answers
from gradcheck_cli.search.proof import Proof, bit_of, halves
from gradcheck_cli.search.runs import Runner

from .searched import domain_in, reference, searched, spec_of

ALL = {"undefined", "value-nonfinite", "gradient-nonfinite", "gradient-underflow-to-zero"}
ALL |= {"gradient-inaccurate", "value-inaccurate"}


def proven(inputs: str, model: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The kinds that are proven absent; the reference engine's rows count as faithful here."""
    monkeypatch.setattr("gradcheck_cli.search.searching.unfaithful", lambda *_: "")
    found = searched(spec_of(inputs, model), budget=3.0)
    return {kind for kind, one in found.items() if one.verdict == "proven-absent"}


SAFE = [
    ("{x: {value: 1, domain: [-20, 20]}}", "exp(-x * x)"),
    (
        "{x: {value: 1, domain: [-1000, 1000]}, y: {value: 1, domain: [-1000, 1000]}}",
        "sqrt(x * x + y * y + 1)",
    ),
    ("{x: {value: 1, domain: [0.001, 1000]}}", "1 / sqrt(x)"),
    ("{x: {value: [1, 2], domain: [-10, 10]}, t: {value: [1, 3]}}", "mean((x - t) ** 2)"),
]


@pytest.mark.parametrize(("inputs", "model"), SAFE)
def test_what_is_safe_is_proven(inputs: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert proven(inputs, model, monkeypatch) == ALL


UNSAFE = [
    ("{x: {value: 1, domain: [-100, 100]}}", "1 / exp(x)", {"gradient-nonfinite"}),
    (
        "{x: {value: 1, domain: [1, 4]}, y: {value: 1, domain: [1, 4]}}",
        "1 / (x * y - 6)",
        {"undefined", "value-nonfinite"},
    ),
    ("{x: {value: 1, domain: [-1, 1]}}", "1 - cos(x)", {"value-inaccurate"}),
    ("{x: {value: 1, domain: [-1, 1]}}", "where(x > 0, log(x), 0.0)", {"undefined"}),
    ("{x: {value: 1, domain: [0, 1]}}", "sqrt(x)", {"undefined", "gradient-nonfinite"}),
]


@pytest.mark.parametrize(("inputs", "model", "kinds"), UNSAFE)
def test_what_happens_is_never_proven_absent(
    inputs: str, model: str, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not proven(inputs, model, monkeypatch) & kinds


def test_what_is_infinite_for_certain_is_not_inaccurate(monkeypatch: pytest.MonkeyPatch) -> None:
    found = proven("{x: {value: -85, domain: [-100, -80]}}", "1 / exp(x)", monkeypatch)
    assert "value-inaccurate" in found
    assert "value-nonfinite" not in found


def test_a_kind_that_is_given_up_stays_open_and_takes_no_boxes_from_others() -> None:
    spec = spec_of("{x: {value: 1, domain: [-20, 20]}}", "sin(x) * exp(-x * x)")
    domain = domain_in(spec)
    question = Runner("reference", spec.program, domain, spec.wrt).full_problem(domain.start)
    gradient = engine_program(reference(), question)
    rounding = Rounding.of(domain.format, loose=False)
    proof = Proof(domain, spec.program, gradient, spec.wrt, rounding)
    hard = {kind for kind in KINDS if proof.is_open(kind)}
    assert "value-inaccurate" in hard
    share = proof.open_share("value-inaccurate")
    proof.give_up(["value-inaccurate"])
    assert proof.open_share("value-inaccurate") == share > 0
    proof.advance(Budget(5.0), 4000)
    assert proof.is_open("value-inaccurate")
    assert proof.open_share("value-inaccurate") == share
    assert len(proof.open_boxes("value-inaccurate")[0]) > 1
    proof.drop(hard)
    assert proof.open_count == 0


@pytest.mark.parametrize(
    ("model", "domain", "dtype"),
    [("log(1 + exp(x)) - x", (-1, 3), "float16"), ("log(1 + exp(x)) - x", (-1, 2), "bfloat16")],
)
def test_numbers_that_no_bound_decides_are_run(
    model: str, domain: tuple[float, float], dtype: str
) -> None:
    """Those of a narrow dtype are few; the proof says how many."""
    spec = spec_of(f"{{x: {{value: 1, domain: [{domain[0]}, {domain[1]}]}}}}", model)
    found = searched(spec, dtype)["gradient-inaccurate"]
    assert found.verdict == "proven-absent"
    assert any("were run on this engine" in one for one in found.assumptions)


@pytest.mark.parametrize(
    ("model", "domain"),
    [
        ("x / (1 + exp(-x))", (-5, 5)),  # a slope with a zero
        ("x / (1 + abs(x))", (-900, 900)),  # a slope that is the difference of larger numbers
        ("x * sin(x) + exp(-x)", (0.5, 3)),
        ("x**4 - 3 * x**2 + x", (-3, 3)),
    ],
)
def test_errors_that_cancel_do_not_stand_against_a_proof(
    model: str, domain: tuple[float, float]
) -> None:
    spec = spec_of(f"{{x: {{value: 1, domain: [{domain[0]}, {domain[1]}]}}}}", model)
    found = searched(spec)
    assert {one.verdict for one in found.values()} == {"proven-absent"}


@pytest.mark.parametrize("lost", [1.5, 0.8])
def test_a_leaf_is_right_if_half_an_ulp_of_its_input_moves_it_as_far(lost: float) -> None:
    """x - log(x) - c is 0 near 2: an error of 16 u |x| |1 - 1/x| is the problem's own."""
    spec = spec_of("{x: {value: 2, domain: [1.5, 2.5]}}", "x - log(x) - 1.3068528175354004")
    domain = domain_in(spec)
    question = Runner("reference", spec.program, domain, spec.wrt).full_problem(domain.start)
    gradient = engine_program(reference(), question)
    proof = Proof(domain, spec.program, gradient, spec.wrt, Rounding.of(domain.format, loose=False))
    points = to_ordinals(np.array([[2.0]]), domain.format)
    value, slope = 2 - np.log(2) - 1.3068528175354004, 0.5
    off = lost * 16 * 2.0**-24 * 2 * slope
    answers = Answers(np.array([[value + off]]), {"x": np.array([[[slope]]])}, np.ones(1, np.bool_))
    (found,) = proof.right(points, answers)
    assert bool(found & bit_of("value-inaccurate")) == (lost < 1)


def test_without_time_left_nothing_is_proven() -> None:
    """It stays open, which is no claim."""
    spec = spec_of("{x: {value: 2, domain: [1, 3]}}", "x * x")
    domain = domain_in(spec)
    runner = Runner("reference", spec.program, domain, spec.wrt)
    gradient = engine_program(reference(), runner.full_problem(domain.start))
    proof = Proof(domain, spec.program, gradient, spec.wrt, Rounding.of(domain.format, loose=False))
    points = np.repeat(domain.start[None], 5000, axis=0)
    x = domain.numbers(points)
    answers = Answers(x * x, {"x": 2 * x[:, :, None]}, np.ones(len(x), np.bool_))
    for seconds, some in ((60.0, True), (0.0, False)):
        proven = proof.proven(points, points, budget=Budget(seconds))
        right = proof.right(points, answers, Budget(seconds))
        assert (proven != 0).tolist() == (right != 0).tolist() == [some] * len(points)


@pytest.mark.parametrize("order", [("t", "w"), ("w", "t")])
@pytest.mark.parametrize(
    "model", ["w * w + 20 * sin(t) ** 2", "w * w * (1 + t / 3) + 0.5 * t * t", "t * t - t * w"]
)
def test_a_box_is_cut_along_the_input_that_moves_a_number_most(
    model: str, order: tuple[str, str]
) -> None:
    """In whatever order the program has its inputs."""
    inputs = ", ".join(f"{name}: {{value: 1, domain: [-1, 1]}}" for name in order)
    found = searched(spec_of(f"{{{inputs}}}", model), budget=40.0)
    assert {one.verdict for one in found.values()} == {"proven-absent"}
    assert found["value-inaccurate"].boxes < 20_000


def test_a_box_far_from_square_is_cut_along_one_input() -> None:
    """Beside x = 1.5, t has all sizes, and x few numbers: cuts along t would double the boxes that
    are to be cut along x."""
    inputs = "{x: {value: 1, domain: [-3, 3]}, t: {value: 1, domain: [-2, 2]}}"
    found = searched(spec_of(inputs, "t + (x - 1.5) ** 2 / (3 - t)"), budget=40.0)
    assert {one.verdict for one in found.values()} == {"proven-absent"}
    assert found["value-inaccurate"].boxes < 12_000


def test_a_leaf_is_right_only_if_its_number_is_near_the_exact_one() -> None:
    """Answers that are off, lost, or missing settle nothing."""
    spec = spec_of("{x: {value: 1, domain: [0.5, 2]}}", "exp(x) - 2 * x")
    domain = domain_in(spec)
    question = Runner("reference", spec.program, domain, spec.wrt).full_problem(domain.start)
    gradient = engine_program(reference(), question)
    proof = Proof(domain, spec.program, gradient, spec.wrt, Rounding.of(domain.format, loose=False))
    points = to_ordinals(np.array([[0.75], [1.0], [1.5], [2.0]]), domain.format)
    x = domain.numbers(points)[:, 0]
    value, slope = np.exp(x) - 2 * x, np.exp(x) - 2
    off = {"value": value, "slope": slope, "answered": np.ones(4, np.bool_)}

    def bits(**changed: Any) -> list[set[str]]:
        now = {**off, **changed}
        answers = Answers(
            now["value"][:, None], {"x": now["slope"][:, None, None]}, now["answered"]
        )
        found = proof.right(points, answers)
        return [{kind for kind in KINDS if one & bit_of(kind)} for one in found]

    assert bits() == [ALL - {"undefined"}] * 4
    assert "value-inaccurate" not in bits(value=value * (1 + 1e-3))[0]
    assert "gradient-inaccurate" not in bits(slope=slope * (1 + 1e-3))[0]
    assert "gradient-nonfinite" not in bits(slope=slope * np.nan)[0]
    assert "value-nonfinite" not in bits(value=value * np.inf)[0]
    assert "gradient-underflow-to-zero" not in bits(slope=0 * slope)[0]
    assert not bits(answered=np.zeros(4, np.bool_))[0]


@pytest.mark.parametrize(
    ("model", "points"), [("sin(x[0] * x[1])", False), ("1 - cos(x[0])", True)]
)
def test_boxes_are_in_vain_only_where_points_are(model: str, points: bool) -> None:
    """Beside a zero that half an ulp of the inputs moves as far, small boxes are proven."""
    spec = spec_of("{x: {value: [1, 1], domain: [-2, 2]}}", model)
    domain = domain_in(spec)
    question = Runner("reference", spec.program, domain, spec.wrt).full_problem(domain.start)
    gradient = engine_program(reference(), question)
    proof = Proof(domain, spec.program, gradient, spec.wrt, Rounding.of(domain.format, loose=False))
    assert proof.has_boxes("value-inaccurate")
    proof.advance(Budget(5.0), 512)
    assert proof.needs_points("value-inaccurate", np.random.default_rng(0)) == points


def test_points_are_spread_only_if_they_are_few() -> None:
    spec = spec_of("{x: {value: 1, domain: [-1, 1]}}", "1 - cos(x)")
    domain = domain_in(spec, "bfloat16")
    question = Runner("reference", spec.program, domain, spec.wrt).full_problem(domain.start)
    gradient = engine_program(reference(), question)
    proof = Proof(domain, spec.program, gradient, spec.wrt, Rounding.of(domain.format, loose=False))
    low, high = proof.open_boxes("value-inaccurate")
    count = int(np.sum(high - low + 1))
    proof.spread(10)
    assert proof.has_boxes("value-inaccurate")
    proof.spread(1 << 20)
    assert not proof.has_boxes("value-inaccurate")
    assert len(proof.leaves()) >= count
    proof.settle_all(proof.leaves(), np.full(len(proof.leaves()), 63, np.uint8))
    assert proof.open_count == 0


def test_boxes_are_cut_where_numbers_are_and_where_they_are_large() -> None:
    """Most numbers of [-1, 1] are next to 0: eight cuts in the middle of them reach 1e-1, eight
    more none that matters to a sum."""
    domain = domain_in(spec_of("{x: {value: 0.5, domain: [-1, 1]}}", "x"))
    low, high = domain.low[None], domain.high[None]
    for _ in range(8):
        several = low[:, 0] < high[:, 0]
        parts = halves(domain, low[several], high[several])
        low, high = parts[0], parts[1]
    ends = domain.numbers(low)[:, 0], domain.numbers(high)[:, 0]
    assert np.max(ends[1] - ends[0]) < 0.1
    assert np.min(np.abs(ends[0])) == 0.0
    assert np.any((ends[1] < 1e-9) & (ends[1] > 0))
    covered = np.sort(np.concatenate([low, high + 1]), axis=None)
    assert covered[0] == domain.low[0]
    assert covered[-1] == domain.high[0] + 1
    assert np.all(covered[1:-1:2] == covered[2::2])


def test_an_effect_of_the_inputs_that_overflows_excuses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of both is a number of float64; their sum is not, and nothing is known of the value."""
    inputs = "{x: {value: 1.5e308, domain: [1.4e308, 1.7e308]}, "
    inputs += "y: {value: 1.5e308, domain: [1.4e308, 1.7e308]}}"
    monkeypatch.setattr("gradcheck_cli.search.searching.unfaithful", lambda *_: "")
    found = searched(spec_of(inputs, "x + y - y"), "float64", 3.0)
    assert found["value-nonfinite"].verdict == "found"
    moved = Proof._input_rounding_effect(
        cast(
            Any, SimpleNamespace(_wrt=("x", "y"), _rounding=Rounding.of(FORMATS["float64"], False))
        ),
        {"x": np.array([1.5e308]), "y": np.array([1.5e308])},
        {"x": np.array([1.5e308]), "y": np.array([1.5e308])},
        [between([1.0], [1.0]), between([1.0], [1.0])],
    )
    assert moved.tolist() == [[0.0]]
