"""Layers are searched where their code runs; NumPy needs no framework, and proofs need PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradcheck_cli import specfile
from gradcheck_cli.domain.search import Kind, Search, SearchRequest
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.search.answering import searched
from gradcheck_cli.search.layers import LATER_CALLS, SAME_OPERATIONS

LAYER = """\
import numpy as np

class LogSumExp:
    @staticmethod
    def forward(x):
        return np.log(np.exp(x).sum())

    @staticmethod
    def backward(upstream, x):
        return upstream * np.exp(x) / np.exp(x).sum()
"""
SPEC = """\
inputs: {x: {value: [1.0, 2.0], domain: [-100, 100]}}
implementations: {numpy: layer.py:LogSumExp}
"""


@pytest.mark.exhaustive  # seconds of examinations
def test_a_layer_that_nothing_is_recorded_of_fails_at_a_witness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "layer.py").write_text(LAYER, "utf-8")
    monkeypatch.chdir(tmp_path)
    (spec,), mistakes = specfile.read("layer.yaml", SPEC)
    assert not mistakes
    engine = engines()["numpy"].engine
    assert engine is not None
    engine.load()
    kinds: tuple[Kind, ...] = ("undefined", "value-nonfinite")
    request = SearchRequest(spec, "float32", kinds, 1.0, 0)
    found = searched(engine, request, lambda question: None, lambda known: None)
    undefined, broken = found.searches
    assert undefined.verdict == "undecided"
    assert "not known whether the layer runs other operations" in undefined.why
    assert broken.verdict == "found"
    assert broken.witness is not None
    assert np.max(broken.witness.values["x"]) > 88
    assert np.isinf(broken.witness.computed)


TORCH_LAYER = """\
import torch

calls = []


def stable(x):
    return torch.log1p(torch.exp(-x.abs())).sum() + torch.relu(x).sum()


def counting(x):
    calls.append(0)
    return (2.0 if len(calls) > 100 else 1.0) * x.sum()
"""


def _searched(name: str, kinds: tuple[Kind, ...]) -> tuple[Search, ...]:
    text = f"{SPEC.splitlines()[0]}\nimplementations: {{torch: layer.py:{name}}}\n"
    (spec,), mistakes = specfile.read("layer.yaml", text)
    assert not mistakes
    engine = engines()["torch"].engine
    assert engine is not None
    engine.load()
    request = SearchRequest(spec, "float32", kinds, 1.0, 0)
    return searched(engine, request, lambda question: None, lambda known: None).searches


def test_a_layer_that_runs_the_same_at_all_points_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "layer.py").write_text(TORCH_LAYER, "utf-8")
    monkeypatch.chdir(tmp_path)
    proven = _searched("stable", ("value-nonfinite", "gradient-nonfinite"))
    assert [one.verdict for one in proven] == ["proven-absent"] * 2
    assert SAME_OPERATIONS in proven[0].assumptions
    (one,) = _searched("counting", ("value-nonfinite",))
    assert (one.verdict, one.why) == ("undecided", LATER_CALLS)
