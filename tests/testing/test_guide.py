"""The guide about layers shows what happens."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from gradcheck_cli import GradientError, specfile
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.report.lifted import spec_text
from gradcheck_cli.run.in_process import run_in_process
from gradcheck_cli.run.lift import lift

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "layers.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "layers.py").write_text(blocks("python")[0], "utf-8")
    (tmp_path / "rms.yaml").write_text(blocks("yaml")[0], "utf-8")
    return tmp_path


def test_the_spec_finds_what_the_guide_shows(folder: Path) -> None:
    (spec,), errors = specfile.read(str(folder / "rms.yaml"))
    assert not errors
    result = run_in_process(spec, RunOptions())
    shown, formula, _ = blocks("text")
    assert {f.code for f in result.findings if f.severity == "error"} == {"GC101"}
    assert "error[GC101] wrong-gradient  rms  torch float32, float64 reverse" in shown
    (cause,) = {finding.cause for finding in result.findings if finding.dtype == "float64"}
    assert cause is not None
    assert cause.detail in shown
    (layer,) = lift(spec, None, 0)
    assert spec_text("rms", layer) in formula


def test_the_layer_that_is_unstable_has_the_fix_that_the_guide_shows() -> None:
    specs = Path(__file__).parents[2] / "specs" / "layers" / "code" / "log_probabilities.yaml"
    (plain, stable), errors = specfile.read(str(specs))
    assert not errors
    *_, shown = blocks("text")
    found = run_in_process(plain, RunOptions()).findings
    assert {finding.code for finding in found} == {"GC201", "GC203"}
    for fix in (finding.fix for finding in found):
        assert fix is not None
        assert fix.place is not None
        assert f"{fix.after}   in place of {fix.before}" in shown
        assert f"torch_layers.py:{fix.place.span.line})" in shown
    assert not run_in_process(stable, RunOptions()).findings


def test_the_calls_run(folder: Path, forked: None) -> None:
    scope = {
        "x": torch.tensor([[0.5, 2.0, 1.0]]),
        "weight": torch.tensor([1.0, 0.5, 2.0]),
    }
    layers, first, others, fixture, *_ = blocks("python")
    exec(layers, scope)
    with pytest.raises(GradientError, match="GC101"):
        exec(first, scope)
    scope |= {
        "forward": np.sin,
        "backward": lambda y_bar, x: y_bar * np.cos(x),
        "module": torch.nn.Linear(3, 2),
        "softplus": torch.nn.functional.softplus,
        "sign": Sign.apply,
    }
    right = others.replace("check(", "assert_gradients(").replace('"1 / exp(x)"', '"exp(-x)"')
    exec(right.replace("x=100.0)", 'x=100.0, engine="reference")'), scope)
    exec(fixture, scope)
    with pytest.raises(GradientError, match="GC101"):
        scope["test_rms_norm"](scope["assert_gradients"])


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sign(x)

    @staticmethod
    def backward(ctx, y_bar):
        return y_bar
