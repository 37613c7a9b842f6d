"""Scripts that show how a layer behaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.report.layer_code import NoScript
from gradcheck_cli.report.repro import script, shows
from tests.checks.making import examined
from tests.conftest import spec_of

PLANTED = Path(__file__).parents[2] / "specs" / "planted"
POINT = {"x": [[0.5, 1.0, 1.5], [2.0, 2.5, 3.0]]}
RIGHT = {
    "torch": "import torch\ndef f(x, w):\n    return torch.sin(x) * w\n",
    "tensorflow": "import tensorflow as tf\ndef f(x, w):\n    return tf.sin(x) * w\n",
    "jax": "import jax\ndef f(x, w):\n    return jax.numpy.sin(x) * w\n",
}
CALLS = (
    "called twice with the same input and the same random numbers, the value is 1 and then 2",
    "it depends on how often the layer was called: the gradient of `x` is 1 and then 2",
    "before and after a call with another input, the gradient of `x` is 1 and then 2",
    "for an input on a fresh layer, and for the same input after another, the value is 1",
    "in a first call of an object, and in a second one, the gradient of `x` is 1 and then 2",
    "for -1024 times the upstream gradient the gradient of `x` is 1, not 2",
    "for an upstream gradient of zero the gradient of `x` is 1",
    "for the sum of two upstream gradients the gradient of `x` is 1; the two add up to 2",
)
GRAPHS = (
    "with another forward run between a forward and its backward, the gradient of `x` is 1",
    "for another input the gradient of `x` is still that of the first one",
    "in two backward passes over one graph, the gradient of `x` is 1 and then 2",
    "the layer writes to its input `x`",
    "the backward writes to the input `x`",
    "the backward writes to the upstream gradient, which it does not own",
    "the gradient of `x` is 1 in the plain run, and 2 where an input is transposed in memory",
    "the gradient of `x` is 1, and 2 where an input is a slice with gaps in memory",
    "the gradient of `x` is 1 in the plain run, and 2 where an input is expanded (stride 0)",
    "the gradient of `x` is 1, and 2 where the upstream gradient is transposed in memory",
    "the gradient of `x` is 1, and 2 where the upstream gradient is a slice with gaps in memory",
    "the gradient of `x` is 1, and 2 where the upstream gradient is expanded (stride 0), as is",
    "the value is 1 in the plain run, and 2 when no gradients are tracked",
    "the gradient of `x` is 1 in the plain run, and 2 where only `x` requires a gradient",
    "<v, J u> is 1 by forward mode, <J^T v, u> 2 by reverse",
)


def spec_with(engine: str, target: str, folder: Path, inputs: Mapping[str, Any]) -> Spec:
    layer = Implementation(engine, target, str(folder), Span(1, 1, 1, 2))
    return replace(spec_of(" + ".join(inputs), inputs), implementations=(layer,))


def ran(finding: Finding, spec: Spec, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    with pytest.raises(SystemExit) as ended:
        exec(compile(script(finding, spec), "repro.py", "exec"), {"__name__": "__main__"})
    return ended.value.code, capsys.readouterr().out


def finding(engine: str, message: str, code: str = Codes.STATEFUL_GRADIENT) -> Finding:
    name = "x" if "gradient of `x`" in message or "put `x`" in message else None
    return Finding(code, "error", message, Span(1, 1, 1, 2), engine, input=name)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("dropout", Codes.STOCHASTIC),
        ("Noisy", Codes.NONDETERMINISTIC),
        ("Scaled", Codes.INPUT_MUTATED),
        ("Exp", Codes.UPSTREAM_MUTATED),
        ("Shared", Codes.STATEFUL_GRADIENT),
        ("Cached", Codes.STATEFUL_GRADIENT),
        ("Counting", Codes.STATEFUL_GRADIENT),
        ("Strided", Codes.LAYOUT_DEPENDENT),
        ("Clipped", Codes.NONLINEAR_BACKWARD),
        ("Pair", Codes.REQUEST_DEPENDENT),
    ],
)
def test_a_planted_layer_is_shown_by_the_framework_alone(
    target: str, code: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PLANTED)
    spec = spec_with("torch", f"layers.py:{target}", PLANTED, POINT)
    findings = examined(f"layers.py:{target}", POINT, behaviour=True).findings
    (found,) = (one for one in findings if one.code == code)
    exit_code, printed = ran(found, spec, capsys)
    assert exit_code == 1
    assert shows(printed, found)


@pytest.mark.parametrize(
    ("engine", "messages"),
    [
        ("torch", CALLS + GRAPHS),
        ("jax", CALLS),
        pytest.param("tensorflow", CALLS, marks=pytest.mark.exhaustive),
    ],
)
def test_a_right_layer_ends_with_0(
    engine: str, messages: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "layer.py").write_text(RIGHT[engine])
    spec = spec_with(engine, "layer.py:f", tmp_path, {**POINT, "w": [1.0, 2.0, 3.0]})
    wrong = {}
    for message in messages:
        exit_code, printed = ran(finding(engine, message), spec, capsys)
        if exit_code != 0 or "computed: " not in printed:
            wrong[message] = printed
    assert wrong == {}


FIRST = """
import torch
class First(torch.autograd.Function):
    kept = None
    @staticmethod
    def forward(ctx, x):
        First.kept = x if First.kept is None else First.kept
        return torch.sin(x)
    @staticmethod
    def backward(ctx, g):
        return g * torch.cos(First.kept)
class Frozen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3))
    def forward(self, x):
        return x * self.w if self.w.requires_grad else x * self.w * 2
"""


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("First", "for another input the gradient of `x` is still that of the first one"),
        ("Frozen", "the gradient of `x` is 1, and 2 where only `x` requires a gradient"),
    ],
)
def test_what_only_another_call_shows(
    target: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "layer.py").write_text(FIRST)
    found = finding("torch", message)
    exit_code, printed = ran(
        found, spec_with("torch", f"layer.py:{target}", tmp_path, POINT), capsys
    )
    assert exit_code == 1
    assert shows(printed, found)


@pytest.mark.parametrize(("target", "code"), [("no_return", 1), ("Exp", 0)])
def test_what_a_layer_returns(
    target: str, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PLANTED)
    spec = spec_with("torch", f"layers.py:{target}", PLANTED, POINT)
    message = "the layer returned None: is a `return` missing?"
    found = finding("torch", message, Codes.MISSING_OUTPUT)
    exit_code, printed = ran(found, spec, capsys)
    assert exit_code == code
    assert shows(printed, found)


def test_other_words_or_another_number_do_not_show_it() -> None:
    found = finding("torch", CALLS[1])
    assert shows("computed: 3.0 (it depends on how often the layer was called)\n", found)
    assert not shows("computed: 3.0 (before and after a call with another input)\n", found)
    assert not shows("as usual: 3.0\n", found)


@pytest.mark.parametrize(
    ("engine", "message", "why"),
    [
        ("jax", GRAPHS[0], "no run of the framework alone"),
        ("torch", "the gradient of `x` is 1, and 2 where only `w`, ... requires a", "not name all"),
    ],
)
def test_what_no_run_shows(engine: str, message: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "layer.py").write_text(RIGHT[engine])
    spec = spec_with(engine, "layer.py:f", tmp_path, {**POINT, "w": [1.0, 2.0, 3.0]})
    with pytest.raises(NoScript, match=why):
        script(finding(engine, message), spec)
