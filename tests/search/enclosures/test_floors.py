"""Floors: a number above its floor is not flushed, and is off by its other errors alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.search import GradientRequest
from gradcheck_cli.search.enclosures.enclosed import Enclosed, Rounding, exact
from gradcheck_cli.search.enclosures.rules import RULES, as_flushed
from gradcheck_cli.search.proof import Proof, _Boxes
from gradcheck_cli.search.runs import Runner
from gradcheck_cli.truth.plain import inlined
from tests.every import first
from tests.search.searched import answer_of, domain_in, spec_of

FLOAT32 = FORMATS["float32"]
NORMAL = FLOAT32.smallest_normal
ENGINES = {
    "jax": replace(Rounding.of(FLOAT32, True, again=True), inverts=False),
    "tensorflow": Rounding.of(FLOAT32, True),
}
COUNT = 4000


def flushed(x: Array) -> Array:
    """Subnormal numbers as 0."""
    return np.where(np.abs(x) < NORMAL, np.float32(0.0) * x, x).astype(np.float32)


def _plain(function: Callable[..., Array]) -> Callable[..., Array]:
    """What an engine computes that flushes its arguments and its result."""
    return lambda *xs: flushed(function(*map(flushed, xs)))


_OF_FLOAT64: dict[str, Callable[..., Any]] = {
    "negative": np.negative,
    "abs": np.abs,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "divide": np.divide,
    "add": np.add,
    "tanh": np.tanh,
    "sin": np.sin,
    "atan": np.arctan,
    "expm1": np.expm1,
    "log1p": np.log1p,
}


def _computed(name: str, *xs: Array) -> Array:
    """By float64 functions, rounded once, and flushed."""
    wide = _OF_FLOAT64[name](*(x.astype(np.float64) for x in map(flushed, xs)))
    return flushed(wide.astype(np.float32))


def _drawn(rng: np.random.Generator, near: float) -> Array:
    """Numbers around a size, and some that are 0 or subnormal."""
    size = near * np.exp2(rng.uniform(-3, 3, COUNT))
    x = (size * rng.choice((-1.0, 1.0), COUNT)).astype(np.float32)
    x[:40] = np.float32(NORMAL * (1 + rng.integers(-3, 4, 40) * 2.0**-23))
    x[40:44] = 0.0
    return x


def _hold(found: Enclosed, right: Array, computed: Array) -> int:
    """Check the bounds, and return how many numbers are above their floor, though some errors are
    larger than those above the floor."""
    off = np.abs(computed.astype(np.float64) - right)
    known = ~found.bad
    assert np.all(off[known] <= (found.d * np.abs(right) + found.a)[known] * (1 + 1e-12))
    above = known & (np.abs(right) >= found.floor)
    assert np.all(off[above] <= (found.d * np.abs(right) + found.firm)[above] * (1 + 1e-12))
    assert np.all((np.abs(computed[above]) >= NORMAL) | (right[above] == 0))
    return int(np.sum(above & (found.firm < found.a)))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", first(3, range(6)))
def test_above_its_floor_no_number_of_a_chain_is_lost(engine: str, seed: int) -> None:
    """Three operations of random rows, on numbers whose results are about the smallest normal
    one."""
    rng, rounding = np.random.default_rng(seed), ENGINES[engine]
    helped = 0
    for _ in range(60):
        with np.errstate(all="ignore"):
            numbers = [_drawn(rng, size) for size in (NORMAL, NORMAL, 2.0**-63, 2.0**-63, 1.0)]
            enclosed = [exact(x) for x in numbers]
            right = [x.astype(np.float64) for x in numbers]
            for _ in range(3):
                name = str(rng.choice(list(_OF_FLOAT64)))
                arity = 2 if name in ("maximum", "minimum", "multiply", "divide", "add") else 1
                some = rng.choice(len(numbers), arity, replace=False)
                taken = [as_flushed(rounding, enclosed[i]) for i in some]
                found = RULES[name](rounding, *taken)
                value = _OF_FLOAT64[name](*(right[i] for i in some))
                fits = np.isfinite(value) & (np.abs(value) < 1e30)
                computed = _computed(name, *(numbers[i] for i in some))
                found = replace(found, bad=found.bad | ~fits | ~np.isfinite(computed))
                helped += _hold(found, value, computed)
                enclosed.append(found)
                numbers.append(computed)
                right.append(value)
    assert helped > 1000


def test_a_sharper_error_has_no_floor_of_another_one() -> None:
    """Bounds by adjoints are of all errors together: none of them counts at 0 alone."""
    spec = spec_of("{x: {value: 1.0, domain: [-2, 2]}}", "x * exp(-x)")
    domain = domain_in(spec)
    runner = Runner("reference", spec.program, domain, spec.wrt)
    gradient = answer_of(GradientRequest(runner.full_problem(domain.start)))
    proof = Proof(domain, inlined(spec.program), gradient, spec.wrt, ENGINES["tensorflow"])
    low, high = domain.low[None], domain.high[None]
    boxes = _Boxes(low, high, proof._gradient.over(*proof._arrays(low, high), 1))
    value = boxes.run.first(1)[0]
    assert value is not None
    assert np.any(value.flushed)
    flat = value.map(lambda part: part.reshape(1, -1))
    sharp, _ = proof._sharper(0, flat, boxes, np.ones(1, np.bool_))
    assert (sharp.floor, sharp.flushed) == (np.inf, 0.0)
