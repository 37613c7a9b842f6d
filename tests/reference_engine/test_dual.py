"""Forward mode, and what keeps nested derivatives apart."""

from typing import Any

import numpy as np
import pytest

from reference_engine import ShapeError, exp, grad, jvp, sin, tensor


def d(f: Any) -> Any:
    """The derivative of a function of one number, by forward mode."""
    return lambda x: jvp(f, (x,), (1.0,))[1]


def test_value_and_tangent() -> None:
    y, y_dot = jvp(lambda x, z: x * z, (2.0, np.ones(3)), (1.0, np.arange(3.0)))
    np.testing.assert_array_equal(y, [2, 2, 2])
    np.testing.assert_array_equal(y_dot, [1, 3, 5])


def test_what_does_not_depend_on_the_input_has_tangent_zero() -> None:
    for f in (lambda x: 7.0, lambda x: np.ones(2), lambda x: x > 1):
        y, y_dot = jvp(f, (2.0,), (1.0,))
        assert y_dot.shape == np.shape(y)
        assert not np.any(y_dot)


@pytest.mark.parametrize("inner", [d, grad])
@pytest.mark.parametrize("outer", [d, grad])
def test_no_perturbation_confusion(outer: Any, inner: Any) -> None:
    """d/dx [x d/dy (x + y)] = 1 and d/dx [x d/dy (x y)] = 2 x (Siskind and Pearlmutter 2005)."""
    assert outer(lambda x: x * inner(lambda y: x + y)(1.0))(1.0) == 1
    assert outer(lambda x: x * inner(lambda y: x * y)(3.0))(5.0) == 10
    assert outer(lambda x: inner(lambda y: x * x * y * y)(x))(3.0) == 6 * 9


@pytest.mark.parametrize("first", [d, grad])
@pytest.mark.parametrize("second", [d, grad])
@pytest.mark.parametrize("third", [d, grad])
def test_third_order_in_any_mix(first: Any, second: Any, third: Any) -> None:
    x = 0.7
    assert third(second(first(sin)))(x) == pytest.approx(-np.cos(x), rel=1e-15)
    assert third(second(first(lambda x: x**5)))(2.0) == 240


def test_tangents_may_be_recorded_too() -> None:
    """The derivative of J(x) u by u is J."""
    assert grad(lambda u: jvp(exp, (0.5,), (u,))[1])(3.0) == pytest.approx(np.exp(0.5))
    u = tensor(3.0, requires_grad=True)
    y, y_dot = jvp(exp, (np.asarray(0.5),), (u,))
    assert isinstance(y, np.ndarray)
    y_dot.backward()
    assert u.grad.item() == pytest.approx(np.exp(0.5))


def test_duals_over_recorded_tensors() -> None:
    x = tensor(0.5, requires_grad=True)
    _, y_dot = jvp(lambda t: t**3, (x,), (1.0,))
    y_dot.backward()
    assert x.grad.item() == 3.0


def test_wrong_calls() -> None:
    with pytest.raises(TypeError, match="as tuples"):
        jvp(exp, 1.0, 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="1 arguments and 2 tangents"):
        jvp(exp, (1.0,), (1.0, 1.0))
    with pytest.raises(ShapeError, match=r"\(2,\), \(3,\): tangent 0"):
        jvp(exp, (np.ones(2),), (np.ones(3),))
    with pytest.raises(TypeError, match="argument 0 has dtype int64"):
        jvp(exp, (1,), (1.0,))


def test_repr_shows_value_and_tangent() -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.append(repr(2 * x))
        return x

    jvp(f, (3.0,), (1.0,))
    assert seen == ["Dual(6.0, tangent=2.0)"]
