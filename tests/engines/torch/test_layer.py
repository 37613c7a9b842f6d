"""Forward mode of layers of PyTorch: which leaves have tangents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.layer.subject import Call, Layout, SubjectRequest
from gradcheck_cli.engines.torch import layer as layer_module
from gradcheck_cli.engines.torch.layer import TorchSubject
from tests.checks.making import examined, layer_problem

X, W = np.array([0.5, -1.5]), np.array([2.0, 0.25])


def bound(layer: Any, dtype: str = "float64", **values: Any) -> TorchSubject:
    problem = layer_problem(layer, values)
    return TorchSubject(SubjectRequest(problem.implementation, values, dtype, dtype))


class Product(torch.autograd.Function):
    """`given` has, for each call, which factors had a tangent."""

    given: list[tuple[bool, bool]] = []  # noqa: RUF012  noted by static methods

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x * w

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * w, g * x

    @staticmethod
    def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        Product.given.append((x_dot is not None, w_dot is not None))
        x, w = ctx.saved_tensors
        parts = [dot * by for dot, by in ((x_dot, w), (w_dot, x)) if dot is not None]
        return sum(parts)


def test_each_leaf_moves_alone_once_and_then_beside_zeros() -> None:
    Product.given = []
    layer = bound(Product, x=X, w=W)
    tangents = [{"x": X}, {"x": W}, {"w": X}, {"w": W}]
    found = layer.jvps(tangents)
    assert Product.given == [(True, False), (True, True), (False, True), (True, True)]
    for given, y_dot in zip(tangents, found, strict=True):
        np.testing.assert_array_equal(layer.jvp(given), y_dot)


def test_in_the_next_dtype_of_a_check_no_leaf_moves_alone() -> None:
    with surroundings():
        for dtype, alone in (("float32", 2), ("float64", 0)):
            Product.given = []
            bound(Product, dtype, x=X, w=W).jvps([{"x": X}, {"x": W}, {"w": X}, {"w": W}])
            assert len(Product.given) - Product.given.count((True, True)) == alone


def test_a_leaf_without_forward_mode_leaves_that_of_others() -> None:
    class NoTangent(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, w: Any) -> Any:
            return w.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    layer = bound(lambda x, w: x + NoTangent.apply(w), x=X, w=W)
    first, second, *others = layer.jvps([{"w": X}, {"w": W}, {"x": X}, {"x": W}])
    assert isinstance(first, Unsupported)
    assert first is second
    np.testing.assert_array_equal(others, [X, W])


def test_parameters_of_a_module_are_zeros_too() -> None:
    layer = bound(torch.nn.Linear(2, 3), input=X)
    tangents = [{"input": X}, {"input": W}, {"bias": np.ones(3)}, {"bias": np.arange(3.0)}]
    found = layer.jvps(tangents)
    for given, y_dot in zip(tangents, found, strict=True):
        np.testing.assert_array_equal(layer.jvp(given), y_dot)


def test_zeros_are_left_out_where_they_would_change_the_tangent() -> None:
    def infinite(x: Any, w: Any) -> Any:
        return x + torch.sqrt(w - w.detach())  # whose derivative by w is infinite

    def refused(x: Any, w: Any) -> Any:
        return x + Refused.apply(w)

    class Refused(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, w: Any) -> Any:
            return w.clone()

    for function in (infinite, refused):
        found = bound(function, x=X, w=W).jvps([{"x": X}, {"x": W}])
        np.testing.assert_array_equal(found, [X, W])


def test_a_leaf_without_a_part_in_the_output_has_no_tangent_beside_zeros() -> None:
    layer = bound(lambda x, w: torch.sin(x), x=X, w=W)
    assert layer.jvps([{"w": X}, {"w": W}]) == [None, None]


def test_a_jvp_that_is_wrong_beside_other_tangents_is_seen() -> None:
    class Wrong(Product):
        @staticmethod
        def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
            alone = w_dot is None or x_dot is None
            return (1.0 if alone else 2.0) * Product.jvp(ctx, x_dot, w_dot)

    answer = examined(Wrong, {"x": X, "w": W}, modes=("forward",))
    assert {finding.code for finding in answer.findings} == {"GC101"}


def test_a_layout_that_no_kernel_of_forward_mode_takes_is_unsupported() -> None:
    def product(x: Any, w: Any) -> Any:
        rows, columns = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
        return torch.sparse_csr_tensor(rows, columns, x, (2, 2)) @ w

    layer = bound(product, x=X, w=np.stack([W, X]))
    (found,) = layer.jvps([{"w": np.stack([X, W])}])
    assert isinstance(found, Unsupported)
    assert "SparseCsrCPU" in str(found)
    np.testing.assert_array_equal(layer.value({}), (X[:, None] * np.stack([W, X])).ravel())


@pytest.mark.parametrize(("factor", "codes"), [(1.0, set()), (1.3, {"GC101"})])
def test_without_a_backward_forward_mode_is_checked_alone(factor: float, codes: set[str]) -> None:
    class Rule(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_forward(x, y)
            return x * torch.sin(y)

        @staticmethod
        def jvp(ctx: Any, x_dot: Any, y_dot: Any) -> Any:
            x, y = ctx.saved_tensors
            return x_dot * torch.sin(y) + factor * y_dot * x * torch.cos(y)

    inputs = {"x": [0.3, -1.2], "y": [0.7, 2.0]}
    answer = examined(Rule.apply, inputs, modes=("forward",))
    assert answer.failure is None
    assert {finding.code for finding in answer.findings} == codes
    assert {(check.mode, check.input) for check in answer.checks} == {
        ("forward", "x"),
        ("forward", "y"),
    }
    failure = examined(Rule.apply, inputs).failure
    assert failure is not None
    assert "either the backward or vjp" in failure.message


class Twice(torch.autograd.Function):
    """Without a backward: only forward mode has its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def jvp(ctx: Any, x_dot: Any) -> Any:
        return 2 * x_dot


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return Twice.apply(x) * self.calls


@pytest.mark.parametrize("layer", [lambda x: Twice.apply(x) * torch.rand(2), Counting()])
def test_columns_of_forward_mode_see_the_state_that_the_value_saw(layer: Any) -> None:
    values = {"x": X}
    problem = layer_problem(layer, values)
    request = SubjectRequest(problem.implementation, values, "float64", "float64", forward=True)
    ran = TorchSubject(request).run(Call(cotangents=np.eye(2)))
    np.testing.assert_allclose(ran.gradients["x"], np.diag(ran.output / X), rtol=1e-14)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced", "expanded"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("entries", [1, 2**21])
def test_a_layer_that_writes_to_its_input_does_not_change_the_numbers_of_the_user(
    layout: Layout, dtype: str, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_module, "LARGE", entries)  # 1: made anew at every call
    numbers = np.arange(6.0).astype(dtype).reshape(2, 3)
    layer = bound(lambda x: x.detach().mul_(2.0) + 0.0 * x, dtype, x=numbers)
    for wrt in (None, ()):
        ran = layer.run(Call(cotangents=np.ones((1, 6)), inputs=layout, wrt=wrt))
        np.testing.assert_array_equal(ran.output, 2.0 * np.arange(6.0))
    np.testing.assert_array_equal(numbers, np.arange(6.0).reshape(2, 3))
