"""The reverse walk: depth, shared parts, broadcasting, and sensitivities of what was recorded."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from reference_engine import (
    ShapeError,
    custom_gradient,
    exp,
    getitem,
    grad,
    hessian,
    jvp,
    mean,
    multiply,
    no_grad,
    sin,
    tensor,
    value_and_grad,
    vjp,
)
from reference_engine import sum as sum_
from reference_engine.op import TABLE
from reference_engine.tape import sensitivities


def test_a_graph_of_100_000_operations_needs_no_recursion() -> None:
    x = tensor(1.0, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + x
    y.backward(create_graph=True)
    assert x.grad.item() == 100_001
    del y
    x.grad = None  # dropping the recorded backward pass must not recurse either


def test_a_deep_chain_in_second_order() -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(3_000):
            y = sin(y)
        return y

    h = 1e-4  # truncation h^2/6 f''' and rounding 1e-16/h, both below 1e-8 here
    second = grad(grad(f))(1.0)
    assert second == pytest.approx((grad(f)(1 + h) - grad(f)(1 - h)) / (2 * h), rel=1e-6)


def test_shared_parts_are_walked_once() -> None:
    """y = x + x, then y = y + y, ...: 2^60 paths, 60 operations."""
    x = tensor(1.0, requires_grad=True)
    y = x
    for _ in range(60):
        y = y + y
    assert len(sensitivities(y)) == 60
    y.backward()
    assert x.grad.item() == 2.0**60


def test_an_array_that_no_rule_reads_is_freed_on_the_way_forward() -> None:
    """sin reads its argument, which is 2 x; + and mean read nothing."""
    alive: list[bool] = []

    def f(x: Any) -> Any:
        doubled = 2 * x
        shifted = sin(doubled) + 1
        arrays = [weakref.ref(v.value) for v in (doubled, shifted)]
        y = mean(shifted + x)
        del doubled, shifted
        alive.extend(ref() is not None for ref in arrays)
        return y

    grad(f)(np.ones(3))
    assert alive == [True, False]


@pytest.mark.parametrize("how", ["backward", "value_and_grad"])
def test_the_pass_back_frees_as_it_goes(how: str) -> None:
    """When the gradient of the first operation is due, what the later ones kept is gone."""
    kept: list[Any] = []
    left: list[int] = []

    def pull(y_bar: Any, x: Any) -> Any:
        gc.collect()
        left.append(sum(ref() is not None for ref in kept))
        return y_bar

    @custom_gradient(pull)
    def same(x: Any) -> Any:
        return 1 * x

    def f(x: Any) -> Any:
        y = same(x)
        for _ in range(5):
            y = exp(y / 3)
            kept.append(weakref.ref(y.value))
        return sum_(y)

    if how == "backward":
        f(tensor(np.ones(3), requires_grad=True)).backward()
    else:
        value_and_grad(f)(np.ones(3))
    assert left == [0]


def test_pulling_back_again_needs_what_was_kept() -> None:
    _, pull = vjp(lambda x: exp(sin(x)), np.array([0.5, 1.0]))
    first, second = pull(np.array([1.0, 0.0])), pull(np.array([1.0, 0.0]))
    np.testing.assert_array_equal(first, second)


def test_cotangents_that_are_added_up_change_no_array_of_anybody() -> None:
    x, c = np.arange(3.0), np.ones(3)
    _, pull = vjp(lambda x: x + x + x + x[:] + x[:], x)
    (x_bar,) = pull(c)
    np.testing.assert_array_equal(x_bar, [5, 5, 5])
    np.testing.assert_array_equal(c, [1, 1, 1])
    (x_bar,) = vjp(lambda x, first=slice(1): x[first] + x, x)[1](c)  # c itself arrives first
    np.testing.assert_array_equal(x_bar, [4, 1, 1])
    np.testing.assert_array_equal(c, [1, 1, 1])
    a_bar, b_bar = vjp(lambda a, b: a + b + (a + a), x, x)[1](c)
    np.testing.assert_array_equal(a_bar, [3, 3, 3])
    np.testing.assert_array_equal(b_bar, [1, 1, 1])


def test_parts_of_one_array_add_up() -> None:
    x = np.arange(12.0).reshape(3, 4)

    def f(x: Any) -> Any:
        rows = x[0] * x[-1] + x[[1, 1, 2]].sum(axis=0)
        return sum_(rows * rows) + sum_(x * x) + x[1, 2] ** 3 + sum_(x[..., ::2]) * x[0, 0]

    whole = grad(f)(x)
    user = tensor(x, requires_grad=True)
    f(user).backward()
    np.testing.assert_array_equal(user.grad.numpy(), whole)
    h = 1e-6  # truncation below h^2 1e3, rounding 1e-13 / h
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = h
        slope = (float(f(x + step)) - float(f(x - step))) / (2 * h)
        assert whole[at] == pytest.approx(slope, abs=1e-4)
    along = jvp(grad(f), (x,), (np.ones_like(x),))[1]
    np.testing.assert_allclose(along, hessian(f)(x).sum(axis=(2, 3)), rtol=1e-14)


def test_a_part_of_an_array_that_is_also_summed() -> None:
    def f(x: Any) -> Any:
        first = x[:1]
        return sum_(x) + sum_(x) + sum_(first)

    np.testing.assert_array_equal(grad(f)(np.ones(3)), [3, 2, 2])


def test_taking_an_array_apart_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each element's cotangent goes where it belongs, without an array of zeros for each."""
    made: list[tuple[int, ...]] = []
    zeros = np.zeros

    def counted(shape: Any, *rest: Any, **keywords: Any) -> Any:
        made.append(shape)
        return zeros(shape, *rest, **keywords)

    monkeypatch.setattr(np, "zeros", counted)
    x_bar = grad(lambda x: sum((x[i] * x[i] for i in range(100)), 0.0))(np.arange(100.0))
    assert len(made) == 1
    np.testing.assert_array_equal(x_bar, 2 * np.arange(100.0))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("reduction", [sum_, mean])
