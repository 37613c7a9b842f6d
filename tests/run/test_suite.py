"""Samples become specs."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.suite import Sample
from gradcheck_cli.run.suite import specs_of


def test_each_sample_is_a_spec_with_a_line_of_its_operation() -> None:
    samples = [
        Sample("solve", 0, {"x0": np.eye(2), "x1": np.ones(2)}),
        Sample("solve", 2, {"x0": np.ones((2, 2, 2))}, ("x0",)),
        Sample("exp", 0, {"x0": np.array(1.0)}),
    ]
    specs = specs_of("torch-ops", samples, ("torch", "torch-compile"), order=2)
    assert [spec.name for spec in specs] == ["solve[0]", "solve[2]", "exp[0]"]
    assert {spec.order for spec in specs} == {2}
    solve, other, exp = specs
    assert solve.source is other.source
    assert solve.source.path == "torch-ops/solve"
    lines = [spec.source.line(spec.span.line) for spec in specs]
    assert lines == [
        "solve[0](x0: 2x2, x1: 2), order 2",
        "solve[2](x0: 2x2x2), order 2",
        "exp[0](x0: scalar), order 2",
    ]
    assert other.inputs["x0"].is_complex
    assert [layer.engine for layer in exp.implementations] == ["torch", "torch-compile"]
    assert other.implementations[0].args == ("solve", 2, False)
    assert other.called == "gradcheck suite torch-ops solve --order 2 --samples 3"
