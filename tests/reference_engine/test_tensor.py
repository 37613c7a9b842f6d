"""Tensors as users hold them: requires_grad, .grad, .backward(), operators, indexing."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from reference_engine import GraphFreed, ShapeError, Tensor, exp, grad, jvp, no_grad, sin, tensor


def leaf(data: Any) -> Any:
    return tensor(data, requires_grad=True)


def test_gradients_accumulate_until_they_are_cleared() -> None:
    x = leaf([1.0, 2.0])
    for times in (1, 2, 3):
        (x * x).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), times * np.array([2.0, 4.0]))
    x.grad = None
    (3 * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3, 3])


def test_only_leaves_that_were_reached_get_a_gradient() -> None:
    x, untouched, constant = leaf([1.0]), leaf([1.0]), tensor([1.0])
    middle = x * constant
    middle.sum().backward()
    assert isinstance(x.grad, Tensor)
    assert not x.grad.requires_grad
    assert untouched.grad is None
    assert constant.grad is None
    assert middle.grad is None
    assert (x.is_leaf, middle.is_leaf) == (True, False)


def test_a_gradient_can_be_given_to_a_leaf_only() -> None:
    x = leaf([1.0])
    x.grad = tensor([5.0])
    (2 * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [7])
    for other in (2 * x, tensor([1.0])):
        other.grad = None
        with pytest.raises(TypeError, match="only a leaf"):
            other.grad = tensor([1.0])


def test_a_cotangent_weighs_the_output() -> None:
    x = leaf([1.0, 2.0, 3.0])
    (x**2).backward([1.0, 0.0, -1.0])
    np.testing.assert_array_equal(x.grad.numpy(), [2, 0, -6])
    with pytest.raises(ShapeError, match="needs a cotangent"):
        (x**2).backward()
    with pytest.raises(ShapeError, match=r"\(3,\), \(2,\)"):
        (x**2).backward([1.0, 1.0])


def test_second_backward_needs_the_graph() -> None:
    x = leaf(2.0)
    y = x**3
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 24
    with pytest.raises(GraphFreed, match="retain_graph=True"):
        y.backward()


def test_backward_frees_what_it_used() -> None:
    x = leaf(np.ones(3))
    inner = exp(x)
    y = sin(inner).sum()
    gone = weakref.ref(inner.value)
    del inner
    y.backward(retain_graph=True)
    gc.collect()
    assert gone() is not None
    y.backward()
    gc.collect()
    assert gone() is None


def test_create_graph_gives_every_order() -> None:
    x = leaf(2.0)
    (x**4).backward(create_graph=True)
    first, x.grad = x.grad, None
    assert first.requires_grad
    first.backward(create_graph=True)
    second, x.grad = x.grad, None
    second.backward()
    assert (first.item(), second.item(), x.grad.item()) == (32, 48, 48)


def test_operators_are_those_of_numpy() -> None:
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([2.0, 5.0])
    x = leaf(a)
    pairs: list[tuple[Any, Any]] = [
        (x + b, a + b),
        (b + x, b + a),
        (x - b, a - b),
        (b - x, b - a),
        (x * b, a * b),
        (2 * x, 2 * a),
        (np.float64(2) * x, 2 * a),
        (x / b, a / b),
        (b / x, b / a),
        (x**2, a**2),
        (2**x, 2**a),
        (x @ b, a @ b),
        (b @ x, b @ a),
        (-x, -a),
        (+x, a),
        (abs(-x), a),
        (x < 2, a < 2),
        (x <= 2, a <= 2),
        (x > b, a > b),
        (x >= b, a >= b),
        (x == 2, a == 2),
        (x != 2, a != 2),
        ((x > 1) & (x < 4), (a > 1) & (a < 4)),
        ((a > 1) | (x < 2), (a > 1) | (a < 2)),
        (~(x > 1), ~(a > 1)),
        (x.T, a.T),
        (x.sum(axis=0), a.sum(axis=0)),
        (x.mean(keepdims=True), a.mean(keepdims=True)),
        (x.prod(1), a.prod(1)),
        (x.max(), a.max()),
        (x.min(axis=-1), a.min(axis=-1)),
        (x.reshape(4), a.reshape(4)),
        (x.reshape(1, -1), a.reshape(1, -1)),
        (x.reshape((4, 1)), a.reshape(4, 1)),
        (x.transpose(), a.T),
        (x.transpose(1, 0), a.T),
        (x.transpose((0, 1)), a),
        (x[0], a[0]),
        (x[..., None, ::-1], a[..., None, ::-1]),
        (x[x > 1], a[a > 1]),
        (x[[1, 1, 0]], a[[1, 1, 0]]),
    ]
    for ours, theirs in pairs:
        assert isinstance(ours, Tensor)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.numpy(), theirs)
        assert ours.requires_grad == (theirs.dtype == np.float64)
    assert (x.shape, x.ndim, x.size, len(x)) == ((2, 2), 2, 4, 2)
    assert [row.numpy().tolist() for row in x] == a.tolist()


def test_an_element_that_was_taken_twice_counts_twice() -> None:
    x = leaf([1.0, 2.0])
    x[[1, 1, 0]].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 2])


def test_the_graph_follows_the_code_that_runs() -> None:
    def f(x: Any) -> Any:
        while x < 100:
            x = x * x
        return x if x > 1000 else 2 * x

    assert grad(f)(3.0) == 8 * 3.0**7
    assert jvp(f, (3.3,), (1.0,))[1] == pytest.approx(2 * 4 * 3.3**3)
    x = leaf(3.0)
    f(x).backward()
    assert x.grad.item() == 8 * 3.0**7


def test_data_is_copied_and_keeps_its_dtype() -> None:
    data = np.ones(2, np.float32)
    x = tensor(data)
    data[0] = 5
    np.testing.assert_array_equal(x.numpy(), [1, 1])
    assert x.dtype == np.float32
    assert tensor([1, 2]).dtype == np.int64
    assert tensor(1.5, dtype="float16").dtype == np.float16
    assert tensor(1.5, dtype="bfloat16", requires_grad=True).dtype.name == "bfloat16"
    assert tensor(x, requires_grad=True).requires_grad


@pytest.mark.parametrize("data", [1, [True, False], np.arange(3), np.ones(2, np.complex128)])
def test_only_floats_require_gradients(data: Any) -> None:
    with pytest.raises(TypeError, match="only float16, bfloat16, float32 and float64"):
        tensor(data, requires_grad=True)


def test_leaving_the_graph_is_never_an_accident() -> None:
    x = leaf([2.0])
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        np.asarray(x)
    with pytest.raises(TypeError, match=r"\.item\(\)"):
        float(x[0])
    with pytest.raises(TypeError, match="detach"):
        tensor(x)
    with pytest.raises(TypeError):
        np.exp(x)
    assert x.item() == 2.0
    assert not x.detach().requires_grad
    assert float(x.detach()[0]) == 2.0
    np.testing.assert_array_equal(np.asarray(x.detach()), [2.0])
    with pytest.raises(TypeError, match="0-d"):
        len(x[0])


def test_backward_needs_something_that_requires_a_gradient() -> None:
    with pytest.raises(TypeError, match="requires_grad=True"):
        tensor([1.0]).sum().backward()


def test_training_step() -> None:
    """w <- w - rate * gradient, as in any framework, finds the line through the points."""
    x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])
    w, b = leaf(0.0), leaf(0.0)
    for _ in range(500):
        ((w * x + b - y) ** 2).mean().backward()
        with no_grad():
            w, b = leaf(w - 0.2 * w.grad), leaf(b - 0.2 * b.grad)
    assert w.item() == pytest.approx(2)
    assert b.item() == pytest.approx(1)


def test_repr_shows_the_numbers() -> None:
    assert repr(leaf([1.0, 2.0])) == "tensor([1., 2.], dtype=float64, requires_grad=True)"
    assert repr(tensor([1, 2])) == "tensor([1, 2], dtype=int64)"
