"""Sums over every rounding on the way to a number, against sums made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Projection
from gradcheck_cli.truth.conditioning.tape import (
    EntryTape,
    RecordedProgram,
    Sums,
    output_noise_sums,
    sensitivity_sums,
)
from tests.conftest import array, program_of

U = FORMATS["float64"].unit_roundoff


def output_sums(formula: str, **inputs) -> tuple[float, float]:
    """(by operations, by inputs) of a scalar output, in units of float64's roundoff."""
    values = {name: array(value) for name, value in inputs.items()}
    at_ops, at_inputs = output_noise_sums(program_of(formula, values), values, "float64", None)
    return float(at_ops[0]) / U, float(at_inputs[0]) / U


def test_each_operation_rounds_its_own_result() -> None:
    # (x + y) * y: the sum rounds by u |x + y| and is multiplied by y, the product by itself
    at_ops, at_inputs = output_sums("(x + y) * y", x=3.0, y=2.0)
    assert at_ops == pytest.approx(10 + 10)
    assert at_inputs == pytest.approx(2 * 3 + (3 + 2 + 2) * 2)


def test_a_whole_exponent_does_not_round_beside_a_negative_base() -> None:
    """The derivative of x^n by n is nan there, which the n - 1 of its rule must not pass on."""
    values = {"x": array([1.5, -1.9])}
    run = RecordedProgram(program_of("x ** 3.0", values), values, "float32")
    tape = EntryTape(run, Projection(), "reverse", FORMATS["float32"])
    for place, x in enumerate((1.5, -1.9)):
        sums = tape.sensitivities("x", place, place)
        costs = np.asarray(sums.operations) / FORMATS["float32"].unit_roundoff
        # x^2 rounds before it is multiplied by 3, and so does the product
        assert sum(costs) + sums.backward == pytest.approx(3 * 3 * x**2)


def test_cancelled_digits_count_at_their_full_size() -> None:
    at_ops, _ = output_sums("(exp(x) - 1) / x", x=1e-4)
    assert at_ops == pytest.approx(np.exp(1e-4) / 1e-4, rel=1e-3)


def test_sums_round_every_term_although_they_cancel() -> None:
    at_ops, _ = output_sums("sum(x)", x=np.array([3.0, 1e-9, -3.0]))
    assert at_ops == pytest.approx(6.0)
    at_ops, _ = output_sums("x @ y", x=np.array([3.0, 3.0]), y=np.array([1.0, -1.0]))
    assert at_ops == pytest.approx(6.0)


def test_exact_operations_do_not_round() -> None:
    at_ops, at_inputs = output_sums("-x[::-1][0]", x=np.array([1.0, 2.0]))
    assert (at_ops, at_inputs) == (0.0, 2.0)


def test_output_without_any_input_has_no_noise() -> None:
    values = {"x": np.array([1.0, 2.0])}
    program = program_of("stack([x[0], x[1] - x[1]])", values)
    rows = np.array([[0.0, 0.0]])
    at_ops, at_inputs = output_noise_sums(program, values, "float64", rows)
    assert at_ops[0] <= 1e-300
    assert at_inputs[0] == 0.0


def test_row_that_is_nan_does_not_spoil_the_others() -> None:
    values = {"x": np.array([-1.0, 2.0])}
    at_ops, at_inputs = output_noise_sums(program_of("log(x)", values), values, "float64", None)
    assert at_ops[1] == pytest.approx(U * np.log(2), rel=1e-9)
    assert at_inputs[1] == pytest.approx(U, rel=1e-9)


def test_projected_rows_are_sums_of_rows() -> None:
    values = {"x": np.array([1.0, 2.0])}
    rows = np.array([[1.0, -3.0]])
    _, at_inputs = output_noise_sums(program_of("x * x", values), values, "float64", rows)
    assert at_inputs[0] / U == pytest.approx(2 * 1 + 3 * 4 * 2)


def entry_tape(formula: str, mode: str, projection: Projection, **inputs) -> EntryTape:
    values = {name: array(value) for name, value in inputs.items()}
    program = program_of(formula, values)
    request = TruthRequest(program, values, {}, tuple(values), "float64", {mode: projection})  # type: ignore[dict-item]
    run = RecordedProgram(program, request.values, request.dtype)
    return EntryTape(run, request.projections[mode], mode, FORMATS["float64"])  # type: ignore[arg-type,index]


def test_constants_are_exact_but_not_what_is_made_of_them() -> None:
    # d/dx x^0.1 = 0.1 x^(0.1 - 1): the exponent rounds by u 0.9, which log x magnifies
    tape = entry_tape("x ** 0.1", "reverse", Projection(), x=1e-30)
    gradient = 0.1 * 1e-30**-0.9
    sums = tape.sensitivities("x", 0, 0)
    assert sums.inputs / U == pytest.approx(0.9 * gradient)
    assert sum(sums.operations) / U >= 0.9 * abs(np.log(1e-30)) * gradient


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_sums_of_a_gradient_entry(mode: str) -> None:
    # d/dx x^3 y = 3 x^2 y: inputs move it by (2 + 1) u
    tape = entry_tape("x ** 3 * y", mode, Projection(), x=2.0, y=5.0)
    sums = tape.sensitivities("x", 0, 0)
    assert sums.inputs / U == pytest.approx(3 * 60)
    assert sum(sums.operations) / U >= 60


def test_sums_of_a_second_derivative() -> None:
    tape = entry_tape("x ** 3 * y", "reverse-over-reverse", Projection(), x=2.0, y=5.0)
    sums = tape.sensitivities("x.x", 0, 0)
    assert sums.inputs / U == pytest.approx(2 * 60)  # 6 x y
    sums = tape.sensitivities("y.y", 0, 0)
    assert sums.inputs == 0.0


def test_sums_of_a_directional_derivative() -> None:
    columns = {"x": np.array([[1.0, 10.0]])}
    x = np.array([1.0, 2.0])
    tape = entry_tape("sum(x * x)", "forward", Projection(columns=columns), x=x)
    sums = tape.sensitivities("x", 0, 0)
    assert sums.inputs / U == pytest.approx(2 * 1 + 20 * 2)


def test_number_that_was_not_recorded_reacts_to_nothing() -> None:
    run = RecordedProgram(program_of("x * 1", {"x": 1.0}), {"x": np.array(1.0)}, "float64")
    assert sensitivity_sums(np.array(3.0), run.leaves.values(), FORMATS["float64"]) == Sums(
        0.0, [], 0.0, 0.0
    )
