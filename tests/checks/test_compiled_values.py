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


def adding(number: float, other: float | None = None) -> Any:
    """A compiler whose forward passes give more by this, in float64 by the other number."""

    def compiler(graph: Any, inputs: Any) -> Any:
        is_wide = inputs[0].dtype == torch.float64 and other is not None

        def run(*args: Any) -> Any:
            value, *kept = graph.forward(*args)
            return [value + (other if is_wide else number), *kept]

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
    rounding = adding(1e-7, 1e-16)
    for dtype in ("float32", "float64"):
        compiled = torch.compile(difference, backend=rounding)
        found = examined(compiled, {"x": [0.5]}, dtype=dtype).findings
        assert {one.code for one in found} <= {"GC303"}


@pytest.mark.parametrize(
    ("layer", "number", "code"),
    [
        (torch.sin, 0.25, "GC104"),
        (difference, 0.25, "GC104"),
        (torch.special.ndtri, 0.25, "GC501"),
    ],
    ids=["sin", "cancelled", "not lifted"],
)
def test_a_value_may_be_wrong_in_one_precision_alone(layer: Any, number: float, code: str) -> None:
    """By more than rounding every operation costs it, where that is known."""
    compiled = torch.compile(layer, backend=adding(number, 0.0))
    found = examined(compiled, {"x": [0.5]}, dtype="float32")
    assert [(one.code, one.stage) for one in found.findings] == [(code, THE_BACKEND)]


@pytest.mark.exhaustive
def test_what_a_precision_rounds_the_compiler_may_round_less() -> None:
    """As Inductor, which keeps more digits between operations of half precision."""

    def rounded(x: torch.Tensor) -> torch.Tensor:
        return (x + 256.0) - 256.0

    def compiler(graph: Any, inputs: Any) -> Any:
        return make_boxed_func(lambda x: [x.clone()])

    compiled = torch.compile(rounded, backend=aot_autograd(fw_compiler=compiler))
    assert "GC104" not in {one.code for one in examined(compiled, {"x": [0.7]}).findings}
    assert "GC501" not in {one.code for one in examined(compiled, {"x": [0.7]}).findings}


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
    assert wrong_value(layer, lambda dtype: subject, lambda: None) is None
