"""The smallest formula or layer is printed as a spec."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradcheck_cli.cli.reduce import _spec, _write
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.run.reduce import Reduced
from gradcheck_cli.specfile import read
from tests.conftest import spec_of
from tests.every import first
from tests.report.repro.cases import FINDING, SPEC

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


@pytest.mark.parametrize("computed", first(1, [5.0, 12.0]))
def test_a_script_shows_the_finding_before_it_was_reduced_where_none_of_the_smallest_does(
    computed: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The derivative is 12; a number of 5 is shown by no script."""
    (own,) = FINDING.entries
    whole, smallest = (
        replace(FINDING, entries=(replace(own, computed=one, truth=0.0),))
        for one in (12.0, computed)
    )
    path = tmp_path / "repro.py"
    _write(Reduced("", SPEC, smallest, 1, whole=(whole, SPEC)), path)
    assert path.exists()
    assert ("before it was reduced" in capsys.readouterr().err) == (computed == 5.0)


def test_no_script_is_left_where_none_shows_the_finding(tmp_path: Path) -> None:
    (own,) = FINDING.entries
    wrong = replace(FINDING, entries=(replace(own, computed=5.0, truth=0.0),))
    with pytest.raises(UsageError, match="no script shows GC101"):
        _write(Reduced("", SPEC, wrong, 1, whole=(wrong, SPEC)), tmp_path / "repro.py")
    assert list(tmp_path.iterdir()) == []
