"""A call alone: its program, and what its row does at numbers."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.explain.blame.single_op import behaviour, single_op
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import program_of


def test_a_call_is_a_program_of_its_own() -> None:
    program = program_of("exp(x) / (1 + x)", {"x": [1.0, 2.0]})
    args = [np.array([6.0, 8.0]), np.array([3.0, 2.0])]
    call = single_op(program.result, args)
    assert call.wrt == ("a0", "a1")
    assert PlainFunction(call.program, "float64")(call.values).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("op", "numbers", "value", "slopes"),
    [
        ("exp", (1.0,), np.e, (np.e,)),
        ("exp", (1e4,), np.inf, (np.inf,)),  # a number, but none of float64
        ("multiply", (2.0, 3.0), 6.0, (3.0, 2.0)),
        ("where", (1.0, 2.0, 3.0), 2.0, (0.0, 1.0, 0.0)),
        ("maximum", (1.0, 1.0), 1.0, (0.5, 0.5)),
        # below what float64 keeps beside 1
        ("log", (1 + 2.0**-40,), np.log1p(2.0**-40), (1 / (1 + 2.0**-40),)),
    ],
)
def test_value_and_slopes(
    op: str, numbers: tuple[float, ...], value: float, slopes: tuple[float, ...]
) -> None:
    found = behaviour(op, {}, numbers)
    assert found is not None
    assert found.value == pytest.approx(value, rel=1e-15)
    assert found.slopes == pytest.approx(slopes, rel=1e-15)
    assert not found.singular


@pytest.mark.parametrize(
    ("op", "numbers"),
    [("log", (0.0,)), ("sqrt", (0.0,)), ("acos", (1.0,)), ("divide", (1.0, 0.0)), ("log", (-1.0,))],
)
def test_singular_points(op: str, numbers: tuple[float, ...]) -> None:
    found = behaviour(op, {}, numbers)
    assert found is not None
    assert found.singular


@pytest.mark.parametrize(
    ("op", "numbers", "expected"),
    [
        ("exp", (30.0,), 30.0),
        ("subtract", (1.0, 0.999), 1999.0),
        ("log", (1 + 2.0**-20,), 2.0**20),
        ("sqrt", (7.0,), 0.5),
    ],
)
def test_condition(op: str, numbers: tuple[float, ...], expected: float) -> None:
    found = behaviour(op, {}, numbers)
    assert found is not None
    assert found.condition(numbers) == pytest.approx(expected, rel=1e-5)


def test_keywords_count() -> None:
    inside, outside = (behaviour("clip", {"min": 0.0, "max": 1.0}, (x,)) for x in (0.5, 2.0))
    assert inside is not None
    assert outside is not None
    assert (inside.slopes, outside.slopes) == ((1.0,), (0.0,))


@pytest.mark.parametrize(
    ("op", "numbers"),
    [
        ("sum", (1.0,)),  # not element by element
        ("exp", (np.inf,)),
        ("exp", (1.0, 2.0)),
        ("aten.exp", (1.0,)),  # no row
        ("logical_not", (1.0,)),  # nothing to differentiate
    ],
)
def test_what_is_not_told(op: str, numbers: tuple[float, ...]) -> None:
    assert behaviour(op, {}, numbers) is None
