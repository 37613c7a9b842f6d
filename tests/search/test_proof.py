import pytest

from .searched import searched, spec_of

ALL = {"undefined", "value-nonfinite", "gradient-nonfinite", "gradient-underflow-to-zero"}
ALL |= {"gradient-inaccurate", "value-inaccurate"}


def proven(inputs: str, model: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The kinds that are proven absent; the reference engine's rows count as faithful here."""
    monkeypatch.setattr("gradcheck_cli.search.searching.unfaithful", lambda *_: "")
    found = searched(spec_of(inputs, model), budget=3.0)
    return {kind for kind, one in found.items() if one.verdict == "proven-absent"}


SAFE = [
    ("{x: {value: 1, domain: [-20, 20]}}", "exp(-x * x)"),
    (
        "{x: {value: 1, domain: [-1000, 1000]}, y: {value: 1, domain: [-1000, 1000]}}",
        "sqrt(x * x + y * y + 1)",
    ),
    ("{x: {value: 1, domain: [0.001, 1000]}}", "1 / sqrt(x)"),
    ("{x: {value: [1, 2], domain: [-10, 10]}, t: {value: [1, 3]}}", "mean((x - t) ** 2)"),
]


@pytest.mark.parametrize(("inputs", "model"), SAFE)
def test_what_is_safe_is_proven(inputs: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert proven(inputs, model, monkeypatch) == ALL


UNSAFE = [
    ("{x: {value: 1, domain: [-100, 100]}}", "1 / exp(x)", {"gradient-nonfinite"}),
    (
        "{x: {value: 1, domain: [1, 4]}, y: {value: 1, domain: [1, 4]}}",
        "1 / (x * y - 6)",
        {"undefined", "value-nonfinite"},
    ),
    ("{x: {value: 1, domain: [-1, 1]}}", "1 - cos(x)", {"value-inaccurate"}),
    ("{x: {value: 1, domain: [-1, 1]}}", "where(x > 0, log(x), 0.0)", {"undefined"}),
    ("{x: {value: 1, domain: [0, 1]}}", "sqrt(x)", {"undefined", "gradient-nonfinite"}),
]


@pytest.mark.parametrize(("inputs", "model", "kinds"), UNSAFE)
def test_what_happens_is_never_proven_absent(
    inputs: str, model: str, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not proven(inputs, model, monkeypatch) & kinds


def test_what_is_infinite_for_certain_is_not_inaccurate(monkeypatch: pytest.MonkeyPatch) -> None:
    found = proven("{x: {value: -85, domain: [-100, -80]}}", "1 / exp(x)", monkeypatch)
    assert "value-inaccurate" in found
    assert "value-nonfinite" not in found
