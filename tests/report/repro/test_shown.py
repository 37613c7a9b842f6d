"""Whether a script that was run showed its finding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradcheck_cli.domain.report import Entry
from gradcheck_cli.report.repro.shown import shows
from tests.report.repro.cases import FINDING


@pytest.mark.parametrize(
    ("computed", "uncompiled", "expected"),
    [(3.0, 12.0, True), (9.0, 12.0, True), (9.0, 3.0, False)],
    ids=["its number", "another wrong number", "the layer is wrong without the compiler"],
)
def test_a_wrong_number_of_a_compiler_may_be_another_in_each_run(
    computed: float, uncompiled: float, expected: bool
) -> None:
    entries = (Entry(index=(1,), computed=3.0, truth=12.0),)
    found = replace(FINDING, code="GC108", engine="torch-compile", entries=entries)
    printed = f"computed: {computed}\ntrue: 12.0\nwithout the compiler: {uncompiled}\n"
    assert shows(printed, found) is expected


@pytest.mark.parametrize(
    ("computed", "printed", "expected"),
    [
        (0.0, "computed: 0.25\n", True),
        (0.0, "computed: 11.0\n", False),
        (float("nan"), "computed: nan\n", True),
        (float("nan"), "computed: 12.0\n", False),
        (None, "computed: None\n", True),
        (None, "computed: 0.0\n", False),
        (0.0, "it raised\n", False),
    ],
)
def test_a_script_shows_a_finding_where_its_number_is_nearer_to_it_than_to_the_truth(
    computed: float | None, printed: str, expected: bool
) -> None:
    (own,) = FINDING.entries
    assert shows(printed, replace(FINDING, entries=(replace(own, computed=computed),))) is expected


def test_the_shape_of_a_gradient() -> None:
    message = "the custom gradient of `f` for its argument `x` has shape (), but `x` has shape (3,)"
    found = replace(FINDING, code="GC103", message=message, entries=(), indexing=None)
    assert shows("computed: float64 of shape ()\n", found)
    assert shows("computed: got [] but expected shape compatible with [3]\n", found)
    of_jax = "at output[0] the rule produced an output of type float32{} for an input of float32{}"
    assert shows(f"computed: {of_jax.format('[]', '[3]')}\n", found)
    assert not shows(f"computed: {of_jax.format('[3]', '[]')}\n", found)
    assert not shows("computed: float64 of shape (3,)\n", found)
    assert not shows("computed: got [3] but expected shape compatible with [3]\n", found)
