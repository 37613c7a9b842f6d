"""Formulas become smaller as long as their finding stays."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gradcheck_cli.cli.reduce import _spec
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.place import Span
from gradcheck_cli.report.repro import script
from gradcheck_cli.run.reduce import reduce, smaller
from gradcheck_cli.specfile import read
from tests.conftest import spec_of

TEXT = "sum(1 / exp(x) * y) + 3 * sum(sin(y))"
OPTIONS = RunOptions(engines=Layered(override=("torch",)), dtypes=Layered(override=("float32",)))


def test_operations_go_first_then_entries_then_digits() -> None:
    made = list(smaller("exp(x) * y", spec_of("exp(x) * y", {"x": [1.25, 2.5], "y": [3.0, 4.0]})))
    texts = [text for text, _ in made]
    assert texts[:3] == ["y", "x * y", "exp(x)"]
    assert texts[3:] == ["exp(x) * y"] * (len(texts) - 3)
    assert "y" not in made[2][1].inputs
    assert [one.value.tolist() for one in made[3][1].inputs.values()] == [[1.25], [3.0]]
    assert [one.value.tolist() for one in made[-1][1].inputs.values()] == [[1.25, 2.5], [3.0, 4.0]]


def test_what_is_no_formula_is_passed_over() -> None:
    spec = spec_of("reshape(x, (2, 2))", {"x": [1.0, 2.0, 3.0, 4.0]})
    made = list(smaller("reshape(x, (2, 2))", spec))
    assert all(len(one.inputs["x"].value) == 4 for _, one in made)


def test_layers_are_not_reduced() -> None:
    layer = Implementation("torch", "layers.py:f", "", Span(1, 1, 1, 2))
    spec = replace(spec_of("x", {"x": 1.0}), implementations=(layer,))
    with pytest.raises(UsageError, match="about layers"):
        reduce(spec, None, OPTIONS)


@pytest.mark.exhaustive
def test_the_finding_stays_and_a_script_shows_it(tmp_path: Path) -> None:
    found = reduce(
        spec_of(TEXT, {"x": [1.25, 100.125, 2.0], "y": [0.3, 0.2, 0.9]}), "GC201", OPTIONS
    )
    assert found is not None
    assert len(found.text) < len("1 / exp(x)")
    assert found.finding.code == "GC201"
    (again,), mistakes = read("reduced.yaml", _spec(found))
    assert mistakes == []
    assert again.inputs.keys() == found.spec.inputs.keys()
    text = script(found.finding, found.spec)
    assert text is not None
    assert "gradcheck" not in text
    path = tmp_path / "repro.py"
    path.write_text(text)
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    assert "computed: nan" in ran.stdout
