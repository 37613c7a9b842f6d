"""Calls of `autograd.Function`s are watched where they happen: no class but one that is called is
touched, and each is as it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from gradcheck_cli import check
from gradcheck_cli.engines.layer.custom import Passes
from gradcheck_cli.engines.torch.custom_functions import around_calls, solvers


class _Outer(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, depth: int) -> torch.Tensor:
        inner = _Inner.apply(x)
        return inner if depth == 0 else _Outer.apply(inner, depth - 1)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        return g, None


class _Inner(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


class _Derived(_Inner):
    """Has the forward of another class."""


class _Idle(torch.autograd.Function): ...  # type: ignore[misc]


TAKEN = {"outer": _Outer.apply, "inner": _Inner.apply, "derived": _Derived.apply}  # before


def test_each_call_is_inside_and_no_other_class_is_touched() -> None:
    entered: list[Any] = []
    inside: list[Any] = []

    @contextmanager
    def within(cls: Any) -> Iterator[None]:
        entered.append(cls)
        inside.append(cls)
        yield
        assert inside.pop() is cls

    before = {cls: dict(vars(cls)) for cls in (_Outer, _Inner, _Derived, _Idle)}
    x = torch.ones(3, requires_grad=True)
    with around_calls(within):
        TAKEN["outer"](x, 1)
        assert entered == [_Outer, _Inner, _Inner]  # the outer one inside itself once
        TAKEN["derived"](x)
        torch.utils.checkpoint.checkpoint(TAKEN["inner"], x, use_reentrant=True)
        assert entered[3:] == [_Derived, _Inner]  # and none of PyTorch's own
        assert {cls: dict(vars(cls)) for cls in before} == before
    TAKEN["inner"](x)
    assert len(entered) == 5
    assert not inside


def test_a_call_that_raises_is_left() -> None:
    entered: list[Any] = []

    @contextmanager
    def within(cls: Any) -> Iterator[None]:
        entered.append(cls)
        yield

    with around_calls(within):
        for _ in range(2):
            try:
                _Outer.apply(None, 0)
            except AttributeError:
                continue
            raise AssertionError
    assert entered == [_Outer, _Inner] * 2
    assert "apply" not in vars(torch.autograd.function._SingleLevelFunction)


class _ReadsOften(torch.autograd.Function):  # type: ignore[misc]
    """Two decisions by a helper, and one distribution that validates its arguments."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        if not _is_positive(x):
            return -x
        if not _is_positive(x + 1):
            return x
        return torch.distributions.Normal(0.0, 1.0).cdf(x)

    @staticmethod
    def backward(ctx: Any, bar: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return torch.distributions.Normal(0.0, 1.0).log_prob(x).exp() * bar


class _Iterates(torch.autograd.Function):  # type: ignore[misc]
    """y = cos(x y) by iteration."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x
        for _ in range(100):
            y, before = torch.cos(x * y), y
            if _is_positive(1e-6 - (y - before).abs()):
                break
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, bar: torch.Tensor) -> torch.Tensor:
        x, y = ctx.saved_tensors
        sine = torch.sin(x * y)
        return -y * sine / (1 + x * sine) * bar


def _is_positive(x: torch.Tensor) -> bool:
    return bool((x > 0).all())


@pytest.mark.parametrize(
    ("cls", "names"), [(_ReadsOften, frozenset()), (_Iterates, frozenset({"_Iterates"}))]
)
def test_a_solver_reads_numbers_in_a_loop(cls: Any, names: frozenset[str]) -> None:
    x = torch.tensor([0.3, 0.9], dtype=torch.float64, requires_grad=True)
    passes = Passes({"x": x}, ["x"], lambda: [cls.apply(x)], lambda: [None])
    assert solvers(passes) == names


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """Is wrong if both arguments are the same tensor."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.square = a is b
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return (g * a, None) if ctx.square else (g * b, g * a)


def test_a_function_that_is_wrong_for_one_tensor_given_twice_is_named() -> None:
    x = torch.tensor([0.3, -1.2])
    apart = check(lambda x: _Product.apply(x, 2 * x), x, dtypes=["float32"])
    assert not apart.findings
    (found,) = check(lambda x: _Product.apply(x, x), x, dtypes=["float32"]).findings
    assert found.code == "GC101"
    assert found.cause is not None
    assert (found.cause.op, found.cause.kind, found.cause.proven) == (
        "_Product",
        "wrong rule",
        True,
    )


def test_a_wrong_function_whose_class_each_call_makes_anew_is_named() -> None:
    def double(x: Any) -> Any:
        class Double(torch.autograd.Function):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return 2 * x

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return 3 * g

        return Double.apply(x)

    (found,) = check(lambda x: double(x).sin(), torch.tensor([0.3]), dtypes=["float32"]).findings
    cause = found.cause
    assert cause is not None
    assert (cause.op, cause.text, cause.proven) == ("Double", "3 * g", True)
