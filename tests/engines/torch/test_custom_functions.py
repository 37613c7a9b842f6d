"""Calls of `autograd.Function`s are watched where they happen: no class but one that is called is
touched, and each is as it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gradcheck_cli.engines.torch.custom_functions import around_calls


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
