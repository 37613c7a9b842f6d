"""Scripts that show how a layer behaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from gradcheck_cli.checks.behaviour.layouts import WORDS
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.behaviour import OtherRun, Way
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.report.repro.behaviour import OTHER_RUNS
from gradcheck_cli.report.repro.layer_code import NoScript
from gradcheck_cli.report.repro.script import script
from gradcheck_cli.report.repro.shown import shows
from tests.checks.making import examined, layer_problem
from tests.conftest import spec_of

PLANTED = Path(__file__).parents[3] / "specs" / "planted"
POINT = {"x": [[0.5, 1.0, 1.5], [2.0, 2.5, 3.0]]}
RIGHT = {
    "torch": "import torch\ndef f(x, w):\n    return torch.sin(x) * w\n",
    "tensorflow": "import tensorflow as tf\ndef f(x, w):\n    return tf.sin(x) * w\n",
    "jax": "import jax\ndef f(x, w):\n    return jax.numpy.sin(x) * w\n",
    "numpy": """
import numpy as np
class f:
    def forward(self, x, w):
        return np.sin(x) * w
    def backward(self, upstream, x, w):
        return upstream * np.cos(x) * w, (upstream * np.sin(x)).sum(0)
""",
}
OF_CALLS: tuple[Way, ...] = (
    "again",
    "counted",
    "added up",
    "after another",
    "fresh",
    "second call",
    "zero",
    "sum",
)
OF_GRAPHS: tuple[Way, ...] = (
    "another between",
    "first kept",
    "one graph",
    "forward mode",
    "input written",
    "input written backward",
    "upstream written",
    "gradient overwritten",
    "output written backward",
)
CALLS = (*map(OtherRun, OF_CALLS), OtherRun("multiple", factor=-1024.0))
GRAPHS = (
    *map(OtherRun, OF_GRAPHS),
    OtherRun("again", of_value=True),
    OtherRun("untracked", of_value=True),
    *(OtherRun("input layout", layout) for layout in WORDS),
    *(OtherRun("upstream layout", layout) for layout in WORDS),
    OtherRun("some leaves", names=("x",)),
)


OF_PAIRS = tuple(OtherRun(way) for way in OF_GRAPHS if way not in ("first kept", "forward mode"))


def spec_with(engine: str, target: str, folder: Path, inputs: Mapping[str, Any]) -> Spec:
    layer = Implementation(engine, target, str(folder), Span(1, 1, 1, 2))
    return replace(spec_of(" + ".join(inputs), inputs), implementations=(layer,))


def ran(finding: Finding, spec: Spec, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    with pytest.raises(SystemExit) as ended:
        exec(compile(script(finding, spec), "repro.py", "exec"), {"__name__": "__main__"})
    return ended.value.code, capsys.readouterr().out


def finding(
    engine: str, other_run: OtherRun | None, message: str = "", code: str = Codes.STATEFUL_GRADIENT
) -> Finding:
    name = "x" if other_run is not None and not other_run.of_value else None
    where = Span(1, 1, 1, 2)
    return Finding(code, "error", message, where, engine, input=name, other_run=other_run)


def test_every_way_has_its_run() -> None:
    assert OTHER_RUNS.keys() == set(get_args(Way))


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
    ("engine", "other_runs"),
    [
        ("torch", CALLS + GRAPHS),
        ("jax", CALLS),
        ("numpy", CALLS + OF_PAIRS),
        pytest.param("tensorflow", CALLS, marks=pytest.mark.exhaustive),
    ],
)
def test_a_right_layer_ends_with_0(
    engine: str,
    other_runs: tuple[OtherRun, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "layer.py").write_text(RIGHT[engine])
    spec = spec_with(engine, "layer.py:f", tmp_path, {**POINT, "w": [1.0, 2.0, 3.0]})
    wrong = {}
    for other_run in other_runs:
        exit_code, printed = ran(finding(engine, other_run), spec, capsys)
        if exit_code != 0 or "computed: " not in printed:
            wrong[other_run] = printed
    assert wrong == {}


OVERWRITING = {
    "gradient overwritten": """
import torch
class Sine(torch.autograd.Function):
    bar = {}
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        out = Sine.bar.setdefault(x.dtype, torch.empty_like(x))
        return torch.mul(g, torch.cos(x), out=out)
""",
    "output written backward": """
import torch
class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.y = y.detach()
        return y
    @staticmethod
    def backward(ctx, g):
        return ctx.y.square_().sub_(1).neg_() * g
