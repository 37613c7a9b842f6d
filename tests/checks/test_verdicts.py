"""Layers of every size with one mistake each: the verdict that a user gets, and none where the
layer is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.domain.report import Finding
from tests.checks.making import examined, layer_problem, torch_engine

REVERSE = ("reverse",)

pytestmark = pytest.mark.usefixtures("one_thread")


def function(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """An autograd.Function; `backward` takes the cotangent and the inputs."""

    class Written(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return backward(g, *ctx.saved_tensors)

    return Written


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def errors(answer: LayerAnswer) -> list[Finding]:
    assert answer.failure is None, answer.failure
    return [finding for finding in answer.findings if finding.severity == "error"]


def only_error(layer: Any, *, dtype: str = "float64", **inputs: Any) -> Finding:
    found = errors(examined(layer, inputs, dtype=dtype, modes=REVERSE, blaming=False))
    assert len(found) == 1, [f.message for f in found]
    return found[0]


def sine(wrong: Callable[[Any, Any], Any]) -> Any:
    """sin, whose gradient g cos(x) went through `wrong` with x."""
    return function(torch.sin, lambda g, x: wrong(g * torch.cos(x), x))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_wrong_by_a_ten_thousandth(dtype: str) -> None:
    found = only_error(sine(lambda g, x: g * (1 + 1e-4)), x=normal(6), dtype=dtype)
    assert found.code == "GC101"
    assert found.pattern == "factor 1.0001"


def test_one_entry_of_100_000_by_one_percent() -> None:
    one = torch.zeros(100_000)
    one[54_321] = 0.01
    found = only_error(sine(lambda g, x: g * (1 + one.to(g.dtype))), x=normal(100_000))
    assert (found.code, found.entries[0].index) == ("GC101", (54_321, 54_321))
    assert found.more == 0


def test_one_entry_of_a_1000_by_1000_jacobian() -> None:
    """Located with at most 200 forward runs and 25 backward passes."""
    matrix = torch.tensor(normal(1000, 1000))
    calls = {"forward": 0, "backward": 0}

    def forward(x: Any) -> Any:
        calls["forward"] += 1
        return matrix @ torch.sin(x)

    def backward(g: Any, x: Any) -> Any:
        calls["backward"] += 1
        result = (g @ matrix) * torch.cos(x)
        result[456] += g[123] * matrix[123, 456] * torch.cos(x[456]) * 1e-5
        return result

    problem = layer_problem(function(forward, backward), {"x": normal(1000, seed=1)}, modes=REVERSE)
    (found,) = errors(examine(torch_engine(), problem, blaming=False))
    assert (found.code, found.entries[0].index) == ("GC101", (123, 456))
    assert len(found.entries) == 1
    assert calls["forward"] <= 200
    assert calls["backward"] <= 25


def test_two_wrong_entries_are_both_named() -> None:
    wrong = torch.ones(3000, dtype=torch.float64)
    wrong[[7, 2900]] = torch.tensor([1.01, 0.5], dtype=torch.float64)
    layer = function(lambda x: torch.sin(x).sum(), lambda g, x: g * torch.cos(x) * wrong)
    found = only_error(layer, x=normal(3000))
    assert {entry.index for entry in found.entries} == {(7,), (2900,)}


def test_the_mean_everywhere() -> None:
    layer = function(
        lambda x: torch.sin(x).sum(), lambda g, x: (g * torch.cos(x)).mean().expand_as(x)
    )
    found = only_error(layer, x=normal(20_000))
    assert found.code == "GC101"
    assert "of 20000" in found.message


@pytest.mark.parametrize("shape", [(), (3000,)])
def test_right_near_the_sample_only(shape: tuple[int, ...]) -> None:
    layer = sine(lambda g, x: torch.where(x > 3, 2 * g, g))
    inputs = {"x": np.full(shape, 1.0)}
    assert not errors(examined(layer, inputs, modes=REVERSE))
    answer = examined(layer, inputs, modes=REVERSE, domain=(-5.0, 5.0))
    (found,) = errors(answer)
    assert found.code == "GC101"
    where = "at a point drawn from the domain (seed 0): x = "
    assert where in found.message
    assert f"GC101 of `x` is {where}" in answer.notes[-1]
    if shape == ():
        assert float(found.message.rsplit("= ", 1)[1]) > 3


@pytest.mark.parametrize("size", [5, 3000])
def test_backward_in_float32(size: int) -> None:
    layer = function(torch.sin, lambda g, x: (g.float() * torch.cos(x.float())).to(g.dtype))
    found = only_error(layer, x=normal(size))
    assert found.code == "GC301"  # its formula is right
    assert not errors(examined(layer, {"x": normal(size)}, dtype="float32", modes=REVERSE))


def test_the_derivative_of_another_gelu() -> None:
    def exact(g: Any, x: Any) -> Any:
        bell = torch.exp(-x * x / 2) / (2 * torch.pi) ** 0.5
        return g * (0.5 * (1 + torch.erf(x / 2**0.5)) + x * bell)

    layer = function(lambda x: nn.functional.gelu(x, approximate="tanh"), exact)
    assert only_error(layer, x=normal(8)).code == "GC101"
    assert only_error(layer, x=normal(2000)).code == "GC101"

    def by_tanh(g: Any, x: Any) -> Any:
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            return torch.autograd.grad(nn.functional.gelu(z, approximate="tanh"), z, g)[0]

    assert only_error(function(nn.functional.gelu, by_tanh), x=normal(8)).code == "GC101"


def test_product_over_x_at_a_zero() -> None:
    layer = function(torch.prod, lambda g, x: g * torch.prod(x) / x)
    found = only_error(layer, x=np.array([0.0, 2.0, 3.0]))
    assert (found.code, found.entries[0].index, found.entries[0].truth) == ("GC201", (0,), 6.0)


class HalfDetached(nn.Module):
    """Half of the weight is used behind the graph's back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(normal(8, width)))
        self.bias = nn.Parameter(torch.tensor(normal(width)))

    def forward(self, x: Any) -> Any:
        weight = (self.weight + self.weight.detach()) / 2
        return torch.tanh(x @ weight / 8 + self.bias)


