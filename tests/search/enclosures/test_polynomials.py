"""Polynomials: what is excused everywhere is so at every point that is run, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.enclosures.enclosed import Rounding
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from gradcheck_cli.search.enclosures.polynomials import Polynomials
from tests.search.searched import searched, spec_of

FLOAT32 = FORMATS["float32"]
ROUNDING = Rounding.of(FLOAT32, False)
HALF = float(np.sqrt(2 * FLOAT32.unit_roundoff))


def is_excused(model: str, x: str = "[1, 2, 3, 4]", rounding: Rounding = ROUNDING) -> bool:
    spec = spec_of(f"{{x: {{value: {x}, domain: [-5, 5]}}}}", model)
    size = np.full(np.shape(spec.inputs["x"].value), 5.0)
    found = Polynomials(BoxProgram(spec.program, {}, FLOAT32, rounding), {"x": size})
    return bool(found.excused(0, range(size.size), 0.75 * HALF, 12.0).all())


@pytest.mark.parametrize(
    "model",
    [
        "x[0] * x[1] + x[2] * x[3]",
        "sum(x * reshape([1.5, -2.1, 0.3, 7.0], (4,)))",
        "mean(x) * 3.3",
        "sum(reshape(x, (2, 2)) @ reshape([1.0, 2.0, 3.0, -1.0], (2, 2)))",
        "x[0] * x[1] * x[2] - x[3] / 3",
        "x[0:2] @ x[2:4] - 1",  # the last operation is off by a part of the value
    ],
)
def test_a_sum_of_products_of_other_numbers_is_excused(model: str) -> None:
    """Each product has a number that no other one has: half an ulp of it moves that one alone."""
    assert is_excused(model)


@pytest.mark.parametrize(
    "model",
    [
        "x[0] * x[0] + x[0] * x[0] * x[1] * 0.3 + x[0]",  # x[0] may move nothing
        "(x[0] + 1) - 1",  # half an ulp of x is nothing beside that of 1
        "x[0] * x[1] - x[0] * x[1] + x[2]",
        "sum(x * x) - x[0]",
        "exp(x[0]) + x[1]",
        "(x[0] + 1e-20 * x[1]) - x[0]",
        "x[0] * 1e-20 * x[1] * 1e20",  # may underflow
    ],
)
def test_nothing_else_is(model: str) -> None:
    assert not is_excused(model)


def test_a_coarse_dtype_leaves_room_for_its_last_operation_and_its_underflow() -> None:
    """In bfloat16 one rounding is a 17th of what half of the digits are, an underflow a 50th."""
    spec = spec_of("{x: {value: [1, 2, 3, 4], domain: [-5, 5]}}", "x[0] * x[1] + x[2] * x[3]")
    fmt = FORMATS["bfloat16"]
    boxes = BoxProgram(spec.program, {}, fmt, Rounding.of(fmt, False))
    found = Polynomials(boxes, {"x": np.full(4, 5.0)})
    half = 0.75 * float(np.sqrt(2 * fmt.unit_roundoff))
    assert found.excused(0, range(4), half, 12.0).all()
    assert not found.excused(0, range(4), half / 10, 12.0).any()


def test_nothing_is_known_of_an_engine_that_flushes() -> None:
    model = "x[0] * x[1] + x[2] * x[3]"
    assert not is_excused(model, rounding=Rounding.of(FLOAT32, True))


def test_no_error_is_larger_than_what_is_excused() -> None:
    """Near the zero of x y + z w, in float32."""
    rng = np.random.default_rng(3)
    x, y, z = rng.uniform(-5, 5, (3, 100_000)).astype(np.float32)
    w = (-(x.astype(float) * y) / z).astype(np.float32)
    wide = [one.astype(float) for one in (x, y, z, w)]
    truth = wide[0] * wide[1] + wide[2] * wide[3]
    moved = 2 * FLOAT32.unit_roundoff * (np.abs(wide[0] * wide[1]) + np.abs(wide[2] * wide[3]))
    off = np.abs(x * y + z * w - truth)
    assert np.any(off > HALF * np.abs(truth))
    assert np.all((off <= HALF * np.abs(truth)) | (off <= 16 * moved))


def test_a_bilinear_form_is_proven_in_one_box() -> None:
    spec = spec_of(
        "{x: {value: [1, 2], domain: [-3, 3]}, y: {value: [1, 2], domain: [-3, 3]}}", "sum(x * y)"
    )
    found = searched(spec)
    assert {one.verdict for one in found.values()} == {"proven-absent"}
    assert found["value-inaccurate"].boxes <= 2
