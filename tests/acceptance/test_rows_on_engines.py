"""Every row of the table on every engine: values, derivatives, dtypes, kinks, special values.

What is proven of the reference engine elsewhere (tests/reference_engine/ops) is compared with here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation, Mode
from gradcheck_cli.engines.kit.lowerings import Limited, Missing
from gradcheck_cli.engines.kit.walker import OPERATORS
from gradcheck_cli.engines.tensorflow import ops as tensorflow_ops
from gradcheck_cli.engines.torch import ops as torch_ops
from reference_engine.op import SEVERAL, TABLE, Op, Point
from tests.conftest import loaded
from tests.every import by_family, every
from tests.reference_engine.samples import EXACT, RANDOM, SAMPLES, Sample
from tests.rows import answer, combined, floats_of, point_arrays

LOWERINGS = {"torch": torch_ops.TABLE, "tensorflow": tensorflow_ops.TABLE}
FRAMEWORKS = tuple(LOWERINGS)
SECOND_ORDER: tuple[Mode, ...] = ("reverse-over-reverse", "forward-over-reverse")
Check = Callable[..., None]
frameworks = pytest.mark.parametrize("engine", FRAMEWORKS)

KEPT = 0.75  # of the digits of a number: losing more than a quarter is what GC301 calls unstable


def tolerance(dtype: str) -> float:
    """Relative to the largest entry: a quarter of the digits may be lost."""
    return 2.0 ** -(KEPT * FORMATS[dtype].bits)


def indexed_by_arrays(sample: Sample) -> bool:
    """No formula can index by an array."""
    return any(isinstance(part, np.ndarray) for part in sample.keywords.get("index", ()))


def possible(sample: Sample) -> bool:
    """Whether a formula may hold it: its values have entries."""
    return not indexed_by_arrays(sample) and all(0 not in shape for shape in sample.shapes)


def samples(name: str) -> list[Sample]:
    return [sample for sample in SAMPLES[name] if not indexed_by_arrays(sample)]


def missing(engine: str, name: str) -> str | None:
    """Why an engine refuses a row, if it does."""
    lowering = LOWERINGS[engine].get(name)
    return lowering.reason if isinstance(lowering, Missing) else None


def reverse_only(engine: str, name: str) -> bool:
    lowering = LOWERINGS[engine].get(name)
    return isinstance(lowering, Limited) and lowering.reverse_only


def digits(engine: str, name: str, dtype: str, mode: Mode = "reverse") -> str:
    """The format whose digits an engine has: the coarsest of those that its lowering names."""
    lowering = LOWERINGS[engine].get(name)
    named = [dtype]
    if isinstance(lowering, Limited):
        second = lowering.second if mode in SECOND_ORDER else None
        named += [found for found in (lowering.constants, second) if found is not None]
    return min(named, key=lambda found: FORMATS[found].bits)


def close(got: Array, expected: Array, dtype: str, where: str) -> None:
    size = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
    bound = tolerance(dtype) * max(1.0, size)
    np.testing.assert_allclose(got, expected, rtol=tolerance(dtype), atol=bound, err_msg=where)


def agree(name: str, got: Evaluation, expected: Evaluation, wrt: Sequence[str], where: str) -> None:
    assert got.failure is None, (where, got.failure)
    assert expected.failure is None, (where, expected.failure)
    assert got.output is not None
    assert expected.output is not None
    assert got.output.shape == expected.output.shape, where
    dtype = digits(got.engine, name, got.dtype, got.mode)
    close(got.output, expected.output, dtype, f"{where}: value")
    for block, right in expected.gradients.items():
        theirs = got.gradients[block]
        if right.values is None or theirs.values is None:  # None and zeros: it does not depend
            assert not np.any(0 if right.values is None else right.values), where
            assert not np.any(0 if theirs.values is None else theirs.values), where
        else:
            close(theirs.values, right.values, dtype, f"{where}: {block}")
    assert {block.split(".")[0] for block in expected.gradients} == set(wrt)


@frameworks
def test_every_row_has_a_lowering_or_a_reason(engine: str) -> None:
    lowered = LOWERINGS[engine].keys() | OPERATORS.keys()
    assert TABLE.keys() - lowered == set()
    assert lowered - TABLE.keys() == set()
    assert loaded(engine).operations() == {n for n in TABLE if missing(engine, n) is None}


@frameworks
def test_what_an_engine_lacks_is_refused_with_the_reason(engine: str) -> None:
    for name in TABLE:
        reason = missing(engine, name)
        if reason is not None:
            sample = samples(name)[0]
            refused = answer(engine, name, sample.arrays(0), sample.keywords)
            assert refused.failure is not None
            assert refused.failure.kind == "unsupported"
            assert reason in refused.failure.message


def calls(rows: Iterable[str]) -> Callable[[Check], Check]:
    """Makes of a test of an engine and a row a test of each engine and family: those rows that the
    engine has are tried."""

    def decorate(test: Check) -> Check:
        @wraps(test)
        def of_row(name: str, engine: str) -> None:
            if missing(engine, name) is None:
                test(name, engine)

        return frameworks(by_family(rows)(of_row))

    return decorate


SMOOTH = [name for name in TABLE if TABLE[name].differentiable]


@calls(TABLE)
def test_values_and_gradients(name: str, engine: str) -> None:
    every(samples(name), lambda sample: check(engine, name, sample, 3))


@pytest.mark.exhaustive
@calls([name for name in TABLE if floats_of(samples(name)[0].arrays(0))])
def test_forward_mode(name: str, engine: str) -> None:
    """TensorFlow compiles its rules anew for every shape. What a lowering calls is compared with
    the reference above, with its gradient; here it is the framework's rules."""
    check(engine, name, samples(name)[0], 3, "forward")


