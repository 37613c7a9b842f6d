from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradcheck_cli.cli.outputs import Output, check_targets
from gradcheck_cli.domain.errors import UsageError

from .calling import call_here

SPEC = "inputs: {x: 2}\nmodel: x ** 2\n"


def test_a_report_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("the report of the run before")
    path.chmod(0o640)
    with Output(str(path)) as output:
        output.stream.write("half")
        output.stream.flush()
        assert path.read_text() == "the report of the run before"
        output.stream.write(" and half")
        output.keep()
    assert path.read_text() == "half and half"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["r.json"]


def test_the_end_of_a_file_that_others_write_to(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("of another command\n")
    with Output(str(path), append=True) as output:
        output.stream.write("ours\n")
        output.keep()
    assert path.read_text() == "of another command\nours\n"


def test_a_report_that_was_not_kept_leaves_nothing(tmp_path: Path) -> None:
    with Output(str(tmp_path / "r.json")) as output:
        output.stream.write("half")
    assert os.listdir(tmp_path) == []


def test_the_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("r.json")
    with Output(str(tmp_path / "link")) as output:
        output.stream.write("whole")
        output.keep()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "r.json").read_text() == "whole"


def test_a_new_report_may_be_read_by_those_who_may_read_new_files(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with Output(str(tmp_path / "r.json")) as output:
        output.keep()
    assert (tmp_path / "r.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("file", ["", ".", "nowhere/r.json", "nul\0byte", "a" * 5000])
def test_what_cannot_be_written_is_said_before_the_run(file: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write to"):
        Output(str(tmp_path / file) if file else "")


def test_no_report_takes_the_place_of_an_input_or_of_another(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SPEC)
    (tmp_path / "link.json").symlink_to("s.yaml")
    with Output(str(tmp_path / "link.json")) as output, pytest.raises(UsageError, match="input"):
        check_targets([output], [str(tmp_path / "s.yaml")])
    with Output(str(tmp_path / "a")) as one, Output(str(tmp_path / "." / "a")) as other:
        check_targets([one], [str(tmp_path / "s.yaml")])
        with pytest.raises(UsageError, match="another report"):
            check_targets([one, other], [])


@pytest.mark.parametrize("flag", ["--output={}", "--report=json={}"])
def test_a_spec_and_a_layer_are_there_after_a_run_that_names_them_as_reports(
    flag: str, tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(
        "inputs: {x: [1.0, 2.0]}\nimplementations: {numpy: 'layer.py'}\n"
    )
    layer = "def forward(x):\n    return 2 * x\ndef backward(g, x):\n    return 2 * g\n"
    (tmp_path / "layer.py").write_text(layer)
    for name in ("s.yaml", "layer.py"):
        before = (tmp_path / name).read_text()
        screen = call_here("run", "s.yaml", flag.format(name), cwd=tmp_path)
        assert (screen.code, (tmp_path / name).read_text()) == (2, before)
        assert f"{name} is an input of this run" in screen.err


def test_a_picture_takes_the_place_of_no_spec(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SPEC)
    screen = call_here("curve", "s.yaml", "--output", "s.yaml", cwd=tmp_path)
    assert (screen.code, (tmp_path / "s.yaml").read_text()) == (2, SPEC)
    screen = call_here("curve", "s.yaml", "--output", "/dev/full", cwd=tmp_path)
    assert (screen.code, screen.err) == (
        2,
        "error: cannot write to /dev/full: No space left on device\n",
    )
