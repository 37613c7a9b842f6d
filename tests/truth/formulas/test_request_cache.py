"""The differences of a request are taken once, whichever mode and block asks first."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.truth.formulas.request_cache import Work, crossings_of, differences_of
from tests.conftest import array, program_of

HESSIAN = Projection(rows=np.ones((1,)))


def work(formula: str, modes: dict[Mode, Projection], **values: Any) -> Work:
    arrays = {name: array(value) for name, value in values.items()}
    program = program_of(formula, arrays)
    request = TruthRequest(program, arrays, {}, tuple(arrays), "float64", modes)
    shape = program.result.shape
    return Work(request, ReferenceEngine(), program, np.zeros(shape, np.bool_))


def test_both_modes_share_what_was_evaluated() -> None:
    made = work("exp(x) * y", {"reverse": Projection(), "forward": Projection()}, x=0.5, y=2.0)
    first = differences_of(made, "reverse")
    spent = made.evaluations
    assert spent > 0
    second = differences_of(made, "forward")
    assert made.evaluations == spent
    np.testing.assert_array_equal(first["x"].value, second["x"].value)


def test_what_a_mode_settles_in_its_own_is_unknown_to_the_other() -> None:
    made = work("exp(x)", {"reverse": Projection(), "forward": Projection()}, x=0.5)
    mine = differences_of(made, "reverse")["x"]
    mine.kind[:] = int(PointKind.UNDECIDED)
    mine.value[:] = 7.0
    other = differences_of(made, "forward")["x"]
    assert not np.any(other.kind)
    assert other.value.tolist() != [[7.0]]


def test_blocks_of_second_order_are_rows_of_one_gradient() -> None:
    mode: Mode = "reverse-over-reverse"
    made = work("x * x * y", {mode: HESSIAN}, x=3.0, y=2.0)
    found = differences_of(made, mode)
    values = {name: block.value.item() for name, block in found.items()}
    assert np.allclose(sorted(values.values()), [0.0, 4.0, 6.0, 6.0], atol=1e-6)


def test_a_kink_that_the_point_meets_is_crossed_along_one_input_only() -> None:
    mode: Mode = "reverse-over-reverse"
    made = work("abs(x) * y", {mode: HESSIAN}, x=0.0, y=2.0)
    tied = np.ones((1, 1), np.bool_)
    blocks = [str(block) for block in differences_of(made, mode)]
    crossed = {name: bool(crossings_of(made, mode, name, tied).item()) for name in blocks}
    spent = made.evaluations
    assert crossed == {name: name != blocks[-1] for name in blocks}  # all but d/dy of d/dy
    assert crossings_of(made, mode, blocks[0], tied).item()
    assert made.evaluations == spent
