import os
import sys
from pathlib import Path

import pytest

from gradcheck_cli.run.workers import output


def test_a_flood_is_cut_and_the_next_question_may_print_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    stream = output.bounded(file)
    monkeypatch.setattr(sys, "stdout", stream)
    for _ in range(100):
        print("x" * 100_000)
    assert os.fstat(file).st_size < output.SHOWN + 100
    output.refill()
    print("again")
    os.close(file)
    text = (tmp_path / "out").read_text()
    assert text.count("left out") == 1
    assert text.endswith("left out\nagain\n")


def test_what_is_shown_does_nothing_to_a_terminal() -> None:
    shown = output.Shown()
    text = shown(b"50%\r\x1b[31mred\x07\x00\x7f\xc2\x9b\r\n\ttab \xc3")
    text += shown("\u00e9"[:0].encode() + b"\xa9 \xff \xe2\x82\xac")
    assert text == "50%\n\\x1b[31mred\\x07\\x00\\x7f\\x9b\n\ttab \u00e9 \\xff \u20ac"
