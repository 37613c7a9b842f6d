"""Every row of the table in JAX: what it is, how what is composed here is differentiated, and where
JAX is known to differ.

Each shape costs a compilation of every operation in it. So rows that JAX has under a name are asked
for their value, and those that are composed of several for their gradient; the two modes are one
rule in JAX, which transposes the one for the other.
"""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Problem, Projection
from gradcheck_cli.engines.jax import ops
from gradcheck_cli.engines.kit.lowerings import Missing
from gradcheck_cli.engines.kit.walker import OPERATORS
from reference_engine.op import TABLE, Op, Point
from tests.conftest import loaded
from tests.every import by_family
from tests.reference_engine.samples import SAMPLES, Sample
from tests.rows import answer, floats_of, point_arrays, program_of_row

MISSING = {name: words for name, words in ops.TABLE.items() if isinstance(words, Missing)}
COMPOSED = [name for name, words in ops.TABLE.items() if callable(words)]
NAMED = [name for name in TABLE if name not in COMPOSED and name not in MISSING]

# Relative to the largest entry: a quarter of the digits may be lost, which is where judging warns.
TOLERANCE = 2.0 ** -(0.75 * FORMATS["float64"].bits)


def first_sample(name: str) -> Sample:
    """The first call that a formula can make: none can index by an array."""
    return next(
        sample
        for sample in SAMPLES[name]
        if not any(isinstance(part, np.ndarray) for part in sample.keywords.get("index", ()))
    )


def close(got: Array, expected: Array) -> None:
    size = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=TOLERANCE, atol=TOLERANCE * max(1.0, size))


def test_every_row_is_lowered_or_refused_with_the_reason() -> None:
    assert TABLE.keys() == ops.TABLE.keys() | OPERATORS.keys()
    assert loaded("jax").operations() == TABLE.keys() - MISSING.keys()
    for name, words in MISSING.items():
        sample = first_sample(name)
        refused = answer("jax", name, sample.arrays(0), sample.keywords)
        assert refused.failure is not None
        assert refused.failure.kind == "unsupported"
        assert words.reason in refused.failure.message


@pytest.mark.exhaustive
@by_family(NAMED)
def test_value_of_what_jax_has_under_a_name(name: str) -> None:
    sample = first_sample(name)
    arrays = sample.arrays(3)
    expected = TABLE[name].value(*arrays, **sample.keywords)
    values = {f"x{k}": a for k, a in enumerate(arrays)}
    program = program_of_row(name, arrays, sample.keywords)
    nothing = Projection(rows=np.zeros((0, *np.shape(expected))))
    wrt = floats_of(arrays)
    got = loaded("jax-jit").evaluate(
        Problem(program, values, wrt, "float64", "float64", "reverse", nothing)
    )
    assert got.failure is None, got.failure
    assert got.output is not None
    close(got.output, np.asarray(expected, got.output.dtype))


@pytest.mark.exhaustive
@by_family(COMPOSED)
def test_gradient_of_what_is_composed(name: str) -> None:
    sample = first_sample(name)
    arrays = sample.arrays(3)
    expected = answer("reference", name, arrays, sample.keywords)
    got = answer("jax-jit", name, arrays, sample.keywords)
    assert got.failure is None, got.failure
    assert got.output is not None
    assert expected.output is not None
    close(got.output, expected.output)
    for block, right in expected.gradients.items():
        theirs = got.gradients[block].values
        if right.values is None or theirs is None:  # None and zeros: it does not depend
            assert not np.any(0 if right.values is None else right.values)
            assert not np.any(0 if theirs is None else theirs)
        else:
            close(theirs, right.values)


POINTS = [
    (row, point)
    for row in TABLE.values()
    for point in row.points
    if "jax" in point.differs and not point.where.endswith("in float32")
]


@pytest.mark.exhaustive
@by_family(POINTS, lambda case: case[0].name)
def test_where_jax_differs(case: tuple[Op, Point]) -> None:
    row, point = case
    arrays = point_arrays(row, point)
    got = answer("jax", row.name, arrays, point.keywords, dtype=point.dtype)
    assert got.failure is None, got.failure
    bits = FORMATS[point.dtype].bits
    for k, slope in enumerate(point.differs["jax"]):
        if slope is None:  # an integer, or a mask
            continue
        gradient = got.gradients[f"x{k}"].values
        assert gradient is not None
        summed = gradient.sum(axis=0).reshape(arrays[k].shape)
        expected = np.broadcast_to(np.asarray(slope, np.float64), arrays[k].shape)
        np.testing.assert_allclose(summed, expected, rtol=2.0 ** -(0.75 * bits), atol=0)