def test_cotangents_of_sums_meet_every_kind_of_operation(reduction: Any, axis: Any) -> None:
    """What is constant along an axis is repeated at the latest where an operation needs it so."""
    x, row, column = np.arange(6.0).reshape(2, 3) + 1, np.arange(3.0), np.ones((2, 1))
    count = 1 if reduction is sum_ else x.size // reduction(x, axis=axis).size
    weight = np.full((2, 3), 1 / count)

    def gradients(f: Any, *xs: Any) -> Any:
        y, pull = vjp(lambda *xs: reduction(f(*xs), axis=axis), *xs)
        return pull(np.ones(y.shape))

    np.testing.assert_array_equal(gradients(lambda x: x, x)[0], weight)
    np.testing.assert_allclose(
        gradients(lambda x: exp(sin(x) + 1), x)[0],
        weight * np.exp(np.sin(x) + 1) * np.cos(x),
        rtol=1e-14,
    )
    np.testing.assert_array_equal(gradients(lambda x: x.T.T, x)[0], weight)
    np.testing.assert_array_equal(gradients(lambda a: a[::-1], x)[0], weight)
    for other in (row, column):
        x_bar, other_bar = gradients(lambda a, b: a + b, x, other)
        np.testing.assert_array_equal(x_bar, weight)
        np.testing.assert_allclose(other_bar, np.full(other.shape, x.size / other.size / count))
    row_bar, column_bar = gradients(lambda a, b: a * b, row, column)
    np.testing.assert_allclose(row_bar, np.full(3, 2 / count))
    np.testing.assert_allclose(column_bar, np.full((2, 1), 3 / count))
    both = gradients(lambda x: multiply(x, x) + x + getitem(x, index=slice(None)), x)[0]
    np.testing.assert_allclose(both, weight * (2 * x + 2), rtol=1e-14)