@pytest.mark.parametrize("width", [3, 100])
def test_parameter_gradient_halved(width: int) -> None:
    found = only_error(HalfDetached(width), x=normal(4, 8))
    assert (found.code, found.input, found.pattern) == ("GC101", "weight", "factor 0.5")


def test_where_with_a_nan_behind_it() -> None:
    def trap(x: Any) -> Any:
        return torch.where(x > 0, torch.sqrt(x), 0 * x).sum()

    assert only_error(trap, x=np.array([1.0, -2.0, 3.0])).code == "GC201"
    many = np.abs(normal(2000)) + 0.1
    many[77] = -1.0
    found = only_error(trap, x=many)
    assert (found.code, found.entries[0].index) == ("GC201", (77,))


def test_no_gradient_for_one_of_many_inputs() -> None:
    layer = function(lambda x, w: torch.sin(x) * w, lambda g, x, w: (g * w * torch.cos(x), None))
    found = only_error(layer, x=normal(2000), w=normal(2000, seed=1))
    assert (found.code, found.input) == ("GC102", "w")


def test_rounding_that_costs_most_digits_of_a_large_layer() -> None:
    def forward(x: Any) -> Any:
        return torch.log(1 + torch.exp(x) - torch.exp(x) + x * 1e-6)

    found = only_error(forward, x=10 + np.abs(normal(1500)), dtype="float32")
    assert found.code in ("GC301", "GC302")


@pytest.mark.parametrize(
    ("layer", "at"),
    [
        (torch.relu, [0.0, 1.0, -1.0, 0.0]),
        (torch.abs, [0.0, 1.0, -1.0, 0.0]),
        (torch.amax, [2.0, 1.0, 2.0, 0.0]),
    ],
    ids=["relu", "abs", "ties of max"],
)
def test_kinks_are_notes(layer: Any, at: list[float]) -> None:
    answer = examined(layer, {"x": np.array(at)}, modes=REVERSE)
    assert not errors(answer)
    assert {finding.code for finding in answer.findings} <= {"GC401"}


def test_kinks_of_thousands_of_entries_are_set_aside() -> None:
    x = normal(4000)
    x[::3] = 0.0
    wrong = torch.ones(4000, dtype=torch.float64)
    right = examined(torch.relu, {"x": x}, modes=REVERSE)
    assert [finding.code for finding in right.findings] == ["GC401"]
    wrong[1000] = 1.001
    layer = function(torch.relu, lambda g, x: g * (x > 0) * wrong)
    x[1000] = 1.0
    found = errors(examined(layer, {"x": x}, modes=REVERSE))
    assert [finding.entries[0].index for finding in found] == [(1000, 1000)]


