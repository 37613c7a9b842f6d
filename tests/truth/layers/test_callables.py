import numpy as np
import pytest
import torch

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.evaluation import Mode
from tests.checks.making import layer_problem, torch_engine


def codes(layer, inputs, **more) -> list[str]:  # type: ignore[no-untyped-def]
    answer = examine(torch_engine(), layer_problem(layer, inputs, **more))
    assert answer.failure is None, answer.failure
    return [f"{found.code} {found.input}" for found in answer.findings if found.severity != "note"]


def masked_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


def test_what_is_infinite_does_not_move() -> None:
    rows = [[0.5, -np.inf, 1.5, 0.25, -2.0], [-np.inf, 0.1, -np.inf, 0.7, 1.0]]
    assert codes(masked_softmax, {"x": rows}) == []


def nan_behind_a_mask(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isinf(x), torch.zeros(()), torch.exp(x) * x).sum()


def test_a_nan_by_an_infinite_number_is_told() -> None:
    assert codes(nan_behind_a_mask, {"x": [1.0, -np.inf, 2.0]}) == ["GC201 x"]


def test_an_output_without_entries_has_products_along_directions() -> None:
    assert codes(torch.mm, {"x": np.ones((0, 5)), "w": np.ones((5, 10))}) == []


class ConstantByCancellation(torch.autograd.Function):
    """sin**2 + cos**2 - 1 as zeros, with a backward of which rounding alone is left."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return torch.zeros_like(x)

    @staticmethod
    def backward(ctx, y_bar):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return y_bar * (torch.sin(x) ** 2 + torch.cos(x) ** 2 - 1)


def a_sine_and_a_constant(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.sin(x), ConstantByCancellation.apply(x)])


def test_the_rounding_of_a_derivative_of_zero_is_no_doubt() -> None:
    x = [0.3, -1.1, 0.9, 2.1, 0.77, 1.31]
    assert codes(a_sine_and_a_constant, {"x": x}, dtype="float64") == []


def on_the_unit_interval(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.binary_cross_entropy(torch.tensor([0.25, 0.5]).to(x), x)


def test_a_layer_that_refuses_points_is_differentiated_within_its_domain() -> None:
    assert codes(on_the_unit_interval, {"x": [1.0, 0.0]}) == []


def batch_norm_of_a_shift(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.batch_norm(x + shift, None, None, training=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_gradient_of_zero_is_what_rounding_leaves_of_it(dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((4, 3))
    assert codes(batch_norm_of_a_shift, {"x": x, "shift": [0.3, -0.2, 0.1]}, dtype=dtype) == []


def conjugated(x: torch.Tensor) -> torch.Tensor:
    return torch.conj(torch.fft.fft(x))


def test_complex_results_are_pairs_of_real_numbers() -> None:
    assert codes(conjugated, {"x": [0.5, -1.0, 2.0]}) == []


def with_a_record(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (x**2).sum(), x.detach().mean()


def test_an_output_that_does_not_require_grad_is_left_out_with_a_note() -> None:
    answer = examine(torch_engine(), layer_problem(with_a_record, {"x": [0.5, -1.0, 2.0]}))
    assert not answer.findings
    assert any("y[1]" in note for note in answer.notes)


def normal_cdf(x: torch.Tensor) -> torch.Tensor:
    return torch.special.ndtr(x)


def test_a_value_that_is_rounded_to_nothing_convicts_no_gradient() -> None:
    """The value is lost (GC303), and its gradient is not."""
    assert set(codes(normal_cdf, {"x": [-8.3, 0.5]})) <= {"GC303 None"}


def divide_no_nan(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x[0] == 0, 0.0, x[1] / torch.where(x[0] == 0, 1.0, x[0]))


def masked_log(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x[0] == 0, 0.0, torch.log(torch.where(x[0] == 0, 1.0, x[0].abs()))) * x[1]


@pytest.mark.parametrize("layer", [divide_no_nan, masked_log])
def test_a_pole_next_to_the_point_is_no_noise(layer) -> None:
    found = codes(layer, {"x": [0.0, 2.0]}, dtype="float64")
    assert found in (["GC402 x"], ["GC403 x"])


class Hole(torch.autograd.Function):
    """1e6 / a^2 + b, with a hole for a = 0, whose custom gradient is any numbers; and b^2."""

    @staticmethod
    def forward(ctx, x, gradient):  # type: ignore[no-untyped-def]
        ctx.b, ctx.gradient = x[1].clone(), x.new_tensor(gradient)
        pole = torch.where(x[0] == 0, 0.0, 1e6 / x[0] ** 2)
        return torch.stack([pole + x[1], x[1] ** 2])

    @staticmethod
    def backward(ctx, y_bar):  # type: ignore[no-untyped-def]
        b_squared = torch.stack([torch.zeros_like(ctx.b), 2 * ctx.b])
        return y_bar[0] * ctx.gradient + y_bar[1] * b_squared, None


@pytest.mark.parametrize("gradient", [[0.0, 1.0], [3.0, 1.0], [0.0, 5.0]])
def test_a_bar_that_holds_any_number_confirms_none(gradient: list[float]) -> None:
    """Beside a pole nothing is seen; other outputs are."""

    def layer(x: torch.Tensor) -> torch.Tensor:
        return Hole.apply(x, gradient)

    answer = examine(torch_engine(), layer_problem(layer, {"x": [0.0, 2.0]}, modes=("reverse",)))
    (found,) = answer.findings
    assert found.code == "GC501"
    assert {entry.index[0] for entry in found.entries} == {0}


def saturated(x: torch.Tensor) -> torch.Tensor:
    return torch.atan2(torch.full_like(x, -1.5), torch.special.i1e(x))


@pytest.mark.parametrize("off", [5e-8, 1e-7, 2e-7, 4e-7])
@pytest.mark.parametrize("modes", [("reverse",), ("forward",)])
def test_rounding_that_a_few_ulps_of_the_input_do_not_show_is_no_wrong_rule(
    off: float, modes: tuple[Mode, ...]
) -> None:
    """A saturated function hides the last digits of its input, and the inverse of what it gives is
    noise."""

    def layer(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(saturated(x)).sum()

    x = [[1.0, 1.0], [1.0, 1.0 + off]]
    found = codes(layer, {"x": x}, dtype="float64", modes=modes)
    assert not {"GC101 x", "GC105 x"} & set(found)


@pytest.mark.parametrize("x", [np.zeros((2, 2)), np.full((3, 3), 1.5)])
def test_where_the_rank_is_lost_a_derivative_of_one_side_accuses_nobody(x: np.ndarray) -> None:
    """Of the sum of the pseudoinverse the value does not jump, and its derivative does."""

    def layer(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.pinv(saturated(x)).sum()

    found = set(codes(layer, {"x": x}, dtype="float64"))
    assert "GC501 x" in found
    assert not {"GC101 x", "GC105 x"} & found
