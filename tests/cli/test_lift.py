"""`gradcheck lift` writes a spec of the same function as the layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from gradcheck_cli import specfile
from gradcheck_cli.truth.plain import PlainFunction

from .calling import call_here

LAYERS = """
import torch

class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(3, width)

    def forward(self, x, mask):
        h = torch.tanh(self.inner(x))
        return torch.where(mask, h, h[:, :1]).sum(0) * torch.tensor([1.0, -2.0])

def broken(x):
    raise ValueError("not today")
"""
X, MASK = "x=[[0.5, -1.5, 2.0]]", "mask={value: [[true, false]], dtype: bool}"


def lifted(tmp_path: Path, *arguments: str, stdin: str | None = None):
    (tmp_path / "layers.py").write_text(LAYERS)
    return call_here("lift", *arguments, cwd=tmp_path, stdin=stdin)


def value_of(text: str) -> np.ndarray:
    (spec,), errors = specfile.read("lifted.yaml", text)
    assert not errors
    values = {name: entry.value for name, entry in spec.inputs.items()}
    return PlainFunction(spec.program, "float64")(values)


def test_the_spec_computes_the_layer(tmp_path: Path) -> None:
    found = lifted(tmp_path, "layers.py:Net", "--arg", "2", "--input", X, "--input", MASK)
    assert found.code == 0
    assert "tanh(" in found.out
    assert "where(" in found.out
    torch.manual_seed(0)
    inner = torch.nn.Linear(3, 2).double()
    h = torch.tanh(inner(torch.tensor([[0.5, -1.5, 2.0]], dtype=torch.float64)))
    right = torch.stack([h[0, 0], -2 * h[0, 0]]).detach().numpy()
    np.testing.assert_allclose(value_of(found.out), right, rtol=1e-15)


def test_a_spec_gives_all_its_layers(tmp_path: Path) -> None:
    spec = "inputs: {x: [0.5, 2]}\nimplementations: {torch: 'torch:exp'}\n"
    found = lifted(tmp_path, "-", stdin=spec)
    assert found.code == 0
    np.testing.assert_allclose(value_of(found.out), np.exp([0.5, 2]))


def test_without_a_layer_nothing_is_written(tmp_path: Path) -> None:
    found = lifted(tmp_path, "-", stdin="inputs: {x: 1}\nmodel: sin(x)\n")
    assert (found.code, found.out) == (5, "")


def test_what_is_no_program_is_refused_by_name(tmp_path: Path) -> None:
    found = lifted(tmp_path, "layers.py:broken", "--input", "x=1")
    assert (found.code, found.out) == (2, "")
    assert "raised ValueError: not today" in found.err


def test_what_a_layer_needs_to_be_one_is_said(tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text("import numpy as np\n\ndef wave(x):\n    return np.sin(x)\n")
    found = call_here("lift", "alone.py:wave", "--input", "x=3", cwd=tmp_path)
    assert found.code == 2
    assert "`wave` cannot be lifted: alone.py:wave has no `wave_backward` beside it" in found.err
    assert "a function `wave` beside its `wave_backward`" in found.err


def test_what_the_command_line_lacks_is_said(tmp_path: Path) -> None:
    assert "needs an input" in lifted(tmp_path, "torch:exp").err
    assert "has no value" in lifted(tmp_path, "torch:exp", "--input", "x").err
    assert "a spec has its own" in lifted(tmp_path, "-", "--input", "x=1").err
    assert lifted(tmp_path, "layers.py:Nat", "--input", "x=1.0").code == 2
