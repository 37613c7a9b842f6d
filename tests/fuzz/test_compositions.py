"""Right layers of all frameworks: a few of them in every run of the tests, and a wrong one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.fuzz import compositions
from tests.fuzz.compositions import FRAMEWORKS, Compositions, touches


@pytest.mark.exhaustive
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_right_layers_are_not_accused(framework: str) -> None:
    with Compositions((framework,)) as right:
        assert [finding.says for finding in right.check(1, range(6))] == []
    assert right.counted == {framework: 6}


@pytest.mark.parametrize("opaque", [False, True])
def test_a_wrong_one_is(opaque: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    right = compositions._of_torch

    def half(text: str, opaque: bool) -> Any:
        layer = right(text, opaque)

        def wrong(x: Any, y: Any) -> Any:
            x.register_hook(lambda bar: bar / 2)
            return layer(x, y)

        return wrong

    monkeypatch.setitem(compositions.MADE, "torch", half)
    fuzzer = Compositions(("torch",))
    one = replace(fuzzer.input(1, 0), text="sin(x) * y", x=[0.3, 1.0], y=[0.5, 2.0], order=1)
    monkeypatch.setattr(fuzzer, "input", lambda *_: replace(one, opaque=opaque))
    assert [finding.says[:8] for finding in fuzzer.check(1, [0])] == ["accused:"]


@pytest.mark.parametrize(
    ("text", "x", "is_touched"),
    [
        ("abs(x * x)", [0.0, 1.0], True),
        ("maximum(x * x, y * x * x)", [0.0, 1.0], True),
        ("abs(sin(x) * 0.0)", [0.3, 1.0], True),
        ("abs(x)", [0.0, 1.0], False),
        ("maximum(x, y)", [0.5, 1.0], False),
        ("abs(x * x)", [0.1, 1.0], False),
    ],
)
def test_a_kink_that_is_touched_is_no_kink_of_the_whole(
    text: str, x: list[float], is_touched: bool
) -> None:
    assert touches(text, x, [0.5, 0.7]) == is_touched


def test_a_function_that_touches_its_kink_everywhere_is_not_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = iter(["maximum(x, x) * y", "abs(x - x) + y", "x * y"])
    monkeypatch.setattr(compositions, "_expression", lambda *_: next(texts))
    assert Compositions().input(1, 0).text == "x * y"
