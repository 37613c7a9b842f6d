"""A cause in sentences: every number that a person needs, and no more of the formula than fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradcheck_cli.explain.blame.wording import LONGEST, quoted
from tests.conftest import Judged


@pytest.mark.parametrize(
    ("formula", "values", "dtype", "words"),
    [
        ("log(exp(x))", {"x": 100.0}, "float32", ("overflows float32", "exp(100)", "3.4e+38")),
        ("log(exp(x))", {"x": -200.0}, "float32", ("underflows float32", "exp(-200)")),
        ("exp(x)", {"x": 100.0}, "float32", ("the truth does not fit float32",)),
        ("sqrt(x) * 0", {"x": 0.0}, "float64", ("sqrt(0)",)),
        ("where(x > 0, sqrt(x), x)", {"x": 0.0}, "float64", ("not selected", "sqrt(0)")),
        ("log(1 + x)", {"x": 1e-12}, "float32", ("1 + 1e-12",)),
    ],
)
def test_the_numbers_that_went_in_are_told(
    judged: Callable[..., Judged],
    formula: str,
    values: dict[str, Any],
    dtype: str,
    words: tuple[str, ...],
) -> None:
    found = judged(formula, values, dtype=dtype)
    causes = [finding.cause for finding in found.findings if finding.cause is not None]
    assert causes
    told = " ".join(f"{cause.detail} {cause.story} {cause.proof}" for cause in causes)
    for word in words:
        assert word in told, told


def test_a_proof_names_the_only_operation_that_was_exact(judged: Callable[..., Judged]) -> None:
    found = judged("log(exp(x))", {"x": 100.0}, dtype="float32").findings
    proofs = {one.cause.proof for one in found if one.cause is not None}
    assert any("with only `exp(x)` exact, the output is right" in proof for proof in proofs)


def test_a_long_stretch_is_cut_and_a_line_break_is_a_space() -> None:
    assert quoted("a +\n    b") == "`a + b`"
    cut = quoted("x + " * LONGEST)
    assert len(cut) == LONGEST + 2
    assert cut.endswith("...`")
