"""Which findings have no script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Indexing
from gradcheck_cli.report.repro.layer_code import NoScript
from gradcheck_cli.report.repro.script import script
from tests.report.repro.cases import FINDING, SPEC


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"engine": "reference"}, "there are scripts for torch"),
        ({"entries": ()}, "no number"),
        ({"indexing": Indexing(0, cotangents=True)}, "random directions"),
        ({"input": "weight", "indexing": Indexing(0, complex_input=True)}, "complex parameter"),
        ({"engine": "jax", "input": "weight"}, "is no input"),
    ],
)
def test_what_no_script_can_show(changes: Mapping[str, Any], why: str) -> None:
    with pytest.raises(NoScript, match=why):
        script(replace(FINDING, **changes), SPEC)


def test_a_layer_with_a_setup_has_no_script() -> None:
    layer = Implementation("torch", "net", "", Span(1, 1, 1, 2))
    with pytest.raises(NoScript, match="of one file"):
        script(FINDING, replace(SPEC, implementations=(layer,)))
