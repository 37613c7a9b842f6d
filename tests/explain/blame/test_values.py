"""Numbers and operations as a sentence has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.program import Node
from gradcheck_cli.explain.blame.values import (
    application,
    call_phrase,
    element,
    first_index,
    number,
    two_texts,
)
from tests.conftest import program_of

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("numbers", "result", "text"),
    [
        ([2.0, NAN], 1.0, "sum(2)"),
        ([NAN], 0.0, "sum(...)"),  # no single number met the element
        ([NAN], NAN, "sum(nan)"),
        ([], 0.0, "sum()"),
    ],
)
def test_numbers_that_are_not_known_are_not_shown(
    numbers: list[float], result: float, text: str
) -> None:
    assert call_phrase("sum", numbers, result) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-60.0, "-60"),
        (999999.0, "999999"),
        (1e6, "1e+06"),
        (1 / 3, "0.333"),
        (-2.688117e43, "-2.69e+43"),
        (3.72e-44, "3.72e-44"),
        (INF, "inf"),
        (-INF, "-inf"),
        (NAN, "nan"),
        # never shown as the whole number that it is not
        (1.001, "1.001"),
        (0.9999999, "0.9999999"),
        (-1.0000007, "-1.000001"),
        (123.4, "123.4"),
        (1 + 2.0**-52, "1.0000000000000002"),
        (12345.6, "1.23e+04"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def node_of(formula: str, **inputs: Any) -> Node:
    program = program_of(formula, inputs)
    return program.result


@pytest.mark.parametrize(
    ("formula", "args", "text"),
    [
        ("exp(x)", [100.0], "exp(100)"),
        ("-x", [3.0], "-3"),
        ("x + y", [1.5, INF], "1.5 + inf"),
        ("x - y", [5.0, 2.0], "5 - 2"),
        ("x * y", [0.0, INF], "0 * inf"),
        ("x / y", [1.0, 1.14e26], "1 / 1.14e+26"),
        ("x ** y", [2.0, 0.5], "2 ** 0.5"),
        ("maximum(x, y)", [2.0, 3.0], "maximum(2, 3)"),
        # as many digits as it takes to see what a difference leaves
        ("x - y", [1000.00049, 1000.0], "1000.00049 - 1000"),
        ("x - y", [1.0, 0.999999523], "1 - 0.999999523"),
        ("x + y", [-1.00010002, 1.0], "-1.0001 + 1"),
        ("x - y", [1e300, -1e300], "1e+300 - -1e+300"),
    ],
)
def test_application(formula: str, args: list[float], text: str) -> None:
    names = ["x", "y"][: len(args)]
    node = node_of(formula, **dict.fromkeys(names, 1.0))
    assert application(node, [np.asarray(a) for a in args], ()) == text


def test_application_shows_the_element_that_it_is_about() -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([[10.0], [20.0]])
    node = node_of("x * y", x=x, y=y)
    assert application(node, [x, y], (1, 2)) == "3 * 20"


def test_application_shows_the_shape_of_what_is_mixed() -> None:
    x, w = np.ones((2, 3)), np.ones((3, 4))
    assert application(node_of("x @ w", x=x, w=w), [x, w], (0, 0)) == "[2x3] @ [3x4]"
    assert application(node_of("sum(x)", x=x), [x], ()) == "sum([2x3])"
    assert application(node_of("softmax(x)", x=x[0]), [x[0]], (1,)) == "softmax([3])"


def test_application_calls_a_custom_gradient_by_its_name() -> None:
    formula = """
def f_vjp(u, x):
    return u

@custom_gradient(f_vjp)
def mine(x):
    return x * 1

mine(x)
"""
    assert application(node_of(formula, x=1.0), [np.asarray(2.0)], ()) == "mine(2)"


@pytest.mark.parametrize(
    ("shape", "index", "expected"),
    [
        ((), (1, 2), 0.0),
        ((3,), (1, 2), 2.0),
        ((1,), (1, 2), 0.0),
        ((2, 3), (1, 2), 5.0),
        ((2, 1), (1, 2), 1.0),
        ((2, 3), (2,), None),
        ((2,), (2,), None),
    ],
)
def test_element_that_meets_an_index(
    shape: tuple[int, ...], index: tuple[int, ...], expected: float | None
) -> None:
    array = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    assert element(node_of("x + y", x=1.0, y=1.0), array, index) == expected


def test_no_element_of_an_operation_that_mixes_them() -> None:
    assert element(node_of("softmax(x)", x=np.ones(3)), np.ones(3), (1,)) is None


@pytest.mark.parametrize(
    ("mask", "index"),
    [
        (True, ()),
        ([False, True, True], (1,)),
        ([[False, False], [True, False]], (1, 0)),
    ],
)
def test_first_index(mask: Any, index: tuple[int, ...]) -> None:
    assert first_index(np.asarray(mask)) == index


def test_two_numbers_are_shown_until_they_differ() -> None:
    assert two_texts(0.5, 0.25) == ("0.5", "0.25")
    assert two_texts(0.49577812, 0.49577815) == ("0.49577812", "0.49577815")
    assert two_texts(1.5, 1.5) == ("1.5", "1.5")
    assert two_texts(9.5, 7.999999999999998) == ("9.5", "8")
    assert two_texts(1.0, 1.0000000001) == ("1", "1.0000000001")
