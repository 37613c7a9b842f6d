from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.search import KINDS, SearchedFix
from gradcheck_cli.search.fixes import best_fix

from .searched import answering, domain_in, spec_of


@pytest.fixture(autouse=True)
def _faithful(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference engine's rows count as faithful here."""
    monkeypatch.setattr("gradcheck_cli.search.searching.unfaithful", lambda *_: "")


def fix_of(model: str, low: float, high: float) -> SearchedFix | None:
    """The fix of a formula that fails at the upper end, in four kinds."""
    spec = spec_of(f"{{x: {{value: {high / 2}, domain: [{low}, {high}]}}}}", model)
    witness: dict[str, Any] = {"x": np.array(high)}
    steps = best_fix(spec, "reference", domain_in(spec), [witness] * 4, 10.0, 0)
    found: SearchedFix | None = answering(steps)
    return found


def test_a_fix_is_proven_over_the_same_domain() -> None:
    found = fix_of("1 / exp(x)", -80.0, 100.0)
    assert found is not None
    assert (found.model, set(found.proven)) == ("exp(-x)", set(KINDS))


def test_without_a_rewrite_there_is_none() -> None:
    assert fix_of("x ** 40", 0.5, 1000.0) is None
