"""Zeros of a backward that forgets a part, and zeros that rounding makes of a right one."""

import pytest
import torch
from torch.nn import functional as F

from gradcheck_cli.checks.examination import examine
from tests.checks.making import examined, layer_problem, torch_engine


class Diagonal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = F.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, y_bar):
        (y,) = ctx.saved_tensors
        return y_bar * y * (1 - y)


class Saturated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 1 / torch.cosh(x) ** 2

    @staticmethod
    def backward(ctx, y_bar):
        y = torch.tanh(ctx.saved_tensors[0])
        return y_bar * -2 * y * (1 - y**2)


def codes(layer, x, dtype) -> set[str]:
    answer = examined(layer, {"x": x}, dtype=dtype, modes=("reverse",), blaming=False)
    return {finding.code for finding in answer.findings}


def test_a_part_that_no_point_fills_is_forgotten() -> None:
    for dtype in ("float32", "float64"):
        assert codes(Diagonal, [0.3, -1.2, 0.7], dtype) == {"GC101"}


def test_a_part_that_only_rounding_empties_is_underflow() -> None:
    assert codes(Saturated, [20.0, 1.0], "float32") == {"GC302"}  # zero in float64, too


def test_what_rounded_constants_leave_of_a_zero_is_no_part_that_is_forgotten() -> None:
    """A cosine transform: its third row has terms that cancel but for the rounding of cosines."""

    def layer(x):
        turned = torch.fft.fft(torch.cat([x[::2], x[1::2].flip(0)]))
        angle = torch.arange(6, dtype=x.dtype) * torch.pi / 12
        return 2 * (turned.real * torch.cos(angle) + turned.imag * torch.sin(angle))

    assert codes(layer, [0.3, -1.2, 0.7, 0.4, 2.1, -0.9], "float32") <= {"GC301", "GC302"}


class Flat(torch.autograd.Function):
    """Right below 1, and exactly 0 above it."""

    @staticmethod
    def forward(x):
        return torch.tanh(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def slope(ctx, given):
        (x,) = ctx.saved_tensors
        return torch.where(x > 1, torch.zeros_like(x), given * (1 - torch.tanh(x) ** 2))

    backward = slope
    jvp = slope


def test_a_rule_that_is_zero_where_nothing_underflows_is_wrong_everywhere() -> None:
    """One rule, one name: in both modes and both precisions."""
    for dtype in ("float32", "float64"):
        modes = ("reverse", "forward")
        problem = layer_problem(Flat.apply, {"x": [0.3, 1.5, -0.7]}, dtype=dtype, modes=modes)
        found = examine(torch_engine(), problem).findings
        assert {(f.mode, f.code) for f in found} == {(mode, "GC101") for mode in modes}
        assert {f.cause.kind for f in found if f.cause} == {"wrong rule"}
        assert all("every precision" in f.message for f in found)


POINT = [0.3, 1.2, -0.7, 0.5]


class Elsewhere(torch.autograd.Function):
    """Right in float64 at one point, and two thirds of that next door and in float32, as where a
    compiled function is run by another program when it is watched or moved."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx, given):
        (x,) = ctx.saved_tensors
        first = torch.tensor(POINT, dtype=torch.float32).double()
        here = x.dtype == torch.float64 and torch.equal(x[:4], first)
        return given * (2.0 if here else 4 / 3) * x

    jvp = backward


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_a_gradient_that_is_another_one_next_door_is_not_excused_by_its_own_moves(mode) -> None:
    for x in (POINT, POINT + [0.25] * 2000):
        problem = layer_problem(Elsewhere.apply, {"x": x}, dtype="float32", modes=(mode,))
        found = examine(torch_engine(), problem)
        codes = {f.code for f in found.findings if f.severity == "error"}
        assert codes & {"GC101", "GC301"}, [f.message for f in found.findings]
        assert {check.status for check in found.checks} == {"failed"}
