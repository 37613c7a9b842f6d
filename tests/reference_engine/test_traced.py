"""no_grad, and levels."""

from typing import Any

import numpy as np

from reference_engine import Tensor, exp, grad, jvp, no_grad, sin, tensor, to_array


def test_nothing_is_recorded_inside_no_grad() -> None:
    x = tensor(2.0, requires_grad=True)
    with no_grad():
        y = exp(x) * x
        with no_grad():
            assert not sin(x).requires_grad
        assert not sin(x).requires_grad
    assert isinstance(y, Tensor)
    assert not y.requires_grad
    assert x.requires_grad
    assert sin(x).requires_grad


def test_no_grad_ends_with_an_exception() -> None:
    x = tensor(2.0, requires_grad=True)
    try:
        with no_grad():
            raise KeyError
    except KeyError:
        pass
    assert exp(x).requires_grad


def test_no_grad_as_a_decorator() -> None:
    @no_grad()
    def update(x: Any) -> Any:
        return x - 0.1 * x

    x = tensor(2.0, requires_grad=True)
    assert not update(x).requires_grad
    assert not update(x).requires_grad


def test_a_transformation_inside_no_grad_works() -> None:
    x = tensor(2.0, requires_grad=True)
    with no_grad():
        g = grad(lambda t: t**3)(x)
        assert grad(grad(lambda t: t**3))(2.0) == 12
    assert g.item() == 12
    assert not g.requires_grad


def test_no_grad_inside_a_transformation_cuts_the_path() -> None:
    def f(x: Any) -> Any:
        with no_grad():
            factor = exp(x)
        return factor * x

    assert grad(f)(1.0) == np.exp(1.0)


def test_no_grad_leaves_forward_mode_alone() -> None:
    with no_grad():
        assert jvp(lambda x: x**3, (2.0,), (1.0,))[1] == 12


def test_to_array_reaches_the_bottom() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(to_array(x))
        return x * x

    grad(lambda x: jvp(f, (x,), (1.0,))[1])(3.0)
    assert type(seen[0]) is np.ndarray
    assert seen[0] == 3
