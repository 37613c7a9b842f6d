"""vjp, grad, jacobian, hessian."""

from typing import Any

import numpy as np
import pytest

from reference_engine import (
    ShapeError,
    Tensor,
    exp,
    grad,
    hessian,
    jacobian,
    jvp,
    log,
    prod,
    sin,
    stack,
    stop_gradient,
    tensor,
    transforms,
    value_and_grad,
    vjp,
)
from reference_engine import sum as sum_


def test_a_pulled_back_cotangent() -> None:
    y, pull = vjp(lambda a, b: a * b, np.array([1.0, 2.0]), np.array(3.0))
    np.testing.assert_array_equal(y, [3, 6])
    assert type(y) is np.ndarray
    for scale in (1.0, 10.0):  # it can be called again
        a_bar, b_bar = pull(scale * np.array([1.0, 1.0]))
        np.testing.assert_array_equal(a_bar, [3 * scale, 3 * scale])
        assert b_bar == 3 * scale
    with pytest.raises(ShapeError, match="cotangent"):
        pull()
    with pytest.raises(ShapeError, match="cotangent"):
        pull(np.ones(3))


def test_unconnected_inputs() -> None:
    def f(x: Any, unused: Any, cut: Any) -> Any:
        return x * stop_gradient(cut)

    xs = (1.0, np.ones(2, np.float32), 2.0)
    x_bar, unused_bar, cut_bar = vjp(f, *xs)[1]()
    assert (x_bar, cut_bar) == (2, 0)
    np.testing.assert_array_equal(unused_bar, [0, 0])
    assert unused_bar.dtype == np.float32
    assert vjp(f, *xs, unconnected="none")[1]() == (2, None, None)
    assert vjp(lambda x: 3.0, 1.0)[1]() == (0,)


def test_argnums() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        return a * b**2 * c

    assert grad(f)(2.0, 3.0, 5) == 45  # an argument that is not asked about may be an integer
    assert grad(f, 1)(2.0, 3.0, 5) == 60
    assert grad(f, (1, 0))(2.0, 3.0, 5) == (60, 45)
    assert grad(f, -1)(2.0, 3.0, 5.0) == 18
    with pytest.raises(TypeError, match="argnums has 3, but 3 arguments"):
        grad(f, 3)(2.0, 3.0, 5.0)
    with pytest.raises(TypeError, match="dtype int64"):
        grad(f, 2)(2.0, 3.0, 5)


def test_value_and_gradient_together() -> None:
    y, x_bar = value_and_grad(lambda x: sum_(x**2))(np.array([1.0, 2.0]))
    assert type(y) is np.ndarray
    assert y == 5
    np.testing.assert_array_equal(x_bar, [2, 4])
    y, (a_bar, b_bar) = value_and_grad(lambda a, b, c: a * b + c, (0, 1))(2.0, 3.0, 4)
    assert (y, a_bar, b_bar) == (10, 3, 2)
    assert value_and_grad(lambda x: 3.0)(1.0) == (3, 0)
    x = tensor(2.0, requires_grad=True)
    y, first = value_and_grad(lambda x: x**3, create_graph=True)(x)
    (y + first).backward()  # x^3 + 3 x^2
    assert x.grad.item() == 12 + 12


def test_grad_wants_a_scalar() -> None:
    for transformation in (grad, value_and_grad):
        with pytest.raises(ShapeError, match="must return a scalar; see jacobian"):
            transformation(exp)(np.ones(2))
    with pytest.raises(TypeError, match="must return one array"):
        grad(lambda x: (x, x))(1.0)


def test_results_are_of_the_kind_of_the_inputs() -> None:
    assert type(grad(sin)(1.0)) is np.ndarray
    assert type(grad(lambda x: tensor(2.0) * x)(1.0)) is np.ndarray  # a constant changes nothing
    plain = grad(sin)(tensor(1.0))
    assert isinstance(plain, Tensor)
    assert not plain.requires_grad
    x = tensor(2.0, requires_grad=True)
    recorded = grad(lambda t: t**3)(x)
    assert recorded.requires_grad
    recorded.backward()
    assert x.grad.item() == 12


def test_tensors_that_a_function_captures_stay_connected() -> None:
    w = tensor(3.0, requires_grad=True)
    grad(lambda x: w * x**2)(2.0).backward()  # d/dw of 2 w x
    assert w.grad.item() == 4


def test_create_graph_stays_connected_to_the_users_tensors() -> None:
    x, w = tensor(2.0, requires_grad=True), tensor(3.0, requires_grad=True)
    y, pull = vjp(lambda x: w * x**3, x, create_graph=True)
    (g,) = pull()
    assert (y.item(), g.item()) == (24, 36)
    (g + y).backward()  # 3 w x^2 + w x^3
    assert (x.grad.item(), w.grad.item()) == (6 * 3 * 2 + 36, 12 + 8)
    unconnected = vjp(lambda x: w * 2, x, create_graph=True)[1]()[0]
    assert isinstance(unconnected, Tensor)
    assert unconnected.item() == 0
    with pytest.raises(TypeError, match="create_graph"):
        grad(grad(sin, create_graph=True))(1.0)


