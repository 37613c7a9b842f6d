"""Tables of calls, and what is listed of them."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from gradcheck_cli.domain.suite import SuiteRequest
from gradcheck_cli.engines.kit.suite import Table, TableOperation, listing

ROWS = {
    "real": """
        np.sin np.cos
        np.sum(a, axis=0)
        np.sum(a)
        np.missing
        """,
    "wide definite": "np.matmul",
}
TABLE = Table(ROWS, {"np": np})


class Operation(TableOperation):
    table = TABLE


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    suite = ModuleType("suite_of_numpy")
    suite.names, suite.samples = TABLE.names, TABLE.samples  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, suite.__name__, suite)
    return suite.__name__


def test_the_calls_of_one_function_are_its_samples(module: str) -> None:
    assert listing(SuiteRequest(module)).names == (
        *("np.sin", "np.cos", "np.sum", "np.missing", "np.matmul"),
    )
    found = listing(SuiteRequest(module, ("np.sum", "np.matmul"), most=4))
    assert [sample.title for sample in found.samples] == ["np.sum[0]", "np.sum[1]", "np.matmul[0]"]
    assert [value.shape for value in found.samples[-1].inputs.values()] == [(2, 3), (3, 3)]
    assert len(listing(SuiteRequest(module, ("np.sum",), most=1)).samples) == 1


def test_an_operation_is_the_function_at_the_same_numbers_in_every_process(module: str) -> None:
    request = SuiteRequest(module, ("np.sum", "np.matmul"), most=4)
    first, second = listing(request).samples, listing(request).samples
    for sample, again in zip(first, second, strict=True):
        for name, value in sample.inputs.items():
            np.testing.assert_array_equal(value, again.inputs[name])
    (x,) = first[0].inputs.values()
    np.testing.assert_array_equal(Operation("np.sum", 0, False)(x), np.sum(x, axis=0))
    w, a = first[2].inputs.values()
    np.testing.assert_array_equal(Operation("np.matmul", 0, False)(w, a), w @ a)


def test_what_has_no_sample_says_why(module: str) -> None:
    refused = listing(SuiteRequest(module, ("np.sin",), most=1, is_complex=True)).refused
    assert refused == {"np.sin": "it has no sample with complex inputs"}
    refused = listing(SuiteRequest(module, ("no.such",), most=1)).refused
    assert refused["no.such"].startswith("its samples cannot be made: KeyError")