@pytest.mark.parametrize(
    ("a", "b"), [((), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((1, 1), (2, 3)), ((1,), (0,))]
)
def test_broadcasting_is_undone(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = np.full(a, 2.0), np.full(b, 3.0)
    _, pull = vjp(lambda x, y: x * y, x, y)
    x_bar, y_bar = pull(np.ones(b))
    assert (x_bar.shape, y_bar.shape) == (a, b)
    np.testing.assert_array_equal(x_bar, np.full(a, 3.0 * y.size / x.size))
    np.testing.assert_array_equal(y_bar, np.full(b, 2.0))


def test_promotion_is_undone() -> None:
    x = tensor(np.ones(2, np.float32), requires_grad=True)
    w = tensor(np.full(2, 0.1), requires_grad=True)
    y = (x * w).sum()
    assert y.dtype == np.float64
    y.backward()
    assert (x.grad.dtype, w.grad.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(x.grad.numpy(), np.full(2, 0.1, np.float32))


def test_sensitivities_of_a_forward_pass() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = 3 * exp(x)
    rows = sensitivities(y, np.array([1.0, 10.0]))
    assert [op.name for op, _, _ in rows] == ["exp", "multiply"]
    np.testing.assert_allclose(rows[0][1], np.exp([1, 2]))
    np.testing.assert_array_equal(rows[0][2], [3, 30])
    np.testing.assert_array_equal(rows[1][1], y.numpy())
    np.testing.assert_array_equal(rows[1][2], [1, 10])
    assert x.grad is None
    y.backward([1.0, 1.0])  # the tape was kept


@pytest.mark.parametrize("how", ["backward", "vjp of arrays", "vjp of tensors", "grad"])
def test_sensitivities_span_both_passes(how: str) -> None:
    """g = d/dx sin(exp(x)) = cos(e) e with e = exp(x), which both passes use."""
    x = tensor(0.5, requires_grad=True)

    def f(x: Any) -> Any:
        return sin(exp(x))

    if how == "backward":
        f(x).backward(create_graph=True)
        g = x.grad
    elif how == "vjp of arrays":
        g = vjp(f, 0.5, create_graph=True)[1]()[0]
    elif how == "vjp of tensors":
        g = vjp(f, x, create_graph=True)[1]()[0]
    else:
        g = grad(f, create_graph=True)(0.5)
    e = np.exp(0.5)
    rounding = sorted(op.name for op, _, _ in sensitivities(g) if not op.exact)
    assert rounding == ["cos", "exp", "multiply", "multiply"]
    by_name = {op.name: (value, bar) for op, value, bar in sensitivities(g)}
    assert by_name["exp"][0] == pytest.approx(e)
    assert by_name["exp"][1] == pytest.approx(np.cos(e) - np.sin(e) * e, rel=1e-14)
    assert by_name["cos"][1] == pytest.approx(e)
    assert "sin" not in by_name  # the value of sin does not matter to the gradient


def test_sensitivities_predict_what_a_perturbation_does() -> None:
    """Move each recorded value a little, by hand, in the program that backward runs."""

    def gradient(a: float = 0, b: float = 0, c: float = 0, d: float = 0) -> float:
        square = 1.3 * 1.3 + a
        first = np.exp(square) + b  # y = exp(x^2); g = 2 x exp(x^2)
        second = 2 * 1.3 + c
        return float(first * second) + d

    x = tensor(1.3, requires_grad=True)
    exp(TABLE["square"](x)).backward(create_graph=True)
    rows = sensitivities(x.grad)
    h = 1e-6
    moved = [(gradient(**{k: h}) - gradient(**{k: -h})) / (2 * h) for k in ("a", "b", "c", "d")]
    found = [float(bar) for _, _, bar in rows]
    for slope in moved:  # truncation h^2, rounding 1e-15 / h
        assert np.isclose(found, slope, rtol=1e-8).any()


def test_sensitivities_of_nothing_recorded() -> None:
    with pytest.raises(TypeError, match="recorded"):
        sensitivities(tensor(1.0, requires_grad=True))
    with no_grad(), pytest.raises(TypeError, match="recorded"):
        sensitivities(exp(tensor(1.0, requires_grad=True)))
    with pytest.raises(ShapeError, match="cotangent"):
        sensitivities(exp(tensor([1.0], requires_grad=True)))
