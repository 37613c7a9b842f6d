"""Layers too large for a whole Jacobian: what the report promises, and forward mode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.engines.eigen.engine import EigenEngine
from tests.checks.large.test_random_directions import Wrong
from tests.checks.making import examined, layer_problem
from tests.every import first

X = np.random.default_rng(0).standard_normal(3000)
CONSTANT = """
#include <Eigen/Core>
#include <unsupported/Eigen/AutoDiff>

inline double number(double x) { return x; }
inline double number(float x) { return x; }
template <typename D>
double number(const Eigen::AutoDiffScalar<D>& x) { return x.value(); }

template <typename T>
Eigen::Array<T, Eigen::Dynamic, 1> damp(const Eigen::Array<T, Eigen::Dynamic, 1>& x) {
  return x.unaryExpr([](const T& one) { return T(one * T(number(one))); });
}
"""


def notes(answer: LayerAnswer) -> str:
    return "\n".join(answer.notes)


class Pushed(torch.autograd.Function):
    """sin, whose jvp is `factor` times the right one, and its backward `back` times."""

    factor = back = 1.0

    @staticmethod
    def forward(x: Any) -> Any:
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Pushed.back * g * torch.cos(ctx.saved_tensors[0])

    @staticmethod
    def jvp(ctx: Any, x_dot: Any) -> Any:
        return Pushed.factor * x_dot * torch.cos(ctx.saved_tensors[0])


@pytest.mark.parametrize("x", [X[:3], X[:30], X])
def test_forward_mode_is_checked_too(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in ("float64", "float32"):
        right = examined(Pushed, {"x": x}, dtype=dtype)
        assert {(check.mode, check.status) for check in right.checks} == {
            ("reverse", "passed"),
            ("forward", "passed"),
        }
    monkeypatch.setattr(Pushed, "factor", 1.01)
    (wrong,) = examined(Pushed, {"x": x}).findings
    assert (wrong.code, wrong.mode) == ("GC101", "forward")
    assert wrong.cause is not None
    assert wrong.cause.text == "Pushed.factor * x_dot * torch.cos(ctx.saved_tensors[0])"
    assert wrong.cause.story.startswith("the jvp of `Pushed`")


@pytest.mark.parametrize("x", [X[:3], X])
def test_a_mode_is_not_told_wrong_for_the_other(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pushed, "back", 0.5)
    answer = examined(Pushed, {"x": x})
    assert {(finding.code, finding.mode) for finding in answer.findings} == {("GC101", "reverse")}
    assert {(check.mode, check.status) for check in answer.checks} == {
        ("reverse", "failed"),
        ("forward", "passed"),
    }
    answer = examined(Pushed, {"x": x}, modes=("forward",))
    assert answer.findings == ()
    assert [(check.mode, check.status) for check in answer.checks] == [("forward", "passed")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [3, 80])
def test_eigen_is_told_wrong_in_forward_mode(size: int, tmp_path: Path) -> None:
    (tmp_path / "layer.hpp").write_text(CONSTANT, "utf-8")
    problem = layer_problem("layer.hpp:damp", {"x": X[:size]}, modes=("forward",))
    implementation = replace(problem.implementation, engine="eigen", folder=str(tmp_path))
    engine = EigenEngine()
    engine.load()
    (found,) = examine(engine, replace(problem, implementation=implementation)).findings
    assert (found.code, found.mode, found.pattern) == ("GC101", "forward", "factor 0.5")


def test_a_layer_without_forward_mode_is_noted() -> None:
    for x in (X[:3], X):
        answer = examined(
            Wrong if x is X else lambda x: Wrong.apply(torch.cat([x] * 100)), {"x": x}
        )
        assert "forward mode was left out" in notes(answer)
        assert {check.mode for check in answer.checks} == {"reverse"}


def test_a_layer_of_float32_alone_is_checked_in_it() -> None:
    class Narrow(torch.autograd.Function):
        wrong = 1.0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            assert x.dtype == torch.float32, "float32 only"
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return Narrow.wrong * g * torch.cos(ctx.saved_tensors[0])

    for x in (X[:5], X):
        Narrow.wrong = 1.0
        right = examined(Narrow, {"x": x}, dtype="float32", modes=("reverse",))
        assert not right.findings
        assert "float32 is the highest precision it runs in" in notes(right)
        Narrow.wrong = 1.01
        wrong = examined(Narrow, {"x": x}, dtype="float32", modes=("reverse",))
        assert {finding.code for finding in wrong.findings} == {"GC101"}


def by_mean_squares(x: Any) -> Any:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt((x * x).mean(-1, keepdim=True) - mean**2 + 1e-5)


def attention(x: Any, key_bias: Any) -> Any:
    """A bias of all keys moves all scores of a query alike, which changes nothing."""
    return torch.softmax(x @ (x + key_bias).T, -1) @ x


def test_digits_that_only_a_narrow_dtype_loses_are_told() -> None:
    x = X[:2400].reshape(40, 60) + 300
    (found,) = examined(by_mean_squares, {"x": x}, dtype="float32", modes=("reverse",)).findings
    assert (found.code, found.severity) == ("GC301", "error")


@pytest.mark.parametrize("seed", range(3))
def test_an_entry_that_is_nothing_but_rounding_is_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = {"x": rng.standard_normal((24, 60)), "key_bias": rng.standard_normal(60)}
    assert not examined(attention, inputs, dtype="float32", modes=("reverse",)).findings


def test_a_gradient_whose_own_rounding_is_larger_than_the_bars_is_right() -> None:
    """PyTorch's backward takes the logarithm of the cotangent, and adds 1e4 to it on its way."""
    x = 1 + X[:125].reshape(5, 5, 5) ** 2
    x[0] = 1e4
    answer = examined(lambda x: torch.logcumsumexp(x, 0), {"x": x}, modes=("reverse",))
    assert not answer.findings


