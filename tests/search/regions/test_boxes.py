import numpy as np
import pytest

from gradcheck_cli.search.regions.boxes import covering
from tests.search.searched import domain_in, searched, spec_of

TWO = "{x: {value: 2, domain: [-100, 100]}, y: {value: 1, domain: [1, 3]}}"


def test_boxes_hold_every_failing_point_and_the_operation_is_named() -> None:
    region = searched(spec_of(TWO, "exp(x) * y"), whole=True)["value-nonfinite"].region
    assert region.predicate.startswith("exp(x) * y overflows: x >= 87.62")
    assert region.boxes is not None
    points = np.random.default_rng(0).uniform([80, 1], [100, 3], (200, 2)).astype(np.float32)
    with np.errstate(over="ignore"):
        failing = points[np.isinf(np.exp(points[:, 0]) * points[:, 1])]
    for x, y in failing.tolist():
        assert any(
            box["x"][0] <= x <= box["x"][1] and box["y"][0] <= y <= box["y"][1]
            for box in region.whole or ()
        )
    assert region.fraction is not None
    assert 0.06 < region.fraction < 0.1


def test_what_fails_everywhere_has_the_whole_domain() -> None:
    inputs = "{x: {value: 1, domain: [1, 2]}, y: {value: 1, domain: [1, 2]}}"
    region = searched(spec_of(inputs, "log(0 * x * y)"), budget=1.0, whole=True)["undefined"].region
    assert region.predicate == ""
    assert region.fraction == pytest.approx(1.0)


def test_many_boxes_are_covered_by_some() -> None:
    domain = domain_in(spec_of(TWO, "x * y"))
    rng = np.random.default_rng(0)
    places = rng.integers(domain.low, domain.high, (5000, 2), endpoint=True)
    low, high = covering(domain, places, places)
    assert len(low) == 256
    inside = np.all((low[:, None] <= places) & (places <= high[:, None]), axis=2)
    assert inside.any(axis=0).all()
    sides = (high.astype(np.float64) - low) / (domain.high.astype(np.float64) - domain.low)
    assert np.sum(np.prod(sides, axis=1)) < 1
    assert np.max(sides) < 0.2
    few, _ = covering(domain, places[:10], places[:10])
    assert np.array_equal(np.unique(few, axis=0), np.unique(places[:10], axis=0))
