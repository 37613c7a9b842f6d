"""The compiler is left out until something asks for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
import torch
from gradcheck_cli.engines.torch.startup import without_compiler

x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
with torch.autograd.forward_ad.dual_level():
    with without_compiler():
        y = torch.autograd.forward_ad.make_dual(x, x) @ x + torch.ones(2)
        assert {"torch._dynamo", "sympy"} <= set(sys.modules)  # what stands in for them
    assert not {"torch._dynamo", "sympy.core"} & set(sys.modules)
    assert torch.autograd.forward_ad.unpack_dual(y).tangent.tolist() == [[7.0, 10.0], [15.0, 22.0]]
    with without_compiler():
        import sympy
        assert not isinstance(x, sympy.Basic)
        assert sympy.Symbol("n").is_symbol  # asked for, it comes
        assert isinstance(sympy.Symbol("n"), sympy.Basic)
        assert torch._dynamo.config.suppress_errors is False
    assert {"torch._dynamo", "sympy.core"} <= set(sys.modules)
"""


@pytest.mark.exhaustive
def test_what_is_left_out_comes_when_something_asks_for_it() -> None:
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
