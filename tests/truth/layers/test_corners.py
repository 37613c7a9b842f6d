"""Layers at points where differences are led astray: narrow bends, kinks along no axis, grains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import huber_loss, softplus

from tests.checks.making import examined
from tests.every import first

Layer = Callable[[Any], Any]


def codes(layer: Layer, x: Any, *, blaming: bool = False) -> set[str]:
    answer = examined(layer, {"x": x}, modes=("reverse",), blaming=blaming)
    assert answer.failure is None
    return {finding.code for finding in answer.findings}


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: torch.sqrt(x[0] ** 2 + x[1] ** 2 + 1e-8),
        lambda x: torch.sqrt(x[0] ** 2 + x[1] ** 2 + 1e-12),
        lambda x: softplus(1e5 * x) / 1e5,
        lambda x: (softplus(1e5 * x) + softplus(-1e5 * x)) / 1e5,
        lambda x: torch.clamp(x.norm(), min=1e-6),
        lambda x: torch.clamp((x**2).sum(), min=1e-12).sqrt(),
        lambda x: huber_loss(x, torch.zeros_like(x), delta=1e-5),
        lambda x: torch.sigmoid(1e6 * x),
        lambda x: x / (x.abs() + 1e-12),
    ],
)
def test_a_bend_that_is_narrow_is_no_kink_and_no_jump(layer: Layer) -> None:
    assert codes(layer, [0.0, 0.0]) == set()


@pytest.mark.parametrize(
    ("layer", "code"),
    [
        (torch.relu, "GC401"),
        (lambda x: x.abs().sum(), "GC401"),
        (lambda x: x.norm() + 1, "GC401"),
        (lambda x: torch.where(x >= 0, x + 1, x), "GC403"),
        (lambda x: torch.floor(x) * (x + 2), "GC403"),
        (lambda x: torch.sqrt(x.abs()) + 1, "GC402"),
        (lambda x: torch.special.xlogy(x, x) + 1, "GC402"),
    ],
)
def test_what_is_rough_at_every_step_stays_so(layer: Layer, code: str) -> None:
    assert code in codes(layer, [0.0, 0.0])


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.functional.leaky_relu,
        lambda x: torch.nn.functional.leaky_relu(x, 0.3) * 0.1,
        lambda x: torch.nn.functional.elu(x, 0.3) + x.abs(),
        lambda x: torch.nn.functional.leaky_relu(x, -0.2) * 0.7 + torch.relu(x) * x,
    ],
)
def test_numbers_beside_a_kink_have_the_parameters_of_the_dtype(layer: Layer, dtype: str) -> None:
    """The entry at 0 needs differences, so the others are compared with theirs."""
    answer = examined(
        layer, {"x": [0.0, -1.5, 1.5]}, modes=("reverse",), dtype=dtype, blaming=False
    )
    assert {finding.code for finding in answer.findings} <= {"GC401"}


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: torch.quantile(x, 0.3, dim=-1),
        lambda x: torch.quantile(x, 0.3, dim=-1) + x.median(-1).values,
        lambda x: torch.sort(x, -1).values[..., 1] * x.sum(),
        lambda x: x[..., x.floor().long()[0, 3] + 2] + torch.relu(x + 1.5),
    ],
)
def test_a_gradient_between_the_slopes_of_a_kink_contradicts_nothing(layer: Layer) -> None:
    """Rounded otherwise, a whole number that becomes an index is the one below."""
    assert codes(layer, [[-1.5, 0.5, 1.0, -1.5, 1.0]]) <= {"GC401"}


def rgb_to_lab(rgb: Any) -> Any:
    """Near black a line, as the difference of two numbers of about 4/29."""
    to_xyz = torch.tensor([[0.41, 0.36, 0.18], [0.21, 0.72, 0.07], [0.02, 0.12, 0.95]])
    xyz = to_xyz.to(rgb.dtype) @ (rgb / 12.92)
    f = torch.where(xyz > 0.008856, xyz.clamp(min=0.008856) ** (1 / 3), 7.787 * xyz + 4 / 29)
    return torch.stack([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("x", [[0.0, 0.0, 0.0], [0.0, 1e-9, 0.0], [1e-9, 1e-9, 2e-9]])
def test_the_grain_of_a_difference_at_zero_is_no_slope(x: list[float]) -> None:
    assert codes(rgb_to_lab, x) <= {"GC303"}  # the value has few digits


class Beside(torch.autograd.Function):
    """A median whose gradient is none of its elements'."""

    factors = (2.0, 0.0, 0.0)

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.median()

    @classmethod
    def pulled(cls, g: Any) -> Any:
        return g * torch.tensor(cls.factors, dtype=g.dtype)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Beside.pulled(g)


