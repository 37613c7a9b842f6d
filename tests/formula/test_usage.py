"""A signature is written as a formula calls the operation."""

import pytest

import reference_engine  # noqa: F401 - fills the table
from gradcheck_cli.formula.usage import usage
from reference_engine.op import find, find_several


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("sum", "sum(x, axis=None, keepdims=False)"),
        ("stack", "stack([x1, x2, ...], axis=0)"),
        ("einsum", "einsum(subscripts, x1, x2, ...)"),
        ("split", "split(x, sections, axis=0)"),
        ("mse", "mse(x, y, reduction='mean')"),
    ],
)
def test_a_signature_shows_arrays_and_defaults(name: str, written: str) -> None:
    row = find(name) or find_several(name)
    assert row is not None
    assert usage(row) == written
