"""PyTorch's operations at the samples of `op_db`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.torch import suite

pytestmark = pytest.mark.exhaustive


def test_a_sample_is_a_function_of_what_requires_a_gradient() -> None:
    (first, *_) = suite.samples("linalg.solve", 4, False)
    given = [torch.tensor(value) for value in first.inputs.values()]
    found = suite.Operation("linalg.solve", first.number, False)(*given)
    torch.testing.assert_close(found, torch.linalg.solve(*given), rtol=0, atol=0)
    again = suite.samples("linalg.solve", 4, False)[0]
    np.testing.assert_array_equal(again.inputs["x0"], first.inputs["x0"])


def test_tensors_that_are_not_differentiated_are_buffers_of_its_dtype() -> None:
    sample = suite.samples("gather", 1, False)[0]
    operation = suite.Operation("gather", sample.number, False)
    assert [tensor.dtype for tensor in operation.buffers()] == [torch.int64]
    single = operation.float()(torch.tensor(sample.inputs["x0"]).float())
    assert single.dtype == torch.float32


@pytest.mark.parametrize(("op", "place"), [("_softmax_backward_data", 0), ("cumsum", -1)])
def test_an_argument_that_names_the_dtype_of_the_sample_names_that_of_the_inputs(
    op: str, place: int
) -> None:
    sample = suite.samples(op, 4, False)[place]
    operation = suite.Operation(op, sample.number, False)
    given = torch.tensor(sample.inputs["x0"])
    assert operation(given).dtype == torch.float64
    single = operation.float()
    assert single(given.float()).dtype == torch.float32
    compiled = torch.compile(single, fullgraph=True)
    x = given.float().requires_grad_()
    found, right = (torch.autograd.grad(f(x).square().sum(), x)[0] for f in (compiled, single))
    torch.testing.assert_close(found, right)


def test_an_argument_that_names_one_dtype_for_all_samples_stays() -> None:
    sample = suite.samples("softmax.with_dtype", 1, False)[0]
    operation = suite.Operation("softmax.with_dtype", sample.number, False).float()
    assert operation(torch.tensor(sample.inputs["x0"]).float()).dtype == torch.float64


@pytest.mark.parametrize("op", ["masked.cumsum", "masked.amax"])
def test_the_output_of_a_masked_operation_is_zero_where_it_is_masked_out_compiled_too(
    op: str,
) -> None:
    info = suite.database()[op]
    for sample in suite.samples(op, 4, False):
        operation = suite.Operation(op, sample.number, False)
        given = torch.tensor(sample.inputs["x0"])
        drawn = suite._first_samples(op, sample.number + 1, torch.float64)[sample.number]
        expected = info.gradcheck_wrapper(info.op, given, *drawn.args, **drawn.kwargs)
        torch.testing.assert_close(operation(given), expected, rtol=0, atol=0)
        torch.compiler.reset()  # it gives up after eight objects of one class
        compiled = torch.compile(operation, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(given), expected, rtol=0, atol=0)


def test_complex_samples_have_pairs() -> None:
    sample = suite.samples("exp", 1, True)[0]
    assert sample.complex_inputs == ("x0",)
    assert sample.inputs["x0"].shape[-1] == 2
    with pytest.raises(Unsupported, match="complex128"):
        suite.samples("lgamma", 1, True)


def test_what_has_no_derivative_is_refused() -> None:
    with pytest.raises(Unsupported, match="no derivative"):
        suite.samples("isnan", 1, False)


def test_a_sample_of_numbers_that_gives_none_is_no_case() -> None:
    with pytest.raises(Unsupported, match="without entries"):
        suite.samples("nn.functional.pdist", 1, False)
    assert [sample.number for sample in suite.samples("repeat", 4, False)] != list(range(4))