class NarrowMask(torch.autograd.Function):
    """relu, whose mask is another one in float32: `right` times where it should be 0."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (x > (0.0 if x.dtype == torch.float64 else -0.5))


class NarrowConstant(torch.autograd.Function):
    """A sign, which has no slope, but a small one in float32."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.sign(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 1e-3 * g if g.dtype == torch.float32 else 0 * g


@pytest.mark.parametrize("size", [9, 3000])
@pytest.mark.parametrize(
    "layer", [NarrowMask, NarrowConstant, lambda x: NarrowMask.apply(x) * 1e-3 + torch.sin(x)]
)
def test_a_derivative_of_zero_has_no_digits_to_lose(layer: Any, size: int) -> None:
    answer = examined(layer, {"x": X[:size]}, dtype="float32", modes=("reverse",))
    assert [f.severity for f in answer.findings if f.code == "GC101"] == ["error"]


class Threefold(torch.autograd.Function):
    """Medians of rows, whose gradient is three times too large."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        values, places = x.median(-1)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return values

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        places = ctx.saved_tensors[0][:, None]
        return torch.zeros(ctx.shape, dtype=g.dtype).scatter(1, places, 3 * g[:, None])


@pytest.mark.parametrize(
    ("layer", "wrong"),
    first(
        2,
        [
            (lambda x: x.median(-1).values, False),
            (Threefold, True),
            (lambda x: torch.sort(x, -1).values[:, 20], False),
            (lambda x: torch.quantile(x, 0.3, dim=-1) + x.median(-1).values, False),
        ],
    ),
)
def test_a_choice_among_many_equal_numbers_is_no_wrong_gradient(layer: Any, wrong: bool) -> None:
    """Each of fifteen equal numbers may be the median nearby, and along no axis does it move."""
    for seed in range(4):
        x = np.round(np.random.default_rng(seed).standard_normal((24, 50)) * 2) / 2
        answer = examined(layer, {"x": x}, modes=("reverse",))
        assert any(finding.code == "GC101" for finding in answer.findings) == wrong


class Rounded(torch.autograd.Function):
    """x**3 / 3, whose gradient in float32 is off by up to a `part` of a usual entry."""

    part = 0.0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3 / 3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        kernel = Rounded.part * torch.cos(1e4 * x) if x.dtype == torch.float32 else 0.0
        return g * (x**2 + kernel)


@pytest.mark.parametrize(("part", "severity"), [(1e-5, "note"), (1e-3, "error")])
def test_what_a_kernel_rounds_of_a_usual_entry_is_no_error_of_a_small_one(
    part: float, severity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of both loses all digits of the smallest entries."""
    monkeypatch.setattr(Rounded, "part", part)
    (found,) = examined(
        Rounded.apply, {"x": X}, dtype="float32", modes=("reverse",), blaming=False
    ).findings
    assert (found.code, found.severity) == ("GC301", severity)
    assert ("an entry of usual size would keep half" in found.message) == (severity == "note")
