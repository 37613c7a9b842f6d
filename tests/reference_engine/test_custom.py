"""Derivatives that the user states."""

from typing import Any

import numpy as np
import pytest

from reference_engine import (
    WrongGradientShape,
    custom_gradient,
    exp,
    grad,
    hessian,
    jacobian,
    jvp,
    sensitivities,
    sin,
    tensor,
    vjp,
)
from reference_engine import sum as sum_


@custom_gradient(lambda upstream, x: -upstream * exp(-x))
def reciprocal_exp(x: Any) -> Any:
    """1 / exp(x)"""
    return 1 / exp(x)


@custom_gradient(lambda upstream, x: 3 * upstream * x)  # wrong on purpose: x^2 has 2 x
def tripled(x: Any) -> Any:
    return x * x


def test_the_stated_rule_is_followed_in_every_order_and_mode() -> None:
    x = 2.0
    f = reciprocal_exp
    assert grad(f)(x) == pytest.approx(-np.exp(-x))
    assert jvp(f, (x,), (3.0,))[1] == pytest.approx(-3 * np.exp(-x))
    for second in (
        grad(grad(f))(x),
        jvp(grad(f), (x,), (1.0,))[1],
        grad(lambda x: jvp(f, (x,), (1.0,))[1])(x),
        hessian(f)(x),
    ):
        assert second == pytest.approx(np.exp(-x))
    assert grad(reciprocal_exp)(1000.0) == 0  # where 1 / exp(x) itself gives nan
    assert reciprocal_exp.__name__ == "reciprocal_exp"
    assert reciprocal_exp.__doc__ == "1 / exp(x)"


def test_a_wrong_rule_is_followed_all_the_same() -> None:
    assert grad(tripled)(2.0) == 6
    assert jvp(tripled, (2.0,), (1.0,))[1] == 6
    assert grad(grad(tripled))(2.0) == 3
    assert jvp(jacobian(tripled), (2.0,), (1.0,))[1] == 3


def test_a_stated_tangent_serves_forward_mode_alone() -> None:
    @custom_gradient(lambda g, x: 2 * x * g, jvp=lambda x_dot, x: 5 * x * x_dot)
    def square(x: Any) -> Any:
        return x * x

    assert grad(square)(3.0) == 6
    assert jvp(square, (3.0,), (1.0,))[1] == 15
    assert jvp(grad(square), (3.0,), (1.0,))[1] == 2
    assert grad(lambda x: jvp(square, (x,), (1.0,))[1])(3.0) == 5


def test_several_arguments_and_none() -> None:
    @custom_gradient(lambda g, a, b, n: (g * b, None, None))
    def scaled(a: Any, b: Any, n: Any) -> Any:
        return a * b * n

    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    y, pull = vjp(lambda a, b: scaled(a, b, 2), a, b, unconnected="none")
    np.testing.assert_array_equal(y, 2 * a * b)
    a_bar, b_bar = pull(np.ones(2))
    np.testing.assert_array_equal(a_bar, b)
    assert b_bar is None
    y_dot = jvp(lambda a, b: scaled(a, b, 2), (a, b), (np.ones(2), np.ones(2)))[1]
    np.testing.assert_array_equal(y_dot, b)
    y_dot = jvp(lambda b: scaled(a, b, 2), (b,), (np.ones(2),))[1]
    np.testing.assert_array_equal(y_dot, [0, 0])


def test_a_stated_tangent_gets_zeros_for_constants() -> None:
    @custom_gradient(
        lambda g, a, b: (g * b, g * a), jvp=lambda a_dot, b_dot, a, b: a_dot * b + a * b_dot
    )
    def product(a: Any, b: Any) -> Any:
        return a * b

    assert jvp(lambda b: product(2.0, b), (3.0,), (1.0,))[1] == 2
    assert jvp(product, (2.0, 3.0), (1.0, 10.0))[1] == 23


def test_the_transpose_adds_up_the_arguments() -> None:
    @custom_gradient(lambda g, a, b: (g * b, g * a))
    def product(a: Any, b: Any) -> Any:
        return a * b

    assert jvp(product, (2.0, 3.0), (1.0, 10.0))[1] == 23


def test_the_transpose_of_a_rule_that_reduces() -> None:
    """y = sum(x), whose stated rule broadcasts; forward mode sums again."""

    @custom_gradient(lambda g, x: g * np.ones(3))
    def total(x: Any) -> Any:
        return sum_(x)

    assert jvp(total, (np.arange(3.0),), (np.array([1.0, 10.0, 100.0]),))[1] == 111


def test_a_rule_that_ignores_upstream() -> None:
    """Reverse mode believes it; its transpose, being linear in upstream, is zero."""

    @custom_gradient(lambda g, x: -exp(-x))
    def f(x: Any) -> Any:
        return exp(-x)

    _, pull = vjp(f, 1.0)
    np.testing.assert_allclose(pull(7.0)[0], -np.exp(-1.0))
    assert jvp(f, (1.0,), (1.0,))[1] == 0


def test_wrong_shapes_name_function_argument_and_shapes() -> None:
    @custom_gradient(lambda g, a, b: (g, sum_(g)))
    def f(a: Any, b: Any) -> Any:
        return a + b

    with pytest.raises(WrongGradientShape, match=r"f gives a gradient of shape \(\)") as caught:
        vjp(f, np.ones(2), np.ones(2))[1](np.ones(2))
    error = caught.value
    assert (error.function, error.argument) == ("f", 1)
    assert (error.expected, error.given) == ((2,), ())
    with pytest.raises(WrongGradientShape):
        jvp(f, (np.ones(2), np.ones(2)), (np.ones(2), np.ones(2)))

    @custom_gradient(lambda g, a: g.reshape(2, 1))
    def column(a: Any) -> Any:
        return a

    with pytest.raises(WrongGradientShape):  # as many elements do not make a shape
        vjp(column, np.ones(2))[1](np.ones(2))

    @custom_gradient(lambda g, a: g, jvp=lambda a_dot, a: sum_(a_dot))
    def h(a: Any) -> Any:
        return a

    with pytest.raises(WrongGradientShape, match="tangent") as caught:
        jvp(h, (np.ones(2),), (np.ones(2),))
    assert caught.value.argument is None


def test_wrong_number_of_gradients() -> None:
    @custom_gradient(lambda g, a, b: g)
    def f(a: Any, b: Any) -> Any:
        return a + b

    with pytest.raises(TypeError, match="f gives 1 gradients for 2 arguments"):
        grad(f)(1.0, 2.0)


def test_captured_values_must_be_arguments() -> None:
    def outer(w: Any) -> Any:
        @custom_gradient(lambda g, x: g)
        def f(x: Any) -> Any:
            return w * x

        return f(w)

    with pytest.raises(TypeError, match="captures a value"):
        grad(outer)(2.0)


def test_on_the_users_tape() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = sin(reciprocal_exp(x)).sum()
    assert [op.name for op, _, _ in sensitivities(y)] == ["reciprocal_exp", "sin", "sum"]
    y.backward(create_graph=True)
    e = np.exp(-x.numpy())
    np.testing.assert_allclose(x.grad.numpy(), -np.cos(e) * e)
    first, x.grad = x.grad, None
    first.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(e) * e - np.sin(e) * e * e)


def test_inside_other_custom_gradients() -> None:
    @custom_gradient(lambda g, x: g * tripled(x))
    def f(x: Any) -> Any:
        return tripled(x)

    assert f(3.0) == 9
    assert grad(f)(3.0) == 9
    assert grad(grad(f))(3.0) == 9  # the wrong rule of `tripled`, inside the rule of f
