import numpy as np

from gradcheck_cli.search.estimates import Estimator, answers_of, row_cotangents
from gradcheck_cli.truth.batching import batched

from .searched import spec_of


def test_float64_is_estimated_in_more_digits() -> None:
    program = spec_of("{x: 1}", "exp(x) / exp(2 * x)").program
    found = Estimator(batched(program, 2), ("x",), "float64")({"x": np.array([1.0, 800.0])}, 2)
    assert found.value[0] == np.exp(-1.0)
    assert found.gradients["x"][0, 0, 0] == -np.exp(-1.0)
    assert np.isfinite(found.value).all()  # exp(1600) is beyond float64


def test_each_output_has_its_own_gradient() -> None:
    program = spec_of("{x: [1, 2]}", "x * x[0]").program
    found = Estimator(batched(program, 3), ("x",), "float32")({"x": np.ones((3, 2)) * [2, 5]}, 3)
    assert found.value.tolist() == [[4, 10]] * 3
    assert found.gradients["x"].tolist() == [[[4, 0], [5, 2]]] * 3


def test_a_function_without_80_bits_is_estimated_in_64() -> None:
    program = spec_of("{x: 1}", "erf(x)").program
    found = Estimator(batched(program, 1), ("x",), "float64")({"x": np.zeros(1)}, 1)
    assert np.isclose(found.gradients["x"][0, 0, 0], 2 / np.sqrt(np.pi))


def test_the_blocks_of_a_batch_are_taken_apart() -> None:
    rows = row_cotangents(3, (2,))
    assert rows.shape == (2, 3, 2)
    assert rows[1].tolist() == [[0, 1]] * 3
    blocks = {"x": np.arange(12.0).reshape(2, 6)}
    found = answers_of(np.zeros((3, 2)), blocks, 3)
    assert found.gradients["x"][1].tolist() == [[2, 3], [8, 9]]
