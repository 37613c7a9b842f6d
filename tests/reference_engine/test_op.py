"""How a row is called, and what a wrong call is told."""

import numpy as np
import pytest

from reference_engine import ShapeError, tensor
from reference_engine.op import REQUIRED, TABLE, Op, find, row


def test_keywords_may_follow_the_arrays_by_position() -> None:
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(TABLE["sum"](x, 0), x.sum(0))
    np.testing.assert_array_equal(TABLE["sum"](x, 0, True), x.sum(0, keepdims=True))
    np.testing.assert_array_equal(TABLE["clip"](x, 1, 2), x.clip(1, 2))
    np.testing.assert_array_equal(TABLE["reshape"](x, (3, 2)), x.reshape(3, 2))


def test_variadic_rows_take_arrays_or_a_list() -> None:
    x = np.arange(3.0)
    expected = np.stack([x, x], 1)
    np.testing.assert_array_equal(TABLE["stack"](x, x, axis=1), expected)
    np.testing.assert_array_equal(TABLE["stack"]([x, x], axis=1), expected)
    np.testing.assert_array_equal(TABLE["stack"]([x, x], 1), expected)
    recorded = TABLE["stack"]([tensor(x, requires_grad=True), x], 1)
    assert recorded.requires_grad
    np.testing.assert_array_equal(recorded.numpy(), expected)


def test_wrong_numbers_of_arguments_are_told() -> None:
    with pytest.raises(TypeError, match=r"add takes x1, x2; 1 arguments were given"):
        TABLE["add"](1.0)
    with pytest.raises(TypeError, match=r"sum takes x, axis, keepdims; 4 arguments were given"):
        TABLE["sum"](np.ones(3), 0, True, 1)
    with pytest.raises(TypeError, match="sum got axis twice"):
        TABLE["sum"](np.ones(3), 0, axis=0)
    with pytest.raises(TypeError, match="axes"):
        TABLE["sum"](np.ones(3), axes=0)
    with pytest.raises(TypeError, match="shape"):
        TABLE["reshape"](np.ones(3))


@pytest.mark.parametrize("traced", [False, True])
def test_shapes_that_do_not_fit_name_the_operation_and_the_shapes(traced: bool) -> None:
    x = tensor(np.ones((2, 3)), requires_grad=True) if traced else np.ones((2, 3))
    with pytest.raises(ShapeError, match=r"add does not fit shapes \(2, 3\), \(2,\)") as caught:
        TABLE["add"](x, np.ones(2))
    assert caught.value.op == "add"
    assert caught.value.shapes == ((2, 3), (2,))
    with pytest.raises(ShapeError, match=r"matmul does not fit shapes \(2, 3\), \(2, 3\)"):
        TABLE["matmul"](x, x)
    with pytest.raises(ShapeError, match=r"sum does not fit shapes \(2, 3\).*axis 2"):
        TABLE["sum"](x, axis=2)
    with pytest.raises(ShapeError, match=r"getitem does not fit shapes \(2, 3\).*index 5"):
        x[5] if traced else TABLE["getitem"](x, index=(5,))
    with pytest.raises(ShapeError, match=r"reshape does not fit shapes \(2, 3\)"):
        TABLE["reshape"](x, (4,))
    with pytest.raises(ShapeError, match=r"softmax does not fit shapes \(\)"):
        TABLE["softmax"](x[0, 0])


def test_find_resolves_aliases() -> None:
    assert find("pow") is find("power") is TABLE["power"]
    assert find("concat") is TABLE["concatenate"]
    assert find("no_such_operation") is None


def test_a_name_can_be_taken_only_once() -> None:
    with pytest.raises(ValueError, match="two rows are called exp"):
        row("other_exp", np.exp, None, aliases=("exp",))
    assert find("other_exp") is None


def test_arrays_and_keywords_are_those_of_the_value() -> None:
    def value(x: object, weight: object, *, axis: int, keepdims: bool = False) -> None: ...

    made = Op("made", value, None)
    assert made.arrays == ("x", "weight")
    assert dict(made.keywords) == {"axis": REQUIRED, "keepdims": False}
    assert Op("made", np.hypot, None).arrays == ("x1", "x2")
    assert Op("made", np.exp, None).arrays == ("x",)
    assert Op("made", value, None, keywords={"weight": 1}).arrays == ("x",)


def test_the_family_of_a_row_is_the_module_that_states_it() -> None:
    assert {TABLE[name].family for name in ("exp", "max_pool2d", "less")} == {
        "exponential",
        "pooling",
        "selection",
    }


def test_values_are_plain_arrays_of_the_arguments_dtype() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        x = np.array(2.0, dtype)
        for name, args in (("exp", (x,)), ("multiply", (x, 0.1)), ("where", (True, x, 0.5))):
            value = TABLE[name].value(*args)
            assert type(value) is np.ndarray
            assert value.dtype == dtype
    assert repr(REQUIRED) == "REQUIRED"
    assert repr(TABLE["exp"]) == "<op exp>"
