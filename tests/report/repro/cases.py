"""A finding that scripts show, which each test changes, and a run of a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Entry, Finding, Indexing
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.report.repro.script import script
from tests.conftest import spec_of

FINDING = Finding(
    code="GC101",
    severity="error",
    message="it is wrong",
    span=Span(1, 1, 1, 2),
    engine="torch",
    dtype="float64",
    mode="reverse",
    input="x",
    entries=(Entry(index=(1,), computed=0.0, truth=12.0),),
    indexing=Indexing(0),
    truth_source="certified",
)
SPEC = spec_of("sum(x ** 3) * y", {"x": [1.0, 2.0], "y": 1.0})
PLANTED = Path(__file__).parents[3] / "specs" / "planted"


def ran(finding: Finding, spec: Spec, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a script, and the number that it computed."""
    with pytest.raises(SystemExit) as ended:
        exec(compile(script(finding, spec), "repro.py", "exec"), {"__name__": "__main__"})
    (number,) = (
        line.split()[1]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("computed:")
    )
    assert isinstance(ended.value.code, int)
    return ended.value.code, number
