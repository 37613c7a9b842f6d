"""Kinds of values: drawn as what they are, moved without leaving it, and gradients along that."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.specfile import input_model
from gradcheck_cli.specfile.kinds import HERMITIAN, KINDS, adjoint, wrong_shape, wrong_value
from tests.specfile.writing import mistakes, spec

SHAPES = {1: [(2,), (5,), (3, 4)], 2: [(2, 2), (4, 4), (2, 3, 3)]}
CASES = [(kind, shape) for kind in KINDS.values() for shape in SHAPES[kind.axes]]
MOVING = [*CASES, (HERMITIAN, (3, 3, 2)), (HERMITIAN, (2, 2, 2, 2))]


def test_the_schema_has_them_all() -> None:
    assert tuple(KINDS) == input_model.KINDS


@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_values_stay_of_their_kind(kind, shape) -> None:
    rng = np.random.default_rng(3)
    x = kind.drawn(rng, shape)
    assert wrong_value(kind.name, x) == ""
    t = rng.standard_normal(shape)
    for length in (0.0, 1e-9, 0.3, 5.0):
        there = kind.moved(x, length * t)
        assert wrong_value(kind.name, there) == "", length
    np.testing.assert_allclose(kind.moved(x, 0 * t), x, rtol=0, atol=1e-15 * np.max(np.abs(x)))


def test_a_hermitian_matrix_stays_one() -> None:
    x, t = np.random.default_rng(5).standard_normal((2, 3, 3, 2))
    there = HERMITIAN.moved(x + adjoint(x), t)
    np.testing.assert_allclose(there, adjoint(there))


@pytest.mark.parametrize(("kind", "shape"), MOVING)
def test_gradients_are_along_the_motion(kind, shape) -> None:
    """Also where a value was rounded, and is its kind only nearly."""
    rng = np.random.default_rng(4)
    x = kind.drawn(rng, shape).astype(np.float32).astype(np.float64)
    u, g = rng.standard_normal((2, *shape))
    h = 1e-5
    slope = (kind.moved(x, h * u) - kind.moved(x, -h * u)) / (2 * h)
    np.testing.assert_allclose(kind.along(x, u), slope, atol=1e-9)
    pulled = kind.pulled(x, g)
    assert np.sum(pulled * u) == pytest.approx(np.sum(g * kind.along(x, u)))
    errors = rng.random(shape)
    for _ in range(20):
        moved = kind.pulled(x, g + errors * rng.choice([-1, 1], shape)) - pulled
        assert np.all(np.abs(moved) <= kind.spread(x, errors) * (1 + 1e-9))


def test_what_is_not_of_a_kind() -> None:
    assert "square" in wrong_shape("rotation", (2, 3))
    assert "at least two" in wrong_shape("simplex", (1,))
    assert wrong_shape("unit_vector", (2, 3)) == ""
    turned = np.eye(3)[[1, 0, 2]]
    assert wrong_value("orthogonal", turned) == ""
    assert "not of kind rotation" in wrong_value("rotation", turned)
    assert "not of kind positive_definite" in wrong_value("positive_definite", -np.eye(2))
    assert "not of kind simplex" in wrong_value("simplex", np.array([1.1, -0.1]))
    assert "not finite" in wrong_value("unit_vector", np.array([np.nan, 1.0]))


def test_in_a_spec() -> None:
    found = spec("""\
        inputs:
          R: {kind: rotation, shape: [2, 3, 3], seed: 1}
          p: {value: [0.25, 0.75], kind: simplex}
        points:
          - R: {kind: rotation, shape: [2, 3, 3], seed: 5}
          - p: [0.5, 0.5]
        model: sum(R) * sum(p ** 2)
    """)
    assert [[one.kind for one in point.values()] for point in found.points] == [
        ["rotation", "simplex"]
    ] * 2
    first, second = (point["R"].value for point in found.points)
    assert not np.allclose(first, second)
    expected = KINDS["rotation"].drawn(np.random.default_rng([1, *b"R"]), (2, 3, 3))
    np.testing.assert_array_equal(second, expected)


def test_mistakes() -> None:
    def one(form: str, more: str = "") -> list[str]:
        return mistakes(f"inputs: {{x: {form}}}\nmodel: sum(x)\n{more}")

    (mistake,) = one("{kind: rotaton, shape: [3, 3]}")
    assert mistake.startswith("GC903 1:20-27 inputs.x.kind:")
    assert one("{kind: rotation, shape: [3, 2]}") == [
        "GC903 1:37-43 inputs.x.shape: a rotation matrix is square, but the shape is (3, 2)"
    ]
    assert one("{kind: simplex, value: [0.2, 0.7]}") == [
        "GC903 1:13-47 inputs.x: the value is not of kind simplex: it is 0.1 off"
    ]
    assert one("{kind: simplex, value: [0.2, 0.8], domain: [0, 1]}") == [
        "GC903 1:48-54 inputs.x.domain: `x` has a kind, so it cannot have a `domain` as well"
    ]
    (mistake,) = one("{kind: simplex, value: [0.2, 0.8]}", "points: [{x: [0.2, 0.9]}]\n")
    assert "points[0].x: the value is not of kind simplex" in mistake
    assert "unknown key `low`" in one("{kind: simplex, shape: [3], low: 1}")[0]