class Together(Beside):
    """A median that gives two of three entries all of the gradient. Each is in its bounds."""

    factors = (1.0, 1.0, 0.0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Together.pulled(g)


class Steep(torch.autograd.Function):
    """The derivative of sin(1e5 x), a tenth too large."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(1e5 * x).sum()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * torch.cos(1e5 * x) * 1.1e5


@pytest.mark.parametrize(
    ("layer", "x", "code"),
    [
        (torch.median, [0.0, 0.0, 0.0], "GC401"),
        (lambda x: x.sort().values[1], [0.5, 0.5, 0.5], "GC401"),
        (lambda x: torch.maximum(torch.minimum(x[0], x[1]), x[2]), [1.0, 1.0, 1.0], "GC401"),
        (lambda x: torch.relu(x[0] + x[1]) - torch.relu(x[0] - x[1]), [0.0, 0.0], "GC401"),
        (Beside.apply, [0.3, 0.3, 0.3], "GC101"),
        (Together.apply, [0.3, 0.3, 0.3], "GC101"),
        (Steep.apply, [0.3, 0.2], "GC101"),
    ],
)
def test_a_tie_of_three_is_a_kink_and_a_wrong_gradient_stays_wrong(
    layer: Layer, x: list[float], code: str
) -> None:
    assert codes(layer, x) == {code}


class Sparsemax(torch.autograd.Function):
    """The projection on the simplex, by its threshold. What is at the threshold counts as support:
    one of the limits."""

    factor = 1.0

    @staticmethod
    def forward(ctx: Any, z: Any) -> Any:
        ordered = torch.sort(z, descending=True).values
        means = (ordered.cumsum(0) - 1) / torch.arange(1, len(z) + 1, dtype=z.dtype)
        threshold = means[int((ordered > means).sum()) - 1]
        ctx.save_for_backward((z >= threshold).to(z.dtype))
        return (z - threshold).clamp(min=0)

    @classmethod
    def pulled(cls, ctx: Any, y_bar: Any) -> Any:
        (support,) = ctx.saved_tensors
        return cls.factor * support * (y_bar - (y_bar * support).sum() / support.sum())

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return Sparsemax.pulled(ctx, y_bar)


class TooSteep(Sparsemax):
    factor = 1.2

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return TooSteep.pulled(ctx, y_bar)


@pytest.mark.parametrize(
    "z", first(1, [[1.0, 0.0, 0.0], [0.5, 0.5, -0.5], [0.25, 1.25, 0.25, 0.25]])
)
def test_limits_beside_a_kink_along_an_axis_are_right(z: list[float]) -> None:
    """Along z[1] the slopes at (1, 0, 0) are 0 and 1/2; with three numbers in the support it is
    2/3."""
    assert codes(Sparsemax.apply, z) <= {"GC401", "GC501"}
    assert "GC101" in codes(TooSteep.apply, z)


def entropy(logits: Any) -> Any:
    log_p = torch.log_softmax(logits, -1)
    return -(torch.exp(log_p) * log_p).sum()


def test_a_value_that_may_have_lost_a_term_is_no_evidence() -> None:
    """log_softmax rounds -1e-87 to 0, and with it a two-hundredth of the entropy; its gradient by
    the first two logits is right all the same."""
    answer = examined(entropy, {"x": [0.3, -0.5, 200.0]}, modes=("reverse",))
    assert "GC501" in {finding.code for finding in answer.findings}
    accused = [e.index for f in answer.findings if f.severity == "error" for e in f.entries]
    assert not {(0,), (1,)} & set(accused)


def artanh(x: Any) -> Any:
    return 0.5 * (torch.log(1 + x) - torch.log(1 - x))


def half_of(x: Any) -> Any:
    """x/2 on the hyperbolic ball: a line up to 1e-15, where 1 + x has lost most of x, and full of
    the roundings of 1 + x beyond."""
    norm = x.norm(dim=-1, keepdim=True).clamp_min(1e-15)
    return torch.tanh(0.5 * artanh(norm)) * x / norm


@pytest.mark.parametrize(("dtype", "code"), [("float32", "GC302"), ("float64", "GC301")])
def test_a_value_of_zero_has_the_noise_of_its_neighbourhood(dtype: str, code: str) -> None:
    answer = examined(half_of, {"x": [0.0, 0.0, 0.0]}, dtype=dtype, modes=("reverse",))
    assert {finding.code for finding in answer.findings} == {code}
    truths = [entry.truth for finding in answer.findings for entry in finding.entries]
    assert truths == pytest.approx([0.5] * 3, abs=1e-12)


class Lie(torch.autograd.Function):
    """The exponential map of quaternions at 0, whose backward forgets a half."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.sin(x / 2)

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return y_bar


@pytest.mark.parametrize("x", [[0.0, 0.0], [0.0, 6.283185307179586]])
def test_a_value_at_its_root_is_evidence(x: list[float]) -> None:
    assert "GC101" in codes(Lie.apply, x)


class Off(torch.autograd.Function):
    """A function of one number, with a custom gradient that is some part too large."""

    @staticmethod
    def forward(ctx: Any, function: Layer, part: float, x: Any) -> Any:
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y = function(ctx.x)
        ctx.part = part
        return ctx.y.detach().clone()

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        (x_bar,) = torch.autograd.grad(ctx.y, ctx.x, y_bar, retain_graph=True)
        return None, None, x_bar * (1 + ctx.part)


@pytest.mark.parametrize("part", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("function", "x"),
    first(
        3,
        [
            (lambda x: torch.sin(torch.pi * x), 20.0),
            (lambda x: torch.sin(torch.pi * x), 1e6),
            (torch.sinc, 77.0),
            (torch.sinc, 99999.0),
            (lambda x: torch.tan(torch.pi * x), 1000.0),
            (torch.log, 1.0000001),
            (lambda x: torch.log(1 + x), 0.001),
            (lambda x: x * 0.1 - 0.3, 3.0),
        ],
    ),
)
def test_a_root_is_as_noisy_as_what_it_is_computed_of(
    function: Layer, x: float, part: float
) -> None:
    """Differences are as sharp as the roundings on the way allow: they convict no right gradient,
    and let no wrong one pass."""

    def layer(at: Any) -> Any:
        return Off.apply(function, part, at)

    assert codes(layer, [x], blaming=True) - {"GC502"} == ({"GC101"} if part else set())


def test_a_value_that_is_lost_as_a_whole_is_no_evidence() -> None:
    """A logarithm of 1 + 1e-20 is 0 at every step; its derivative, which is certified, is not."""
    found = codes(lambda x: torch.logsumexp(x, 0) - x.max(), [1.0, 50.0, 3.0])
    assert found == {"GC302", "GC303"}
