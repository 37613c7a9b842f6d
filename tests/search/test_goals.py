import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.search.box import Domain, Ordinals, from_ordinals
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.goals import Evaluate, Watch, directed, edges, lines_through
from gradcheck_cli.truth.batching import batched

from .searched import domain_in, spec_of


def found(inputs: str, model: str, seconds: float = 60.0, most: int = 10_000) -> Array:
    """The points to which the directed search of a formula comes in this time. It may evaluate the
    formula so often."""
    domain, watch, evaluate = watched(inputs, model, most)
    rng = np.random.default_rng(0)
    lines = lines_through(domain, domain.start[None], rng)
    points = directed(domain, lines, watch, evaluate, rng, Budget(seconds))
    return from_ordinals(points, domain.format)


def watched(
    inputs: str, model: str, most: int = 10_000, outputs: bool = False
) -> tuple[Domain, Watch, Evaluate]:
    """A formula to watch, and a function that evaluates it so often at most."""
    count, calls = 64, 0
    spec = spec_of(inputs, model)
    domain = domain_in(spec)
    watch = Watch(batched(spec.program, count), FORMATS["float32"], outputs)

    def evaluate(points: Ordinals) -> Array:
        nonlocal calls
        calls += 1
        assert calls <= most
        parts = []
        for begin in range(0, len(points), count):
            some = points[begin : begin + count]
            whole = np.concatenate([some, np.repeat(some[-1:], count - len(some), axis=0)])
            parts.append(watch.numbers(domain.arrays(domain.numbers(whole)))[: len(some)])
        return np.concatenate(parts)

    return domain, watch, evaluate


@pytest.mark.parametrize("model", ["x * y", "x / (1 + y * y)", "tanh(x) * 3 + 0 * y"])
def test_points_where_a_result_falls_below_the_smallest_normal_number(model: str) -> None:
    """Hundreds of different ones, on both sides, to the last number."""
    inputs = "{x: {value: 0.3, domain: [-1, 1]}, y: {value: 0.7, domain: [-1, 1]}}"
    domain, watch, evaluate = watched(inputs, model, outputs=True)
    rng = np.random.default_rng(0)
    start = domain.inside(rng.integers(domain.low, domain.high, (50, 2)))
    points = edges(domain, start, watch, evaluate, rng, Budget(60.0))
    sizes = np.abs(evaluate(points)[:, 0]) / FORMATS["float32"].smallest_normal
    near = sizes[np.abs(sizes - 1) < 2.0**-21]
    assert len(np.unique(points[np.abs(sizes - 1) < 2.0**-21], axis=0)) > 200
    assert np.any(near < 1)
    assert np.any(near >= 1)


def test_zeros_are_found_to_the_last_number() -> None:
    points = found("{x: {value: 1, domain: [0, 2]}}", "1 / (x * x - 3)")[:, 0]
    before = points[points < np.sqrt(3)].max()
    assert np.nextafter(np.float32(before), np.float32(2)) > np.sqrt(3)


def test_a_zero_that_is_only_touched_is_found() -> None:
    points = found("{x: {value: 1, domain: [-10, 10]}}", "1 / (sin(x) + 1)")[:, 0]
    assert np.min(np.abs(points + np.pi / 2)) < 1e-3


def test_an_overflow_is_found_to_the_last_number() -> None:
    points = found("{x: {value: 1, domain: [0, 1000]}}", "exp(x)")[:, 0]
    largest = np.log(FORMATS["float32"].largest)
    before = points[points < largest].max()
    assert np.nextafter(np.float32(before), np.float32(200)) > largest


def test_of_two_inputs_one_is_solved_for() -> None:
    inputs = "{x: {value: 1, domain: [1, 4]}, y: {value: 1, domain: [1, 4]}}"
    x, y = found(inputs, "1 / (x - y)").T
    assert np.any(x == y)


def test_without_time_left_no_change_is_followed() -> None:
    points = found("{x: {value: 1, domain: [0, 1000]}}", "exp(x) / x", seconds=0.0, most=1)
    assert len(points)
