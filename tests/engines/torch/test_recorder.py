"""What is written down of PyTorch: arrays known again by their memory, nodes by autograd's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.execution import Execution
from gradcheck_cli.engines.trace.shadow import FIRST_BITS, FLOAT64, Numbers, shadow, to_float


@pytest.fixture
def written(engine_called: Callable[[str], Engine]) -> Callable[..., tuple[Execution, Any]]:
    """written(function, *arrays): the record of a call, which ends in the result."""
    engine_called("torch")
    import torch

    from gradcheck_cli.engines.torch.recorder import TorchRecorder

    def record(function: Callable[..., Any], *arrays: Any) -> tuple[Execution, Any]:
        recorder = TorchRecorder()
        tensors = [torch.tensor(array) for array in arrays]
        with recorder.recording():
            result = function(torch, *[recorder.watch(tensor) for tensor in tensors])
        recorder.execution.target = recorder.slot_of(result)
        return recorder.execution, result

    return record


def _again(execution: Execution) -> Any:
    """The target from the steps in balls, from nothing but what was there at the start."""
    assert execution.target is not None
    exact = shadow(execution, execution.needed(), Numbers(FIRST_BITS))
    return to_float(exact[execution.target])


def _in_place(torch: Any, x: Any) -> Any:
    y = x * 2
    z = y + 1
    y.mul_(3)
    return y + z


def _through_a_view(torch: Any, x: Any) -> Any:
    y = x * 2
    y[1].add_(10)
    return y * y


def _masked(torch: Any, x: Any) -> Any:
    y = torch.exp(x)
    y.masked_fill_(x > 0.5, 7.0)
    return y.t() + x


def _filled(torch: Any, x: Any) -> Any:
    y = torch.zeros_like(x)
    y[0] = x[1]
    return y + x


def _part_of_a_chunk(torch: Any, x: Any) -> Any:
    y = x * 2
    y.chunk(2)[0].add_(x[1])
    y.t()[1].mul_(3)
    return y * x


def _in_every_part(torch: Any, x: Any) -> Any:
    first, second = (x * 2).unsafe_split(1)
    first.sigmoid_()
    second.tanh_()
    return first * second


def _seen_through_a_view(torch: Any, x: Any) -> Any:
    y = x * 2
    turned, row = y.t(), y[1]
    y.mul_(3)
    turned[0, 0].add_(x[1, 1])
    return turned * row + y


def _added_twice_to_one_place(torch: Any, x: Any) -> Any:
    y = x * 2
    y.index_put_((torch.tensor([1, 1]),), x, accumulate=True)
    y[:, 0] = x[0]
    y[y > 1.5] = 0.25
    return y * y


def _random(torch: Any, x: Any) -> Any:
    torch.manual_seed(3)
    mask = torch.empty_like(x).bernoulli_(0.5)
    return x * mask + torch.rand_like(x)


@pytest.mark.parametrize(
    "function",
    [
        *(_in_place, _through_a_view, _masked, _filled, _part_of_a_chunk),
        *(_in_every_part, _seen_through_a_view),
        *(_added_twice_to_one_place, _random),
    ],
)
def test_operations_in_place(written: Callable[..., Any], function: Callable[..., Any]) -> None:
    x = np.array([[0.1, 0.9], [0.4, -2.0]])
    execution, result = written(function, x)
    np.testing.assert_allclose(_again(execution), result.numpy(), rtol=1e-14)
    # what goes in must matter: nothing was taken for a constant on the way
    execution.slots[0].native = execution.slots[0].native + 1
    execution.slots[0].numbers = None
    import torch

    np.testing.assert_allclose(_again(execution), function(torch, torch.tensor(x) + 1), rtol=1e-14)


def test_operation_of_another_library_is_none_of_atens(written: Callable[..., Any]) -> None:
    import torch

    with torch.library._scoped_library("gradcheck_test", "FRAGMENT") as library:
        library.define("add(Tensor x, Tensor y) -> Tensor")
        library.impl("add", lambda x, y: x - y, "CPU")
        execution, _ = written(
            lambda torch, x: torch.ops.gradcheck_test.add(x, x), np.array([1.0, 2.0])
        )
    (step,) = execution.steps
    assert step.exact is None


def test_numbers_beside_arrays_are_arguments(written: Callable[..., Any]) -> None:
    execution, _ = written(lambda torch, x: 1.5 - x, np.array(2.0))
    (step,) = execution.steps
    assert step.name == "aten.rsub.Scalar"
    assert [float(execution.values(slot)) for slot in step.args] == [2.0, 1.5]


def test_memory_is_taken_as_it_lay(written: Callable[..., Any]) -> None:
    """What a tensor is given as memory it would read as other numbers in another dtype."""

    def on_memory(torch: Any, x: Any) -> Any:
        return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage(), 0, (3,), (1,)) * x

    execution, result = written(on_memory, np.array([0.1, -0.2, 3.0], np.float32))
    assert [step.name for step in execution.steps] == ["aten.mul.Tensor"]
    assert shadow(execution, execution.needed(), FLOAT64)[execution.target] == pytest.approx(
        result.double().numpy(),
        rel=2.0**-24,  # a product rounded once
    )


def test_nothing_is_written_down_afterwards(written: Callable[..., Any]) -> None:
    import torch

    execution, result = written(lambda torch, x: x * x, np.array([1.0, 2.0]))
    torch.exp(result)
    assert [step.name for step in execution.steps] == ["aten.mul.Tensor"]


def test_second_run_leaves_the_first_as_it_was(written: Callable[..., Any]) -> None:
    """Operations in place are run on copies."""
    execution, result = written(_in_place, np.array([1.0, 2.0]))
    before = result.numpy().copy()
    for step in execution.steps:
        step.low([execution.slots[i].native for i in step.args])
    np.testing.assert_array_equal(result.numpy(), before)
