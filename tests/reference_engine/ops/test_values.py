"""The value of every row against one from elsewhere: NumPy, SciPy or mpmath."""

from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from reference_engine import jacobian
from reference_engine.op import INTERNAL, TABLE, Op
from tests.every import by_family, every
from tests.reference_engine.samples import RANDOM, SAMPLES, VALUES, Sample

ROWS = {**TABLE, **INTERNAL}
SEED = 4

# Both values round, in sums of at most some 24 terms and a few operations more: 64 units together.
ROUNDINGS = 64 * 2.0**-53


def rounding(row: Op, sample: Sample, arrays: tuple[Any, ...], y: Any) -> Any:
    """What 64 roundings may do to each element, by where the row says that it rounds."""
    if row.rounding == "none":
        return 0.0
    size = np.abs(y)
    if row.rounding == "sums":
        sizes = [np.abs(a) if a.dtype.kind == "f" else a for a in arrays]
        size = size + np.abs(row.value(*sizes, **sample.keywords))
    if row.rounding == "inputs":
        size = size + moved_by_inputs(row, sample, arrays)
    return ROUNDINGS * size


def moved_by_inputs(row: Op, sample: Sample, arrays: tuple[Any, ...]) -> Any:
    """For every element of the result, its gradient's norm times the argument's, over all of them:
    how far it moves when an argument is off by its whole norm."""
    active = [i for i, a in enumerate(arrays) if a.dtype.kind == "f" and i not in row.passive]

    def f(*some: Any) -> Any:
        full: list[Any] = list(arrays)
        for i, x in zip(active, some, strict=True):
            full[i] = x
        return row(*full, **sample.keywords)

    xs = [arrays[i] for i in active]
    blocks = jacobian(f, tuple(range(len(xs))))(*xs)
    shape = np.shape(f(*xs))
    return sum(
        np.linalg.norm(np.reshape(block, (*shape, -1)), axis=-1) * np.linalg.norm(np.ravel(x))
        for block, x in zip(blocks, xs, strict=True)
    )


def compare(name: str, sample: Sample, seed: int) -> None:
    row, arrays = ROWS[name], sample.arrays(seed)
    y = row.value(*arrays, **sample.keywords)
    expected = np.asarray(VALUES[name](*arrays, **sample.keywords))
    assert y.shape == expected.shape
    assert y.dtype.kind == expected.dtype.kind
    if y.dtype.kind != "f" or not y.size:
        np.testing.assert_array_equal(y, expected)
        return
    error = np.abs(y - expected)
    assert np.all(error <= rounding(row, sample, arrays, expected)), (y, expected)


@by_family(VALUES)
def test_value(name: str) -> None:
    every(SAMPLES[name], lambda sample: compare(name, sample, SEED))


@by_family([name for name in VALUES if name in RANDOM])
@settings(max_examples=4, deadline=None, database=None, phases=[Phase.generate])
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_value_at_random_shapes_and_keywords(name: str, data: st.DataObject, seed: int) -> None:
    compare(name, data.draw(RANDOM[name]), seed)