SCALES = 10.0 ** np.arange(-9, 10, 3)
RIGHT = {
    "steep": (lambda x: torch.exp(40 * x).sum(), normal(5)),
    "curved": (lambda x: torch.sin(300 * x), normal(5)),
    "mixed scales": (lambda x: torch.log(x) * x, SCALES),
    "mixed scales, many": (torch.log, np.exp(9 * normal(3000))),
    "poles nearby, many": (lambda x: (1 / x).sum(), normal(3000)),
    "saturated": (lambda x: torch.softmax(x, 0)[1:], np.array([30.0, 1.0, -3.0, 0.0])),
    "tiny": (torch.linalg.vector_norm, 1e-7 * normal(40)),
    "relu, many": (torch.relu, normal(5000)),
    "linear": (nn.Linear(6, 4), normal(3, 6)),
    "mlp": (nn.Sequential(nn.Linear(30, 50), nn.ReLU(), nn.Linear(50, 8)), normal(16, 30)),
    "convolution": (nn.Conv2d(2, 3, 3), normal(2, 2, 8, 8)),
    "batch norm": (nn.Sequential(nn.Linear(9, 20), nn.BatchNorm1d(20)), normal(32, 9)),
    "layer norm": (nn.LayerNorm(12), 5 + normal(7, 12)),
    "lstm": (nn.LSTM(5, 8), normal(6, 2, 5)),
    "max pooling": (nn.MaxPool2d(2), normal(2, 3, 16, 16)),
    "softmax in float32": (lambda x: torch.softmax(x.float(), -1).to(x.dtype) * x, normal(3, 5)),
    "norm in float32, many": (
        lambda x: nn.functional.rms_norm(x.float(), (60,)).to(x.dtype) * x,
        normal(40, 60),
    ),
    "padding": (
        nn.Sequential(nn.Embedding(5, 3, padding_idx=1), nn.Tanh()),
        np.array([1, 2, 0, 1]),
    ),
    "cross entropy": (lambda x: nn.functional.cross_entropy(x, torch.arange(9)), normal(9, 200)),
}


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_right_layers_raise_no_alarm(name: str) -> None:
    layer, x = RIGHT[name]
    torch.manual_seed(0)
    for dtype in ("float64", "float32"):
        answer = examined(layer, {"x": x}, dtype=dtype)
        assert answer.failure is None
        loud = [finding for finding in answer.findings if finding.severity != "note"]
        assert not [(dtype, finding.code, finding.message) for finding in loud]
        assert {check.status for check in answer.checks} == {"passed"}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("size", [5, 3000])
def test_a_number_that_leaves_the_graph_in_float32(size: int, dtype: str) -> None:
    """Next to the point the value has steps, on which the gradient that forgets is right."""

    def scaled(x: Any) -> Any:
        return x / torch.tensor(float(x.detach().norm()))

    error = only_error(scaled, dtype=dtype, x=normal(size))
    assert error.code == "GC101"


def test_a_tail_that_no_difference_sees_is_certified() -> None:
    """1 - y is absorbed where a softmax saturates; the exact derivative is e^-89."""
    x = {"x": np.array([90.0, 1.0, -3.0, 0.0])}
    answer = examined(lambda x: torch.softmax(x, 0), x, modes=REVERSE)
    (finding,) = answer.findings
    assert (finding.code, finding.truth_source) == (
        "GC302",
        "certified, from the trace",
    )
    assert finding.entries[0].truth == pytest.approx(3.087560410866571e-39, rel=1e-15)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "layer", [lambda x: torch.sin(1e17 * x), lambda x: torch.remainder(x, 1e-17) * 3]
)
def test_a_period_that_no_step_resolves_accuses_nobody(layer: Any, dtype: str) -> None:
    answer = examined(layer, {"x": np.array([0.7, 1.3])}, dtype=dtype, modes=REVERSE)
    assert "GC101" not in {finding.code for finding in answer.findings}
    assert {finding.code for finding in answer.findings} <= {"GC501", "GC502"}


def saturating(x: Any) -> Any:
    return 1 / (1 + torch.exp(-torch.clamp(x, -30, 30)))


def logistic(x: Any) -> Any:
    return torch.log1p(torch.exp(torch.clamp(x, -20, 20)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("forward", "slope", "x"),
    [
        (saturating, lambda x: saturating(x) * (1 - saturating(x)), [-35.0]),
        (saturating, lambda x: saturating(x) * (1 - saturating(x)), [-35.0, 2.0]),
        (logistic, lambda x: torch.sigmoid(torch.clamp(x, -20, 20)), [-25.0]),
        (lambda x: 1 / (1e3 + torch.relu(x)), lambda x: -1 / (1e3 + x) ** 2, [-2.0]),
    ],
)
def test_a_slope_where_the_forward_is_flat_is_wrong_however_small(
    forward: Any, slope: Any, x: list[float], dtype: str
) -> None:
    """Large numbers on the way make up little of the output, so they leave no residue."""
    layer = function(forward, lambda g, at: g * slope(at))
    assert only_error(layer, dtype=dtype, x=np.array(x)).code == "GC101"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_rounding_leaves_of_terms_that_cancel_is_right(dtype: str) -> None:
    layer = function(
        lambda x: (x + 1e6) - x, lambda g, x: g * ((x + 1e6) / (x + 1e6 + x * 1e-9) - 1) * 1e-9
    )
    assert not errors(examined(layer, {"x": np.array([3.0])}, dtype=dtype, modes=REVERSE))
