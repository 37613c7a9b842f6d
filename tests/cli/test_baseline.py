"""A baseline: what is known does not count, what is new does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .calling import Screen, call_here

BAD = "inputs: {x: 100}\nmodel: 1 / exp(x)\n"
OTHER = "inputs: {x: 2}\nmodel: 1 / exp(50 * x)\n"


def run(folder: Path, *arguments: str) -> Screen:
    return call_here("run", ".", "--engine", "reference", *arguments, cwd=folder)


GONE = "baseline known.json: 2 of its findings are gone; --write-baseline known.json updates it\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bad.yaml").write_text(BAD)
    written = run(tmp_path, "--write-baseline", "known.json")
    assert written.code == 0
    assert "error[GC201]" in written.out
    assert written.err == "wrote 2 findings to known.json\n"
    return tmp_path


def test_what_is_known_does_not_count_and_is_counted(folder: Path) -> None:
    screen = run(folder, "--baseline", "known.json")
    assert screen.code == 0
    assert screen.out.startswith("part  bad")
    assert "; 2 findings known by the baseline known.json; " in screen.out
    concise = run(folder, "--baseline", "known.json", "--format", "concise").out
    (line,) = concise.splitlines()
    assert "; 2 findings known by the baseline known.json; " in line
    report = json.loads(run(folder, "--baseline", "known.json", "--format", "json").out)
    assert report["summary"]["suppressed"] == {"baseline known.json": 2}
    (result,) = report["results"]
    assert [f["reason"] for f in result["suppressed"]] == ["baseline known.json"] * 2


def test_what_is_new_counts(folder: Path) -> None:
    (folder / "bad.yaml").rename(folder / "renamed.yaml")
    (folder / "new.yaml").write_text(OTHER)
    screen = run(folder, "--baseline", "known.json")
    assert screen.code == 1
    assert "FAIL  new" in screen.out
    assert "part  renamed" in screen.out


def test_a_baseline_is_renewed_with_what_it_knows(folder: Path) -> None:
    (folder / "new.yaml").write_text(OTHER)
    assert run(folder, "--baseline", "known.json", "--write-baseline", "known.json").code == 0
    assert len(json.loads((folder / "known.json").read_text())["findings"]) > 2
    assert run(folder, "--baseline", "known.json").code == 0


def test_what_is_there_no_more_is_said(folder: Path) -> None:
    (folder / "bad.yaml").write_text(BAD.replace("100", "1"))
    screen = run(folder, "--baseline", "known.json")
    assert screen.code == 0
    assert screen.err == GONE


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bad.yaml", f"name: other\n{BAD}"),
        ("moved.yaml", f"name: other\n{BAD}"),
        ("bad.yaml", f"name: one\n{BAD}---\nname: two\ninputs: {{x: 1}}\nmodel: x\n"),
    ],
)
def test_a_spec_of_another_name_leaves_its_old_entries_behind(
    folder: Path, name: str, text: str
) -> None:
    (folder / "bad.yaml").write_text(f"name: old\n{BAD}")
    assert run(folder, "--write-baseline", "known.json").code == 0
    (folder / "bad.yaml").unlink()
    (folder / name).write_text(text)
    screen = run(folder, "--baseline", "known.json")
    assert (screen.code, screen.err) == (1, GONE)


def test_what_did_not_run_is_not_gone(folder: Path) -> None:
    (folder / "a.yaml").write_text(f"name: a\n{OTHER}")
    assert run(folder, "--write-baseline", "known.json").code == 0
    known = ("--baseline", "known.json")
    assert call_here("run", "a.yaml", "--engine", "reference", *known, cwd=folder).err == ""
    (folder / "bad.yaml").write_text(f"name: b\n{BAD}")  # in another shard than `a`
    for part in (("--shard", "1/2"), ("--shard", "2/2"), ("-x",)):
        assert "gone" not in run(folder, *known, *part).err
    for part in (("--dtype", "float64"),):
        assert "gone" not in run(folder, *known, *part).err


def test_a_run_that_did_not_get_to_its_end_writes_none(folder: Path) -> None:
    before = (folder / "known.json").read_text()
    (folder / "broken.yaml").write_text("model: [\n")
    screen = run(folder, "--write-baseline", "known.json")
    assert (screen.code, (folder / "known.json").read_text()) == (2, before)
    assert screen.err.startswith("known.json was not written: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot read the baseline b.json"),
        ("{", "is not JSON"),
        ("[]", "is not a baseline"),
        ('{"schema_version": 2, "findings": []}', "is not a baseline"),
        ('{"schema_version": 1, "findings": [{"code": "GC201"}]}', "is not a baseline"),
    ],
)
def test_what_is_no_baseline_is_refused(text: str | None, words: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BAD)
    if text is not None:
        (tmp_path / "b.json").write_text(text)
    screen = run(tmp_path, "--baseline", "b.json")
    assert (screen.code, screen.out) == (2, "")
    assert words in screen.err
