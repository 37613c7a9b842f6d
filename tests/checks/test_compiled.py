"""Layers that `torch.compile` has compiled: the gradient that is judged is the compiled one."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from gradcheck_cli.engines.torch.compiled import NO_FORWARD_MODE, NOTE
from tests.checks.making import examined


def as_traced(graph: Any, inputs: Any) -> Any:
    return make_boxed_func(graph.forward)


def doubled(graph: Any, inputs: Any) -> Any:
    """A compiler of backward passes that makes a mistake."""
    return make_boxed_func(lambda *args: [2 * one for one in graph.forward(*args)])


def layer(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * x


def test_a_wrong_compiled_gradient_is_found_where_the_layer_as_written_is_right() -> None:
    wrong = torch.compile(layer, backend=aot_autograd(fw_compiler=as_traced, bw_compiler=doubled))
    right = torch.compile(layer, backend=aot_autograd(fw_compiler=as_traced))
    for dtype in ("float32", "float64"):
        found = examined(wrong, {"x": [0.5, 1.5]}, dtype=dtype)
        assert {finding.code for finding in found.findings} == {"GC101"}
        assert {finding.mode for finding in found.findings} == {"reverse"}
        assert NOTE in found.notes
        assert any(NO_FORWARD_MODE in note for note in found.notes)
    passed = examined(right, {"x": [0.5, 1.5]}, dtype="float32")
    assert passed.failure is None
    assert passed.findings == ()
