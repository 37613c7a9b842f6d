"""The JSON of a search, which other programs rely on."""

from typing import Any

import pytest

from gradcheck_cli.domain.report import SearchReport
from gradcheck_cli.report.search_json import search_as_json

from .test_search_map import found, result


@pytest.mark.parametrize(
    ("kind", "entry", "written"),
    [
        ("gradient-nonfinite", "x", "x[0]"),
        ("gradient-nonfinite", "x[1,0]", "x[1,0]"),
        ("undefined", "x of value[2]", "x[0] of value[2]"),
        ("gradient-nonfinite", "value", "value[0]"),
        ("value-nonfinite", "value", "value"),
        ("undefined", "value[2]", "value[2]"),
    ],
)
def test_a_gradient_by_one_number_is_the_first_of_its_array(
    kind: Any, entry: str, written: str
) -> None:
    report = SearchReport((result(found(None, kind=kind, entry=entry, x=1.0), x=(0, 8)),))
    (search,) = search_as_json(report)["results"][0]["searches"]
    assert search["entry"] == written
