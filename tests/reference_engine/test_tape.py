"""The reverse walk: depth, shared parts, broadcasting, and sensitivities of what was recorded."""

from typing import Any

import numpy as np
import pytest

from reference_engine import ShapeError, exp, grad, no_grad, sin, tensor, vjp
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
