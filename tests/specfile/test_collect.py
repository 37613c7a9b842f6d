from __future__ import annotations

from gradcheck_cli.specfile.collect import dotted, visible


def test_paths_are_written_as_in_python() -> None:
    assert dotted(("points", 1, "x", "value", 0, 2)) == "points[1].x.value[0][2]"
    assert dotted(()) == ""


def test_control_characters_are_spelt_out() -> None:
    assert visible("a\x1b[31m\u202eb é") == "a\\x1b[31m\\x202eb é"
