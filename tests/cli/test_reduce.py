"""The smallest formula or layer is printed as a spec."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gradcheck_cli.cli.reduce import _spec
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.run.reduce import Reduced
from gradcheck_cli.specfile import read
from tests.conftest import spec_of
from tests.report.repro.cases import FINDING

LAYER = Implementation("torch", "layers.py:f", "", Span(1, 1, 1, 2), args=(2,))


def test_a_reduced_layer_is_a_spec_of_it(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text("def f(x, n):\n    return x\n")
    spec = replace(spec_of("x", {"x": [1.25]}), implementations=(LAYER,), name="one")
    found = replace(FINDING, mode="forward-over-reverse")
    text = _spec(Reduced("", spec, found, 1, "it is not lifted"))
    (again,), mistakes = read(str(tmp_path / "reduced.yaml"), text)
    assert mistakes == []
    assert (again.order, again.modes) == (2, ("forward", "reverse"))
    (layer,) = again.implementations
    assert (layer.engine, layer.target, layer.args) == ("torch", "layers.py:f", (2,))


def test_what_is_about_no_engine_alone_names_none() -> None:
    spec = spec_of("abs(x)", {"x": [0.0]})
    found = replace(FINDING, engine=None, mode=None)
    lines = _spec(Reduced("abs(x)", spec, found, 1)).splitlines()
    assert not any(line.startswith(("engines:", "modes:")) for line in lines)
    assert " on None" not in lines[0]
