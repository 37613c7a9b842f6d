"""A compiled layer with another value than the layer as it was written."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from gradcheck_cli.checks.compiled_values import OTHER_DRAWS, wrong_value
from gradcheck_cli.engines.layer.subject import CallResult, Output
from gradcheck_cli.engines.torch.compiled import THE_BACKEND
from tests.checks.making import examined


def adding(number: float) -> Any:
    """A compiler whose forward passes give more by this."""

    def compiler(graph: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            value, *kept = graph.forward(*args)
            return [value + number, *kept]

        return make_boxed_func(run)

    return aot_autograd(
        fw_compiler=compiler, bw_compiler=lambda graph, _: make_boxed_func(graph.forward)
    )


def difference(x: torch.Tensor) -> torch.Tensor:
    return (x * x - x * x) + 1e-30


def drawing(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rand(x.shape, dtype=x.dtype)


def test_a_wrong_value_is_found_beside_a_right_gradient() -> None:
    for dtype in ("float32", "float64"):
        found = examined(torch.compile(torch.sin, backend=adding(0.25)), {"x": [0.5]}, dtype=dtype)
        (finding,) = found.findings
        assert (finding.code, finding.stage) == ("GC104", THE_BACKEND)
        assert finding.message.endswith("right with decompositions, wrong from its backend on")
        (entry,) = finding.entries
        assert entry.computed == pytest.approx(entry.truth + 0.25)


def test_rounding_in_another_order_is_no_other_value() -> None:
    """Nothing is left of what is subtracted, and less in a higher precision."""
    by_rounding = torch.compile(difference, backend=adding(1e-7))
    assert examined(by_rounding, {"x": [0.5]}, dtype="float32").findings != ()
    noise = {torch.float32: 1e-7, torch.float64: 1e-16}

    def rounding(graph: Any, inputs: Any) -> Any:
        number = noise[inputs[0].dtype]
        return adding(number)(graph, inputs)

    assert examined(torch.compile(difference, backend=rounding), {"x": [0.5]}).findings == ()


def test_other_random_numbers_leave_the_gradient_undecided() -> None:
    found = examined(torch.compile(drawing, backend=adding(0.25)), {"x": [0.5]}, dtype="float32")
    assert [(one.code, one.message) for one in found.findings] == [("GC501", OTHER_DRAWS)]
    assert found.checks == ()


def test_a_layer_whose_truth_is_compiled_as_well_may_draw_what_it_likes() -> None:
    """As a `tf.function`, which draws other numbers than what it wraps."""
    written, compiled = np.array([1.0]), np.array([2.0])
    stage = [""]
    subject: Any = SimpleNamespace(
        stages=("no compiler", "its tf.function"),
        dtype="float32",
        outputs=(Output("y", (1,), "float32", 0),),
        at_stage=lambda name: nullcontext(stage.__setitem__(0, name)),
        run=lambda call: CallResult(written if stage[0] else compiled, random=True),
        value=lambda values: compiled,
    )
    layer: Any = SimpleNamespace(narrow=subject)
    assert wrong_value(layer, lambda dtype: subject) is None