def test_create_graph_does_not_walk_beyond_its_arguments() -> None:
    x = tensor(2.0, requires_grad=True)
    z = x * x
    z.backward()  # z's own graph is gone, but nothing of it is needed
    (g,) = vjp(lambda t: t**3, z, create_graph=True)[1]()
    assert g.item() == 48


def test_jacobian_has_outputs_along_its_first_axes() -> None:
    x = np.arange(1.0, 4.0)

    def f(x: Any) -> Any:
        return stack(x * x, x[0] * x, axis=0)

    expected = np.zeros((2, 3, 3))
    expected[0] = np.diag(2 * x)
    expected[1] = np.eye(3)
    expected[1, :, 0] += x
    for mode in (None, "reverse", "forward"):
        np.testing.assert_array_equal(jacobian(f, mode=mode)(x), expected)
    a, b = jacobian(lambda a, b: a * b, (0, 1))(np.ones(2), np.array(4.0))
    np.testing.assert_array_equal(a, 4 * np.eye(2))
    np.testing.assert_array_equal(b, [1, 1])


@pytest.mark.parametrize("mode", [None, "reverse", "forward"])
def test_jacobian_of_nothing(mode: Any) -> None:
    assert jacobian(exp, mode=mode)(np.zeros(0)).shape == (0, 0)
    assert jacobian(lambda x: x[:0], mode=mode)(np.ones(2)).shape == (0, 2)
    assert jacobian(lambda x: sum_(x) * np.ones(2), mode=mode)(np.zeros(0)).shape == (2, 0)
    assert jacobian(sum_, mode=mode)(np.ones((2, 2))).shape == (2, 2)


class Passes:
    """Counts the passes of dual numbers, and the walks back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.forward = self.back = 0
        pull_back = transforms.pull_back

        def forward(*args: Any) -> Any:
            self.forward += 1
            return jvp(*args)

        def back(*args: Any, **keywords: Any) -> Any:
            self.back += 1
            return pull_back(*args, **keywords)

        monkeypatch.setattr(transforms, "jvp", forward)
        monkeypatch.setattr(transforms, "pull_back", back)


def test_jacobian_takes_the_cheaper_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Passes(monkeypatch)
    jacobian(lambda x: stack(sum_(x), prod(x)))(np.ones(5))
    assert (passes.forward, passes.back) == (0, 2)
    jacobian(lambda x: sum_(x) * np.ones(5))(np.ones(2))
    assert (passes.forward, passes.back) == (2, 2)


def test_hessian_is_forward_over_reverse(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Passes(monkeypatch)
    hessian(lambda x: sum_(x**3))(np.ones(5))
    assert (passes.forward, passes.back) == (5, 5)


def test_hessian_of_a_product() -> None:
    x = np.array([2.0, 0.0, 5.0])
    expected = [[0, 5, 0], [5, 0, 2], [0, 2, 0]]
    np.testing.assert_array_equal(hessian(prod)(x), expected)
    np.testing.assert_array_equal(jacobian(grad(prod), mode="reverse")(x), expected)
    np.testing.assert_array_equal(
        hessian(lambda c, x: c * prod(x), 1)(2.0, x), 2 * np.array(expected)
    )


def test_derivatives_of_jacobians_and_hessians() -> None:
    trace = lambda x: sum_(hessian(lambda x: sum_(x**4))(x))  # noqa: E731
    np.testing.assert_array_equal(grad(trace)(np.array([1.0, 2.0])), [24, 48])
    y_dot = jvp(jacobian(lambda x: x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))[1]
    np.testing.assert_array_equal(y_dot, np.diag([6.0, 12.0]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_dtype_is_kept_throughout(dtype: str) -> None:
    x = tensor([0.5, 1.0], dtype=dtype).numpy()
    f = lambda x: sum_(sin(0.5 * x) / 3 + x**2)  # noqa: E731
    for result in (grad(f)(x), jacobian(exp)(x), hessian(f)(x), jvp(f, (x,), (x,))[1]):
        assert result.dtype == x.dtype


def test_transformations_keep_quiet_about_overflow() -> None:
    with np.errstate(all="raise"):
        assert grad(lambda x: 1 / exp(x))(1000.0) != 0  # nan, and no exception
        assert jvp(exp, (1000.0,), (1.0,))[1] == np.inf
        _, pull = vjp(log, 0.0)
        assert pull() == (np.inf,)