def fused(engine: str, name: str, arrays: Sequence[Array]) -> bool:
    """PyTorch may take attention over four axes to a fused kernel, which has no forward mode."""
    return engine == "torch" and name.endswith("attention") and arrays[0].ndim == 4


def check(engine: str, name: str, sample: Sample, seed: int, mode: Mode = "reverse") -> None:
    arrays = sample.arrays(seed)
    part = combined(name, arrays, sample.keywords, seed)
    got = answer(engine, name, arrays, sample.keywords, mode=mode, projection=part)
    if mode == "forward" and got.failure is not None:
        assert fused(engine, name, arrays) or reverse_only(engine, name)
        assert got.failure.kind == "unsupported"
        return
    assert mode == "reverse" or not reverse_only(engine, name)
    expected = answer("reference", name, arrays, sample.keywords, mode=mode, projection=part)
    agree(name, got, expected, floats_of(arrays), f"{sample} {mode}")


@pytest.mark.exhaustive
@calls(TABLE)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(
    max_examples=2,  # the first is the simplest, not a random one
    deadline=None,
    database=None,
    phases=[Phase.generate],  # what fails is small already
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_random_shapes(name: str, engine: str, data: Any, seed: int) -> None:
    sample = data.draw(RANDOM[name].filter(possible))
    check(engine, name, sample, seed)


@pytest.mark.exhaustive
@calls(SMOOTH)
def test_second_derivatives(name: str, engine: str) -> None:
    over_reverse = ((samples(name)[0], mode) for mode in SECOND_ORDER)
    more = ((sample, "reverse-over-reverse") for sample in samples(name)[1:2])
    every((*over_reverse, *more), lambda case: check_second(engine, name, *case))


def check_second(engine: str, name: str, sample: Sample, mode: Mode) -> None:
    arrays = sample.arrays(5)
    part = combined(name, arrays, sample.keywords, 1)
    expected = answer("reference", name, arrays, sample.keywords, mode=mode, projection=part)
    got = answer(engine, name, arrays, sample.keywords, mode=mode, projection=part)
    if got.failure is not None:  # no second derivative: it says so
        assert got.failure.kind == "unsupported", got.failure
    else:
        agree(name, got, expected, floats_of(arrays), f"{sample} {mode}")


NARROW = ("float16", "bfloat16")


@pytest.mark.exhaustive
@calls(TABLE)
def test_every_dtype(name: str, engine: str) -> None:
    every(("float32", *NARROW), lambda dtype: check_dtype(engine, name, dtype))


def check_dtype(engine: str, name: str, dtype: str) -> None:
    sample = samples(name)[0]
    arrays = sample.arrays(4)
    got = answer(engine, name, arrays, sample.keywords, dtype=dtype)
    if got.failure is not None:  # no kernel for a narrow format: it says so
        assert dtype in NARROW, got.failure
        assert got.failure.kind == "unsupported", got.failure
        return
    expected = answer("reference", name, arrays, sample.keywords, dtype="float64", rounding=dtype)
    agree(name, got, expected, floats_of(arrays), f"{sample} {dtype}")
    for gradient in got.gradients.values():
        assert gradient.dtype in (dtype, None)


@calls([name for name in TABLE if TABLE[name].points])
def test_at_its_points_a_row_says_what_the_engine_gives(name: str, engine: str) -> None:
    every(TABLE[name].points, lambda point: check_point(engine, TABLE[name], point))


def check_point(engine: str, row: Op, point: Point) -> None:
    arrays = point_arrays(row, point)
    got = answer(engine, row.name, arrays, point.keywords, dtype=point.dtype)
    if engine in point.raises:
        assert got.failure is not None
        assert got.failure.kind == "raised"
        return
    assert got.failure is None, got.failure
    assert got.output is not None
    stated = point.differs.get(engine, point.gradient)
    known = point.dtype if engine in point.differs else digits(engine, row.name, point.dtype)
    for k, slope in enumerate(stated):
        gradient = got.gradients.get(f"x{k}")
        if slope is None or gradient is None or gradient.values is None:
            assert slope is None or not np.any(np.asarray(slope)), "the engine gave no gradient"
            assert gradient is None or not np.any(0 if gradient.values is None else gradient.values)
            continue
        summed = gradient.values.sum(axis=0).reshape(arrays[k].shape)
        expected = np.broadcast_to(np.asarray(slope, np.float64), arrays[k].shape)
        np.testing.assert_allclose(summed, expected, rtol=tolerance(known), atol=0)
    if point.value is not None:
        expected = np.broadcast_to(np.asarray(point.value, np.float64), got.output.shape)
        np.testing.assert_allclose(got.output, expected, rtol=tolerance(point.dtype), atol=0)


def special_calls(name: str) -> list[tuple[tuple[float, ...], Mapping[str, Any]]]:
    exact = EXACT[name]
    return [(at, keywords) for at in (*exact.points, *exact.strained) for keywords in exact.calls]


def representable(at: tuple[float, ...], dtype: str) -> bool:
    """Whether the format can tell a point from 0 and infinity."""
    rounded = [FORMATS[dtype].round(x) for x in at]
    return all(np.isfinite(y) and (y == 0) == (x == 0) for x, y in zip(at, rounded, strict=True))


def told(row: Op, engine: str, dtype: str, at: tuple[float, ...]) -> bool:
    """Whether the row says that the engine differs at this point."""
    rounded = [FORMATS[dtype].round(x) for x in at]
    return any(
        engine in point.differs
        and point.dtype == dtype
        and np.shape(point.at) == (len(at),)
        and np.array_equal(FORMATS[dtype].round(np.asarray(point.at, np.float64)), rounded)
        for point in row.points
    )


@pytest.mark.exhaustive
@calls([name for name in SMOOTH if name in EXACT])
def test_special_values(name: str, engine: str) -> None:
    """Where an engine loses the derivative at a hard point, the row says so."""
    every(("float64", "float32"), lambda dtype: check_special_values(engine, name, dtype))


def check_special_values(engine: str, name: str, dtype: str) -> None:
    silent = []
    for at, keywords in special_calls(name):
        if not representable(at, dtype):
            continue
        arrays = [np.asarray(x) for x in at]
        right = answer("reference", name, arrays, keywords, dtype=dtype)
        got = answer(engine, name, arrays, keywords, dtype=dtype)
        assert got.failure is None, got.failure
        for block, expected in right.gradients.items():
            theirs = got.gradients[block].values
            stated = np.zeros(1) if expected.values is None else expected.values.ravel()
            given_ = np.zeros(1) if theirs is None else theirs.ravel()
            close_by = same(given_, stated, digits(engine, name, dtype))
            if not close_by and not told(TABLE[name], engine, dtype, at):
                silent.append(f"{at} {dict(keywords)} {block}: {given_[0]!r}, not {stated[0]!r}")
    assert silent == []


def same(given_: Array, stated: Array, dtype: str) -> bool:
    """Whether no more than a quarter of the digits is lost; subnormal numbers have fewer."""
    fmt = FORMATS[dtype]
    atol = fmt.smallest_subnormal * 2 ** (fmt.bits / 2)
    return np.allclose(given_, stated, rtol=tolerance(dtype), atol=atol, equal_nan=True)


def test_functions_of_several_results_give_rows() -> None:
    for name, function in SEVERAL.items():
        assert name not in TABLE
        assert len(function.results) >= 1
