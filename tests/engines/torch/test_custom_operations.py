"""Operations of `torch.library` in forward mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradcheck_cli.domain.evaluation import SECOND, order_of
from tests.checks.making import examined


@torch.library.custom_op("gradcheck_tests::squared", mutates_args=())
def squared(x: torch.Tensor) -> torch.Tensor:
    return x * x


def _pull(ctx: Any, g: Any) -> Any:
    return 2 * g * ctx.saved_tensors[0]


squared.register_autograd(
    _pull, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
)


def test_a_lost_tangent_is_a_mode_that_the_operation_lacks() -> None:
    """Whether the whole tangent is lost, a part of it, or one under `torch.no_grad()`."""

    def without_a_graph(x: Any) -> Any:
        with torch.no_grad():
            return x + squared(x)

    for layer in (squared, lambda x: x.sin() + squared(x), lambda x: x + 0 * without_a_graph(x)):
        answer = examined(layer, {"x": np.array([0.3, -1.2])})
        assert not answer.findings
        assert {check.mode for check in answer.checks} == {"reverse"}
        assert any("left out: You must implement the jvp" in note for note in answer.notes)


def test_a_tangent_lost_in_a_composition_is_a_composition_that_the_operation_lacks() -> None:
    def layer(x: Any) -> Any:
        return torch.sigmoid(squared(torch.tanh(x)))

    modes = tuple(mode for mode in SECOND if order_of(mode) == 2)
    answer = examined(layer, {"x": np.array([0.3, -1.2])}, modes=modes)
    assert not answer.findings
    assert {check.mode for check in answer.checks} == {"reverse-over-reverse"}


def test_the_layer_s_other_operations_have_forward_mode() -> None:
    answer = examined(lambda x: x.sin() + squared(x.detach()), {"x": np.array([0.3, -1.2])})
    modes = {check.mode for check in answer.checks}
    assert modes == {"reverse", "forward"}


def test_a_tangent_of_another_shape_is_an_error_of_the_operation() -> None:
    """PyTorch 2.13 gives the norm of all entries a tangent with their axes."""

    def norm(x: Any) -> Any:
        return torch.ops.aten.norm.Scalar(x, 2)

    answer = examined(norm, {"x": np.array([[0.3, -1.2]])})
    assert {(found.code, found.mode) for found in answer.findings} == {("GC701", "forward")}
