"""Layers are searched where their code runs; NumPy needs no framework."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradcheck_cli import specfile
from gradcheck_cli.domain.search import Kind, SearchRequest
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.search.answering import searched
from gradcheck_cli.search.layers import UNPROVEN

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
def test_a_layer_fails_at_a_witness_and_is_never_proven(
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
    assert (undefined.verdict, undefined.why) == ("undecided", UNPROVEN)
    assert broken.verdict == "found"
    assert broken.witness is not None
    assert np.max(broken.witness.values["x"]) > 88
    assert np.isinf(broken.witness.computed)