""",
}


@pytest.mark.parametrize("way", OVERWRITING)
def test_what_a_backward_overwrites_is_shown(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "layer.py").write_text(OVERWRITING[way])
    name = "Sine" if "Sine" in OVERWRITING[way] else "Tanh"
    monkeypatch.chdir(tmp_path)
    spec = spec_with("torch", f"layer.py:{name}", tmp_path, POINT)
    findings = examined(str(tmp_path / "layer.py") + f":{name}", POINT, behaviour=True).findings
    (found,) = (one for one in findings if one.code == Codes.STATEFUL_GRADIENT)
    assert found.other_run == OtherRun(way)
    exit_code, printed = ran(found, spec, capsys)
    assert exit_code == 1
    assert shows(printed, found)


CHANNELS_LAST = """
import torch
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x
    @staticmethod
    def backward(ctx, g):
        return g if g.is_contiguous(memory_format=torch.channels_last) else 2 * g
"""


def test_memory_is_laid_out_as_in_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "layer.py").write_text(CHANNELS_LAST)
    monkeypatch.chdir(tmp_path)
    point = {"x": np.arange(1.0, 37.0).reshape(1, 4, 3, 3).tolist()}
    findings = examined(f"{tmp_path}/layer.py:Scaled", point, behaviour=True).findings
    found = next(one for one in findings if one.code == Codes.LAYOUT_DEPENDENT)
    spec = spec_with("torch", "layer.py:Scaled", tmp_path, point)
    exit_code, printed = ran(found, spec, capsys)
    assert exit_code == 1, printed
    assert shows(printed, found)


PAIRS = """
import numpy as np
class Sine:
    def forward(self, x):
        return np.sin(x)
    def backward(self, upstream, x):
        return upstream * np.cos(x)
class Kept(Sine):
    bar = np.empty((2, 3))
    def backward(self, upstream, x):
        return np.multiply(upstream, np.cos(x), out=self.bar.astype(x.dtype, copy=False))
class Added(Sine):
    total = 0.0
    def backward(self, upstream, x):
        self.total = self.total + super().backward(upstream, x)
        return self.total
class Writing(Sine):
    def backward(self, upstream, x):
        upstream *= np.cos(x)
        return upstream
class Doubling(Sine):
    def forward(self, x):
        x *= 2
        return np.sin(x / 2)
class Rounded(Sine):
    def backward(self, upstream, x):
        return np.clip(upstream, -1, 1) * np.cos(x)
class Output(Sine):
    def forward(self, x):
        self.y = np.sin(x)
        return self.y
    def backward(self, upstream, x):
        self.y[...] = np.cos(x)
        return upstream * self.y
"""


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Kept", Codes.STATEFUL_GRADIENT),
        ("Added", Codes.STATEFUL_GRADIENT),
        ("Output", Codes.STATEFUL_GRADIENT),
        ("Writing", Codes.UPSTREAM_MUTATED),
        ("Doubling", Codes.INPUT_MUTATED),
        ("Rounded", Codes.NONLINEAR_BACKWARD),
    ],
)
def test_a_pair_of_numpy_is_shown_by_its_own_calls(
    name: str,
    code: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "layer.py").write_text(PAIRS)
    monkeypatch.chdir(tmp_path)
    spec = spec_with("numpy", f"layer.py:{name}", tmp_path, POINT)
    target = f"{tmp_path}/layer.py:{name}"
    problem = layer_problem(target, POINT, engine="numpy", behaviour=True)
    findings = examine(NumpyEngine(), problem).findings
    found = next(one for one in findings if one.code == code)
    exit_code, printed = ran(found, spec, capsys)
    assert exit_code == 1, printed
    assert shows(printed, found)


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
    ("target", "other_run", "message"),
    [
        ("First", OtherRun("first kept"), "for another input the gradient of `x` is still that"),
        (
            "Frozen",
            OtherRun("some leaves", names=("x",)),
            "and 2 where only `x` requires a gradient",
        ),
    ],
)
def test_what_only_another_call_shows(
    target: str,
    other_run: OtherRun,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "layer.py").write_text(FIRST)
    found = finding("torch", other_run, message)
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
    found = finding("torch", None, message, Codes.MISSING_OUTPUT)
    exit_code, printed = ran(found, spec, capsys)
    assert exit_code == code
    assert shows(printed, found)


def test_other_words_or_another_number_do_not_show_it() -> None:
    message = "it depends on how often the layer was called: the gradient of `x` is 1 and then 2"
    found = finding("torch", OtherRun("counted"), message)
    assert shows("computed: 3.0 (it depends on how often the layer was called)\n", found)
    assert not shows("computed: 3.0 (before and after a call with another input)\n", found)
    assert not shows("as usual: 3.0\n", found)


@pytest.mark.parametrize(
    ("engine", "other_run"), [("jax", OtherRun("another between")), ("torch", None)]
)
def test_what_no_run_shows(engine: str, other_run: OtherRun | None, tmp_path: Path) -> None:
    (tmp_path / "layer.py").write_text(RIGHT[engine])
    spec = spec_with(engine, "layer.py:f", tmp_path, {**POINT, "w": [1.0, 2.0, 3.0]})
    with pytest.raises(NoScript, match="no run of the framework alone"):
        script(finding(engine, other_run), spec)
