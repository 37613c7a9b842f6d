"""Layers of which some operations are stated in no rows: these are differenced, and what is around
them is certified, with their bars carried through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.certified.islands import with_islands
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.engines.layer.lifting import MOST_COLUMNS, NotLifted
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.testing.api import check
from tests.checks.making import examined, subject_of, torch_engine
from tests.checks.wrong_functions import FlushedTail

X, W = np.array([0.3, 0.5, -1.2]), np.array([-1.0, 2.0, 0.7])
TRUTH = "certified, from the trace; `gradcheck_tests.cubed` by differences"


@torch.library.custom_op("gradcheck_tests::cubed", mutates_args=())
def cubed(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sin(x.detach().numpy()) ** 3)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _pull(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return g * 3 * torch.sin(x) ** 2 * torch.cos(x)


torch.library.register_autograd("gradcheck_tests::cubed", _pull, setup_context=_keep)


def numpy_subject(layer: Any) -> Subject:
    pair = SimpleNamespace(forward=layer, backward=lambda g, x: g)
    return subject_of(NumpyEngine(), pair, x=X[:2])


def sources(answer: LayerAnswer) -> set[str]:
    assert answer.failure is None, answer.failure
    return {check.truth for check in answer.checks}


@pytest.mark.parametrize("times", [1, 8])
def test_the_report_says_which_operation_is_differenced(times: int) -> None:
    """Of a small layer, and of one along directions."""

    def layer(x: Any, w: Any) -> Any:
        return torch.sigmoid(cubed(x * w) + w)[None] * torch.arange(1.0, times + 1)[:, None] * x

    inputs = {"x": np.resize(X, 3 * times), "w": np.resize(W, 3 * times)}
    answer = examined(layer, inputs, modes=("reverse",))
    assert not answer.findings
    assert sources(answer) == {TRUTH}


SECOND = ("reverse", "reverse-over-reverse")
COMPARED = "second derivatives are compared with differences of the gradient"


def test_the_second_derivative_has_the_bars_of_its_differences() -> None:
    answer = examined(lambda x: cubed(torch.sinh(x)).sum(), {"x": X[:1]}, modes=SECOND)
    assert sources(answer) == {TRUTH}
    assert not answer.notes


class FlushedAgain(torch.autograd.Function):
    """A sigmoid whose second derivative alone is lost in the tail, in 1 - s."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return SlopeOfSigmoid.apply(*ctx.saved_tensors, g)


class SlopeOfSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, g: Any) -> Any:
        ctx.save_for_backward(x, g)
        return g * torch.sigmoid(x) * torch.sigmoid(-x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, first = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g * first * s * (1 - s) * (1 - 2 * s), g * s * torch.sigmoid(-x)


def right_tail(x: torch.Tensor) -> torch.Tensor:
    return 1 - torch.sigmoid(-x)


AROUND = {
    "beside": lambda x, w, tail: (cubed(x) * w, tail(40 * w)),
    "before": lambda x, w, tail: cubed(x) * tail(40 * w),
    "after": lambda x, w, tail: tail(40 + 5 * cubed(x) * w),
    "of too many": lambda x, w, tail: cubed(torch.cat([x] * 20)).sum() * w + tail(40 * w),
}


@pytest.mark.parametrize("layer", AROUND.values(), ids=AROUND.keys())
@pytest.mark.parametrize("right", [False, True], ids=["wrong", "right"])
def test_a_tail_of_second_order_around_such_an_operation_is_seen(layer: Any, right: bool) -> None:
    tail = right_tail if right else FlushedAgain.apply

    def scaled(x: Any, w: Any) -> Any:
        return layer(x, w, tail)

    answer = examined(scaled, {"x": X, "w": np.abs(W)}, modes=SECOND)
    errors = {f.input for f in answer.findings if f.severity == "error"}
    assert errors == (set() if right else {"w.w"})
    assert any(COMPARED in note for note in answer.notes)  # zeros, which may hide a tail


def test_third_derivatives_of_one_are_not_certified() -> None:
    third = "reverse-over-reverse-over-reverse"
    answer = examined(cubed, {"x": X}, modes=(*SECOND, third))
    assert {c.truth for c in answer.checks if c.mode == third} == {"undecided"}
    assert any("third derivatives are not certified" in note for note in answer.notes)


def test_a_tail_beside_such_an_operation_is_seen() -> None:
    def layer(x: Any, w: Any) -> Any:
        return cubed(x) * w, FlushedTail.apply(40 * w)

    answer = examined(layer, {"x": X, "w": W}, modes=("reverse",))
    assert {(f.input, f.truth_source) for f in answer.findings} == {("w", TRUTH)}


def _by_numpy(x: torch.Tensor, power: int, scale: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(scale.detach().numpy() * np.sin(x.detach().numpy()) ** power)


class OfNumPy(torch.autograd.Function):
    """The same by NumPy, as users write it: with the context that a forward is given."""

    @staticmethod
    def forward(ctx: Any, x: Any, power: int, scale: Any) -> Any:
        ctx.save_for_backward(x, scale)
        return _by_numpy(x, power, scale)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, scale = ctx.saved_tensors
        to_scale = (g * torch.sin(x) ** 3).sum_to_size(scale.shape)
        return g * scale * 3 * torch.sin(x) ** 2 * torch.cos(x), None, to_scale


class InPlace(OfNumPy):
    """It writes to its argument past PyTorch."""

    @staticmethod
    def forward(ctx: Any, x: Any, power: int, scale: Any) -> Any:
        ctx.save_for_backward(x, scale)
        return _by_numpy(x.add_(0.0), power, scale)


def test_a_function_whose_forward_leaves_pytorch_is_one() -> None:
    def layer(x: Any, w: Any) -> Any:
        return OfNumPy.apply(torch.tanh(x), 3, w[:1]) * w, FlushedTail.apply(40 * w)

    answer = examined(layer, {"x": X, "w": W}, modes=("reverse",))
    truth = TRUTH.replace("gradcheck_tests.cubed", "OfNumPy.apply")
    assert {(f.input, f.truth_source) for f in answer.findings} == {("w", truth)}


def test_a_function_that_writes_to_its_argument_is_not_one() -> None:
    def layer(x: Any, w: Any) -> Any:
        return InPlace.apply(x + 1, 3, w[:1]) * w

    answer = examined(layer, {"x": X, "w": W}, modes=("reverse",))
    assert not answer.findings
    assert any("finite differences decide" in note for note in answer.notes)


def test_a_function_of_numpy_without_rows_is_one() -> None:
    subject = numpy_subject(lambda x: np.exp(np.interp(x, [0.0, 1.0], [0.0, 2.0])))
    found = with_islands(subject.lift())
    (island,) = found.lifted.islands
    np.testing.assert_allclose(found.lifted.constants[island.jacobian], 2 * np.eye(2), atol=1e-9)
    assert np.all(found.radii[island.jacobian] < 1e-9)


@torch.library.custom_op("gradcheck_tests::mixed", mutates_args=())
def mixed(x: torch.Tensor) -> torch.Tensor:
    a = x.detach().numpy()
    return torch.from_numpy(np.stack([a[0] ** 2 * a[1], np.tanh(a[2] + 60), a[0] * a[2]]))


def test_the_bars_of_second_derivatives_contain_them() -> None:
    found = with_islands(subject_of(torch_engine(), mixed, x=X).lift(), again=True)
    (island,) = found.lifted.islands
    right = np.zeros((3, 3, 3))
    right[0, :2, :2] = [[2 * X[1], 2 * X[0]], [2 * X[0], 0.0]]
    right[1, 2, 2] = -8 * np.exp(-2 * (X[2] + 60))  # no step changes this value
    right[2, 0, 2] = right[2, 2, 0] = 1.0
    value, bar = found.lifted.constants[island.bends], found.radii_of_second[island.bends]
    assert np.all(np.abs(value - right.reshape(9, 3)) <= bar)
    assert np.all((bar > 0) & (bar < 1e-9))


@torch.library.custom_op("gradcheck_tests::bent", mutates_args=())
def bent(x: torch.Tensor) -> torch.Tensor:
    away = x.detach().numpy() - [X[0], 0.0, 0.0]
    return torch.from_numpy(away * np.abs(away))


def test_a_bend_that_jumps_is_not_known() -> None:
    found = with_islands(subject_of(torch_engine(), bent, x=X).lift(), again=True)
    (island,) = found.lifted.islands
    known = np.isfinite(found.radii_of_second[island.bends]).reshape(3, 3, 3)
    assert [bool(known[i, i, i]) for i in range(3)] == [False, True, True]


def test_what_is_no_line_is_refused() -> None:
    def kink(x: Any) -> Any:
        return np.interp(x, [0.0, X[0], 1.0], [0.0, 1.0, 1.5])

    with pytest.raises(NotLifted, match="no formula for `interp`"):
        with_islands(numpy_subject(kink).lift())


def test_many_columns_are_left_to_differences_of_the_layer() -> None:
    with pytest.raises(NotLifted, match=r"no formula for .*cubed`"):
        subject_of(torch_engine(), cubed, x=np.ones(MOST_COLUMNS + 1)).lift()


def noisy(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rrelu(x, 0.0, 1.0, training=True)


def test_an_island_with_more_results_nearby_is_not_lifted() -> None:
    """Of equal numbers `unique` keeps one; PyTorch has no derivative of it."""
    report = check(torch.unique, torch.tensor([0.3, 1.2, 0.3]), dtypes=["float64"])
    assert {finding.code for finding in report.findings} == {"GC701"}
    assert "derivative for '_unique2' is not implemented" in report.findings[0].message


def test_an_island_without_an_input_is_not_lifted() -> None:
    assert examined(noisy, {"x": np.ones((1, 0, 3))}).failure is None


def test_an_island_of_whose_result_no_entry_is_used_is_dropped() -> None:
    def layer(x: torch.Tensor) -> torch.Tensor:
        unused = torch.linalg.eigvals(x).real[:0]
        return torch.cat([unused, torch.sin(x).ravel()])

    report = check(layer, torch.tensor([[2.0, 1.0], [0.5, 3.0]]), dtypes="float64", order=2)
    assert report.passed
    assert not report.results[0].notes  # such as that there is no certified truth
