"""Steps of the chain rule that a student can follow."""

import numpy as np
import pytest

from gradcheck_cli.domain.derivation import Section
from gradcheck_cli.engines.errors import NodeFault
from gradcheck_cli.engines.symbolic import derive
from gradcheck_cli.engines.symbolic.derive import TooHard, derivation, differentiated
from tests.conftest import program_of


def sections(formula: str, steps: bool = True, order: int = 1, **values: object) -> list[Section]:
    arrays = {name: np.asarray(value) for name, value in values.items()}
    wrt = [name for name, array in arrays.items() if array.dtype.kind == "f"]
    formulas = differentiated(program_of(formula, arrays), arrays, wrt, order, 5.0)
    return list(derivation(formulas, "text", steps, 5.0).sections)


def lines(section: Section) -> list[str]:
    parts = [(e.left, e.origin, e.right) for e in section.equations]
    return [" = ".join(part for part in one if part) for one in parts]


def test_leaves_and_how_they_combine() -> None:
    operations, leaves, chain, result = sections("t = x * w\nsin(t) + t", x=1.0, w=2.0)
    assert lines(operations) == ["t = w*x", "t1 = sin(t)", "y = t + t1"]
    assert "∂t1/∂t = cos(t)" in lines(leaves)
    # a value that is used twice collects from both uses
    assert lines(chain)[0] == "dy/dt = ∂y/∂t + dy/dt1 * ∂t1/∂t = cos(t) + 1"
    assert lines(chain)[1] == "dy/dx = dy/dt * ∂t/∂x = w*(cos(t) + 1)"
    assert lines(result) == [
        "dy/dx = w*cos(w*x) + w",
        "dy/dw = x*cos(w*x) + x",
    ]
    *_, result = sections("1 / (1 + exp(-x))", x=1.0)
    assert lines(result) == ["dy/dx = exp(-x)/(1 + exp(-x))**2 = exp(x)/(exp(x) + 1)**2"]


def test_arrays_entry_by_entry_and_only_as_many_as_one_reads() -> None:
    value, slopes = sections("sum((x @ w)**2)", steps=False, x=np.ones((2, 2)), w=np.ones(2))
    assert len(value.equations) == 1
    assert "dy/dw[1] = " in lines(slopes)[-1]
    operations, leaves, *_ = sections("sum(exp(x))", x=np.ones(40))
    assert (len(operations.equations), operations.more) == (24, 17)
    assert leaves.more == 56


def test_what_a_loop_assigns_again_is_numbered() -> None:
    operations, *_ = sections("y = x\nfor i in range(3):\n    y = sin(y)\ny", x=1.0)
    assert lines(operations) == ["y_1 = sin(x)", "y_2 = sin(y_1)", "y = sin(y_2)"]
    operations, *_ = sections("x = sin(x)\nx = exp(x)", x=1.0)  # an input's name, too
    assert lines(operations) == ["x_1 = sin(x)", "x_2 = exp(x_1)"]


def test_one_operation_is_no_chain() -> None:
    found = sections("softmax(x)", x=np.ones(2))
    assert [section.title.partition(":")[0] for section in found] == [
        "operations",
        "leaves",
        "derivatives",
    ]


def test_second_derivatives_where_the_spec_has_order_2() -> None:
    *_, second = sections("x**3 * w", steps=False, order=2, x=1.0, w=2.0)
    assert lines(second) == ["d2y/dxdx = 6*w*x", "d2y/dxdw = 3*x**2"]
    assert second.note == "1 others are 0"


def test_whole_numbers_are_taken_from_the_spec() -> None:
    value, _ = sections("sum(take(x, i))", steps=False, x=np.ones(3), i=np.array([2, 0]))
    assert lines(value) == ["y = x[0] + x[2]"]


def test_what_cannot_be_expressed_is_at_its_node() -> None:
    with pytest.raises(NodeFault) as caught:
        sections("exp(sum(sort(x)))", x=np.ones(3))
    assert "`sort`" in str(caught.value.__cause__)


def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derive, "PATIENCE_S", 0.01)
    with pytest.raises(TooHard):
        sections("sum(inv(x)**3)", x=np.eye(4))
