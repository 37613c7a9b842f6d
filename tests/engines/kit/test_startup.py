"""What stands in for a module hands on to it; the switch leaves frameworks as they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradcheck_cli.engines.kit.startup import SWITCH, StandIn, replaces


def test_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_up.py").write_text("answer = 42\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    standing_in = StandIn("made_up")
    monkeypatch.setitem(sys.modules, "made_up", standing_in)
    import made_up  # type: ignore[import-not-found]

    assert made_up is standing_in
    assert standing_in.answer == 42
    assert sys.modules["made_up"] is not standing_in
    assert "answer" in dir(standing_in)
    with pytest.raises(AttributeError, match="made_up"):
        standing_in.question  # noqa: B018


@pytest.mark.parametrize(
    ("value", "first", "second"),
    [("", True, True), ("1", False, False), ("first", False, True), ("second,first", False, False)],
)
def test_the_switch_takes_one_or_names(
    monkeypatch: pytest.MonkeyPatch, value: str, first: bool, second: bool
) -> None:
    monkeypatch.setenv(SWITCH, value)
    assert (replaces("first"), replaces("second")) == (first, second)
