"""Forward mode of layers too large for a whole Jacobian: which input, which code, which checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.domain.layer import LayerAnswer
from tests.checks.making import examined

RNG = np.random.default_rng(0)
MANY = {"x": RNG.uniform(0.2, 1.2, (60, 50)), "w": RNG.uniform(0.5, 2.0, (60, 50))}
INPUTS = {name: value[:12, :10] for name, value in MANY.items()}
FEW = {name: value[0, :3] for name, value in INPUTS.items()}


class Product(torch.autograd.Function):
    """sin(x) * w, right in both modes."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)
        return torch.sin(x) * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * torch.cos(x) * w, g * torch.sin(x)

    @staticmethod
    def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        x, w = ctx.saved_tensors
        y_dot = torch.zeros_like(x)
        if x_dot is not None:
            y_dot = y_dot + torch.cos(x) * w * x_dot
        return y_dot if w_dot is None else y_dot + torch.sin(x) * w_dot


class HalvedByW(Product):
    @staticmethod
    def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        return Product.jvp(ctx, x_dot, None if w_dot is None else w_dot / 2)


class OneEntry(Product):
    @staticmethod
    def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        y_dot = Product.jvp(ctx, x_dot, w_dot)
        y_dot[11, 7] *= 1.01
        return y_dot


class Nan(Product):
    @staticmethod
    def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        y_dot = Product.jvp(ctx, x_dot, w_dot)
        y_dot[11, 7] = float("nan")
        return y_dot


class Zeros(Product):
    @staticmethod
    def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        return 0 * Product.jvp(ctx, x_dot, w_dot)


class Raising(Product):
    @staticmethod
    def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        raise ValueError("no jvp today")


class InFloat32(Product):
    """Both modes are wrong in float32 alone."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        by_x, by_w = Product.backward(ctx, g)
        return by_x * (2 if g.dtype == torch.float32 else 1), by_w

    @staticmethod
    def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        y_dot = Product.jvp(ctx, x_dot, w_dot)
        return y_dot * (2 if y_dot.dtype == torch.float32 else 1)


def told(answer: LayerAnswer) -> set[tuple[str, str | None, str | None]]:
    assert answer.failure is None
    return {(f.code, f.mode, f.input) for f in answer.findings if f.severity == "error"}


def bad(answer: LayerAnswer) -> set[tuple[str, str, str]]:
    return {(c.status, c.mode, c.input) for c in answer.checks if c.status != "passed"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_right_jvp_has_no_findings_and_keeps_the_promise(dtype: str) -> None:
    answer = examined(Product, INPUTS, dtype=dtype)
    assert not answer.findings
    for check in answer.checks:
        assert (check.status, check.power) == ("passed", 0.999)
        assert check.caught is not None
        assert check.caught < 1e-7


def test_the_input_by_which_it_is_wrong_is_told() -> None:
    answer = examined(HalvedByW, INPUTS, dtype="float32")
    assert told(answer) == {("GC101", "forward", "w")}
    assert bad(answer) == {("failed", "forward", "w")}
    (found,) = answer.findings
    assert found.cause is not None
    assert "for `w`; correct:" in found.cause.story
    assert found.pattern == "factor 0.5, in `HalvedByW` for `w`"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_entry_of_thousands_is_found_in_every_dtype(dtype: str) -> None:
    answer = examined(OneEntry, MANY, dtype=dtype)
    assert told(answer) == {("GC101", "forward", "x"), ("GC101", "forward", "w")}


def test_a_tangent_that_is_nan_is_told_as_nan() -> None:
    answer = examined(Nan, INPUTS)
    assert told(answer) == {("GC201", "forward", "x"), ("GC201", "forward", "w")}
    assert "nan in 1 of 120 entries" in answer.findings[0].message


@pytest.mark.parametrize("inputs", [FEW, INPUTS])
def test_zeros_are_wrong_and_no_underflow(inputs: Any) -> None:
    answer = examined(Zeros, inputs)
    assert told(answer) == {("GC101", "forward", "x"), ("GC101", "forward", "w")}
    assert all("all zeros" in (finding.pattern or "") for finding in answer.findings)


@pytest.mark.parametrize("inputs", [FEW, INPUTS])
def test_a_jvp_that_raises_leaves_reverse_mode_its_verdict(inputs: Any) -> None:
    answer = examined(Raising, inputs)
    assert told(answer) == {("GC701", "forward", None)}
    assert {(c.mode, c.status) for c in answer.checks} == {
        ("reverse", "passed"),
        ("forward", "error"),
    }
    assert answer.findings[0].message == "ValueError: no jvp today"


@pytest.mark.parametrize("inputs", [FEW, INPUTS])
def test_what_is_wrong_in_one_dtype_alone_is_no_rounding(inputs: Any) -> None:
    answer = examined(InFloat32, inputs, dtype="float32", modes=("reverse",))
    (found,) = answer.findings
    assert (found.code, found.input) == ("GC101", "x")
    assert found.message.endswith(
        "wrong in float32, and rounding is not the cause: float64 has no such error"
    )
    assert found.cause is not None
    assert (found.cause.op, found.cause.kind) == ("InFloat32", "wrong rule")


def test_a_jvp_that_is_wrong_in_one_dtype_alone() -> None:
    assert ("GC301", "forward", None) in told(examined(InFloat32, INPUTS, dtype="float32"))
    assert not examined(InFloat32, INPUTS).findings


@pytest.mark.usefixtures("is_large")
def test_digits_that_both_modes_lose_are_told_of_both() -> None:
    def layer(x: Any, w: Any) -> Any:
        y = x * w / 1000
        return y - torch.sin(y)

    found = told(examined(layer, MANY, dtype="float32"))
    assert {("GC301", "reverse", "x"), ("GC301", "forward", None)} <= found


@pytest.mark.parametrize("size", [1e-200, 1e100, 1e200, 1e300])
def test_inputs_of_any_size_that_the_dtype_has_are_checked(size: float) -> None:
    answer = examined(lambda x: x / 2, {"x": np.linspace(0.5, 1.0, 20) * size})
    assert answer.failure is None
    assert not answer.findings
    assert {check.mode for check in answer.checks} == {"reverse", "forward"}
