"""A sample of the layers with labels is judged as they say."""

from __future__ import annotations

import pytest
import yaml

from benchmarks import labelled
from benchmarks.labelled import SPECS, Judged, judged, label_of
from gradcheck_cli.domain.codes import CODES
from tests.every import first

EVERY = 40


def test_every_layer_has_a_label() -> None:
    specs = [
        spec
        for file in SPECS.glob("*/*.yaml")
        for spec in yaml.safe_load_all(file.read_text("utf-8"))
    ]
    labels = [label_of(spec) for spec in specs]
    assert len(labels) == 160
    assert set(labels) <= {"right", *CODES}
    assert labels.count("right") == 72


def test_a_wrong_label_fails() -> None:
    assert Judged("a", "right", frozenset()).is_right
    assert not Judged("a", "right", frozenset({"GC402"})).is_right
    assert Judged("a", "GC101", frozenset({"GC101", "GC303"})).is_right
    assert not Judged("a", "GC101", frozenset()).is_right


@pytest.mark.parametrize("engine", first(3, ["torch", "tensorflow", "numpy", "jax"]))
def test_a_sample_is_judged_as_labelled(engine: str) -> None:
    cases = [*judged(EVERY, (engine,))]
    assert len(cases) >= 2
    assert [case for case in cases if not case.is_right] == []


def test_what_is_misjudged_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = (Judged("hostile/torch one", "GC101", frozenset()),)
    monkeypatch.setattr(labelled, "judged", lambda *_: iter(cases))
    assert labelled.main([]) == 1
    assert "hostile/torch one: GC101, but nothing" in capsys.readouterr().out
