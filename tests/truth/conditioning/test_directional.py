"""Blocks of derivatives, moved: along directions, and at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.truth.conditioning.directional import OUTPUT, Derivatives
from tests.conftest import array, program_of

X, Y = np.array([0.5, 2.0]), np.array([1.5, -1.0])


def derivatives(
    formula: str,
    inputs: Mapping[str, Any],
    mode: Mode = "reverse",
    *,
    wrt: Sequence[str] | None = None,
    projection: Projection | None = None,
) -> Derivatives:
    arrays = {name: array(value) for name, value in inputs.items()}
    return Derivatives(
        TruthRequest(
            program=program_of(formula, inputs),
            values=arrays,
            bounds={},
            wrt=tuple(wrt or arrays),
            dtype="float64",
            projections={mode: projection or Projection()},
        )
    )


def test_a_block_moves_by_one_more_derivative() -> None:
    found = derivatives("x ** 3 * y", {"x": X, "y": Y})
    moved = found.along("reverse", {"x": np.array([1.0, 0.0]), "y": np.zeros(2)})
    np.testing.assert_allclose(moved["x"], np.diag([6 * X[0] * Y[0], 0.0]))
    np.testing.assert_allclose(moved["y"], np.diag([3 * X[0] ** 2, 0.0]))


def test_both_modes_move_alike() -> None:
    along = {"x": np.array([0.3, -2.0]), "y": np.array([1.0, 0.5])}
    modes: tuple[Mode, ...] = ("reverse", "forward")
    reverse, forward = (
        derivatives("sin(x * y) + sum(x) * y", {"x": X, "y": Y}, mode).along(mode, along)
        for mode in modes
    )
    assert reverse.keys() == forward.keys() == {"x", "y"}
    for name, moved in reverse.items():
        np.testing.assert_allclose(forward[name], moved, rtol=1e-13)


def test_a_second_derivative_moves_by_the_third() -> None:
    mode: Mode = "reverse-over-reverse"
    moved = derivatives("sum(x ** 4)", {"x": X}, mode).along(mode, {"x": np.ones(2)})
    np.testing.assert_allclose(moved["x.x"], np.diag(24 * X))


def test_without_a_mode_it_is_the_output_that_moves() -> None:
    found = derivatives("x * y", {"x": X, "y": Y})
    moved = found.along(None, {"x": np.ones(2), "y": np.zeros(2)})
    np.testing.assert_allclose(moved[OUTPUT], [Y])


def test_what_does_not_depend_does_not_move() -> None:
    moved = derivatives("2 * x", {"x": X}).along("reverse", {"x": np.ones(2)})
    np.testing.assert_array_equal(moved["x"], np.zeros((2, 2)))


def test_given_rows_and_columns_are_those_of_the_blocks() -> None:
    rows, columns = np.array([[1.0, 2.0]]), {"x": np.array([[1.0, -1.0]])}
    reverse = derivatives("x ** 2", {"x": X}, projection=Projection(rows=rows))
    np.testing.assert_allclose(reverse.along("reverse", {"x": np.ones(2)})["x"], 2 * rows)
    forward = derivatives("x ** 2", {"x": X}, "forward", projection=Projection(columns=columns))
    np.testing.assert_allclose(forward.along("forward", {"x": np.ones(2)})["x"], 2 * columns["x"].T)


def test_all_inputs_are_stirred_by_a_part_of_themselves() -> None:
    found = derivatives("x * y", {"x": X, "y": Y}, wrt=["x"])
    stirred = found.randomly_perturbed(None, 1e-3, np.random.default_rng(0))[OUTPUT]
    parts = np.abs(stirred[0] / (X * Y) - 1)
    assert np.all((parts < 2.1e-3) & ((parts > 1.9e-3) | (parts < 1e-5)))  # both up, or one of each
    blocks = found.randomly_perturbed("reverse", 1e-3, np.random.default_rng(0))
    np.testing.assert_allclose(np.abs(np.diag(blocks["x"]) / Y - 1), 1e-3)


def test_a_matrix_is_perturbed_where_it_is_factorised_and_nowhere_else() -> None:
    a = np.array([[2.0, 0.5], [0.25, 1.0]])
    inverse, product = (derivatives(text, {"a": a}) for text in ("inv(a)", "a @ a"))
    assert inverse.factorises()
    assert not product.factorises()
    rng = np.random.default_rng(0)
    moved = inverse.perturbed(None, 1e-6, rng)[OUTPUT] - np.linalg.inv(a).reshape(1, -1)
    assert 1e-8 < np.linalg.norm(moved) < 1e-5
    still = product.perturbed(None, 1e-6, rng)[OUTPUT]
    np.testing.assert_array_equal(still, (a @ a).reshape(1, -1))
