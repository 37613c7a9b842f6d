import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.search import Kind, Region
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.enclosures.enclosed import Rounding
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from gradcheck_cli.search.regions import intervals as regions
from tests.search.searched import searched, spec_of


@pytest.fixture(autouse=True)
def _faithful(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference engine's rows count as faithful here."""
    monkeypatch.setattr("gradcheck_cli.search.searching.unfaithful", lambda *_: "")


def region(model: str, low: float, high: float, kind: Kind) -> Region:
    """The region of a kind in float32 on the reference engine."""
    inputs = f"{{x: {{value: {(low + high) / 2}, domain: [{low}, {high}]}}}}"
    return searched(spec_of(inputs, model), kinds=(kind,), whole=True)[kind].region


def ends(boxes: tuple[object, ...] | None) -> list[tuple[float, float]]:
    """The ends of intervals of x."""
    assert boxes is not None
    return [(float(low), float(high)) for box in boxes for low, high in [box["x"]]]  # type: ignore[index]


def test_an_edge_is_exact_to_the_last_number() -> None:
    found = region("exp(x)", 0.0, 100.0, "value-nonfinite")
    ((low, high),) = ends(found.boxes)
    assert high == 100.0
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(np.float32(low)))
        assert np.isfinite(np.exp(np.nextafter(np.float32(low), np.float32(0))))
    assert found.predicate.startswith("exp(x) overflows: x >= 88.72")
    assert found.fraction is not None
    assert abs(found.fraction - (100 - low) / 100) < 1e-6


def test_what_no_time_was_left_for_is_not_called_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = regions.region
    monkeypatch.setattr(regions, "region", lambda *given: whole(*given[:-1], Budget(0.0)))
    found = region("exp(x)", 0.0, 100.0, "value-nonfinite")
    assert (ends(found.boxes), ends(found.whole)) == ([], [(0.0, 100.0)])
    assert found.predicate == "not decided in the time available: every x"


def test_a_pole_is_a_single_number() -> None:
    found = region("1 / (x - 3)", 0.0, 10.0, "undefined")
    assert ends(found.boxes) == [(3.0, 3.0)]
    assert found.predicate == "x - 3 is 0: x = 3"


def test_every_number_of_an_inner_interval_was_run() -> None:
    found = region("exp(x)", 88.7, 88.8, "value-nonfinite")
    assert ends(found.inner) == ends(found.boxes)


@pytest.mark.parametrize("model", ["exp(x)", "log(2 + exp(x)) - 1", "3 * exp(x) / (x + 1)"])
def test_an_overflow_is_solid_without_a_run_of_each_number(model: str) -> None:
    """A billion numbers lie between its edge and the end of the domain."""
    found = region(model, 0.0, 3e38, "value-nonfinite")
    low, high = ends(found.inner)[-1]
    assert (low < 100, high) == (True, ends(found.boxes)[-1][1])


@pytest.mark.parametrize("model", ["1 / exp(x)", "where(x < 90, exp(x), x)", "exp(x) - exp(x)"])
def test_what_overflows_inside_alone_is_not_solid(model: str) -> None:
    program = spec_of("{x: {value: 1, domain: [0, 3.0e38]}}", model).program
    boxes = BoxProgram(program, {}, FORMATS["float32"], Rounding.of(FORMATS["float32"], False))
    (found,) = boxes({"x": np.array([100.0])}, {"x": np.array([1e38])}, 1)
    assert found is not None
    assert bool(found.broken) is (model == "exp(x) - exp(x)")  # inf - inf


def test_what_is_left_may_be_proven_at_once() -> None:
    found = region("where(x > 3, sqrt(x - 3), x)", 0.0, 10.0, "undefined")
    assert found.boxes is None or ends(found.whole)


def test_many_intervals_are_put_into_few_words() -> None:
    low = np.array([0, 2, 4, 100, 200, 300, 302], np.int64)
    spans = regions._spans((low, low + 1))
    assert spans == [(0, 5, 3), (100, 101, 1), (200, 201, 1), (300, 303, 2)]
    assert regions._spans((low[:0], low[:0])) == []
