"""Scripts that show a kind of gradient, a lost output, and modes that disagree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Entry
from gradcheck_cli.report.repro.script import script
from gradcheck_cli.report.repro.shown import shows
from tests.conftest import spec_of
from tests.report.repro.cases import FINDING, PLANTED, SPEC, ran


@pytest.mark.parametrize("engine", ["torch", "jax"])
def test_an_output_is_lost_where_any_number_of_it_is(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "the output at (1,) is inf: genuine overflow"
    found = replace(FINDING, code="GC203", engine=engine, entries=(), input=None, message=message)
    assert ran(found, spec_of("exp(x)", {"x": [1.0, 1000.0]}), capsys) == (1, "inf")
    assert ran(found, spec_of("exp(x)", {"x": [0.0, 1.0]}), capsys) == (0, "1.0")
    assert shows("computed: inf\n", found)
    assert not shows("computed: 1.0\n", found)


def test_one_entry_by_both_modes(capsys: pytest.CaptureFixture[str]) -> None:
    both = (Entry(index=(1,), computed=3.0),)
    found = replace(FINDING, code="GC105", entries=both)
    with pytest.raises(SystemExit) as ended:
        exec(compile(script(found, SPEC), "repro.py", "exec"), {})
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "computed: 12.0 by reverse mode\ncomputed: 12.0 by forward mode" in printed


@pytest.mark.parametrize("engine", ["torch", "jax"])
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_the_dtype_of_a_gradient(
    engine: str, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "the gradient of `x` is float32, its input is float64"
    found = replace(
        FINDING, code="GC103", engine=engine, mode=mode, message=message, entries=(), indexing=None
    )
    assert ran(found, SPEC, capsys) == (0, "float64")
    assert shows("computed: float32 of shape (2,)\n", found)
    assert not shows("computed: float64 of shape (2,)\n", found)


def test_a_gradient_that_the_framework_refuses(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PLANTED)
    layer = Implementation("torch", "layers.py:Transposed", str(PLANTED), Span(1, 1, 1, 2))
    spec = spec_of("x @ w", {"x": [[0.5, 1.0]], "w": [[1.0], [3.0]]})
    message = "Function TransposedBackward returned an invalid gradient at index 1"
    found = replace(FINDING, code="GC103", mode=None, input=None, message=message, entries=())
    assert ran(found, replace(spec, implementations=(layer,)), capsys)[0] == 1


RAISING = """
import torch
def loss(x):
    return torch.nn.functional.multi_margin_loss(x[None], torch.tensor([1]))
"""


@pytest.mark.parametrize("code", ["GC701", "GC106"])
def test_what_the_framework_raises_in_any_mode(
    code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "layer.py").write_text(RAISING)
    layer = Implementation("torch", "layer.py:loss", str(tmp_path), Span(1, 1, 1, 2))
    spec = replace(spec_of("x", {"x": [1.0, 2.0]}), implementations=(layer,))
    twice = "derivative for aten::multi_margin_loss_backward is not implemented"
    found = replace(FINDING, code=code, input=None, entries=(), message=twice)
    for mode, expected in (("reverse", 0), ("reverse-over-reverse", 1)):
        with pytest.raises(SystemExit) as ended:
            exec(compile(script(replace(found, mode=mode), spec), "repro.py", "exec"), {})
        assert ended.value.code == expected
    printed = capsys.readouterr().out
    assert shows(printed[printed.rindex(code) :], found)
