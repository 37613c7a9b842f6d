from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradcheck_cli.engines.kit.startup import StandIn, only_tensorflow

TORCH = """
import sys
import torch
from gradcheck_cli.engines.kit.startup import without_compiler

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

TENSORFLOW = """
import sys
from gradcheck_cli.engines.kit.startup import only_tensorflow

with only_tensorflow():
    import tensorflow as tf
assert not {"jax", "keras"} & set(sys.modules)
assert tf.keras.layers.Dense(3)(tf.ones((2, 2))).shape == (2, 3)
assert tf.compat.v1.Session.__name__ == "Session"
from tensorflow.compat.v1 import placeholder
from tensorflow.keras import Sequential
import jax
with only_tensorflow():  # once everything is there, nothing is hidden any more
    import jax as again, keras
assert again is jax and tf.compat.v1.placeholder is placeholder
"""


@pytest.mark.parametrize("code", [TORCH, TENSORFLOW], ids=["torch", "tensorflow"])
def test_what_is_left_out_comes_when_asked_for(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_up.py").write_text("answer = 42\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    standing_in = StandIn("made_up")
    monkeypatch.setitem(sys.modules, "made_up", standing_in)
    import made_up  # type: ignore[import-not-found]

    assert made_up is standing_in
    assert standing_in.answer == 42
    assert sys.modules["made_up"] is not standing_in
    assert "answer" in dir(standing_in)
    with pytest.raises(AttributeError, match="made_up"):
        standing_in.question  # noqa: B018


def test_hidden_modules_are_there_again_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jax", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = set(sys.modules)

    def fails() -> None:
        with only_tensorflow():
            assert sys.modules["jax"] is None
            raise ImportError("no TensorFlow here")

    with pytest.raises(ImportError, match="no TensorFlow here"):
        fails()
    assert "jax" not in sys.modules
    assert set(sys.modules) <= before
