from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.specfile import expand, read


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "specs/b.yaml",
        "specs/a.yml",
        "specs/deep/c.yaml",
        "specs/.hidden.yaml",
        "specs/.git/d.yaml",
        "specs/notes.txt",
        "specs/[odd].yaml",
        "empty/readme.md",
        "layers.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("model: x\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


IN_SPECS = ["specs/[odd].yaml", "specs/a.yml", "specs/b.yaml", "specs/deep/c.yaml"]


@pytest.mark.parametrize(
    ("paths", "files"),
    [
        (["specs"], IN_SPECS),
        (
            ["specs/b.yaml", "specs"],
            ["specs/b.yaml", *(f for f in IN_SPECS if f != "specs/b.yaml")],
        ),
        (["specs/deep", "-"], ["specs/deep/c.yaml", "-"]),
        (["specs/notes.txt"], ["specs/notes.txt"]),
        (["specs/*.yaml"], ["specs/[odd].yaml", "specs/b.yaml"]),
        (["specs/**/*.yaml"], ["specs/[odd].yaml", "specs/b.yaml", "specs/deep/c.yaml"]),
        (["specs/d*"], ["specs/deep/c.yaml"]),
        (["specs/[odd].yaml"], ["specs/[odd].yaml"]),
        (["empty"], []),
    ],
)
def test_files_folders_and_patterns(tree: Path, paths: list[str], files: list[str]) -> None:
    assert expand(paths) == (files, [], 0)


@pytest.mark.parametrize(
    ("path", "message", "help"),
    [
        ("specs/bb.yaml", "there is no such file or folder", "did you mean `specs/b.yaml`?"),
        ("specs/b", "there is no such file or folder", "did you mean `specs/b.yaml`?"),
        ("spec", "there is no such file or folder", "did you mean `specs`?"),
        ("nowhere/a.yaml", "there is no such file or folder", "there is no folder nowhere"),
        ("specs/z*.yaml", "the pattern matches no spec", ""),
        (
            "layers.py",
            "this is Python code, not a spec",
            "`gradcheck layer layers.py:NAME --input x=2x3` checks a layer in it",
        ),
    ],
)
def test_what_is_not_there(tree: Path, path: str, message: str, help: str) -> None:
    files, (error,), _ = expand([path])
    assert files == []
    assert (error.code, error.path, error.message, error.help) == ("GC901", path, message, help)


def test_each_file_is_run_once_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    for name in ("a.yaml", "deep/b.yaml", "deep/other.yaml"):
        text = "services: {}\n" if "other" in name else "inputs: {x: 1.0}\nmodel: x\n"
        (tmp_path / name).write_text(text)
    found = expand(["./a.yaml", "a.yaml", ".//a.yaml", ".", "deep", "./deep/b*.yaml", "*.yaml"])
    assert found == (["./a.yaml", "deep/b.yaml"], [], 1)
    assert expand(["deep", "./deep/other.yaml"]).skipped == 0


def test_what_is_there_is_found_beside_what_is_not(tree: Path) -> None:
    files, errors, _ = expand(["specs/none.yaml", "specs/deep"])
    assert (files, len(errors)) == (["specs/deep/c.yaml"], 1)


@pytest.mark.parametrize(
    ("name", "text", "spec"),
    [
        ("a.yaml", "inputs: {x: 1}\nmodel: x\n", True),
        ("a.yml", '{"inputs": {"x": 1}, "model": "x"}', True),
        ("a.yaml", "a: 1\n---\nimplementations: {torch: a.py:f}\n", True),
        ("a.yaml", "model: [\n", True),  # broken, and meant to be one
        ("a.gradcheck.yaml", "a: 1\n", True),
        ("compose.yaml", "services:\n  db:\n    model: big\n", False),
        ("configuration.yaml", "model:  # of a network\n  name: resnet50\nlr: 0.1\n", False),
        ("configuration.yaml", "model: {name: resnet50}\n", False),
        ("configuration.json.yaml", '{"model": {"name": "resnet50"}}', False),
        ("a.yaml", "model: |\n  y: x\n", True),
        ("a.yaml", "model:\n  y = x\n", True),
        ("list.yaml", "- model\n", False),
        ("broken.yaml", "a: [\n", False),
        ("empty.yaml", "", False),
        ("text.yaml", "models: and more of them\n", False),
    ],
)
def test_a_folder_has_specs_and_other_yaml(
    name: str, text: str, spec: bool, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    path = str(tmp_path / name)
    assert expand([str(tmp_path)]) == ([path] if spec else [], [], 0 if spec else 1)
    assert expand([path]) == ([path], [], 0)  # what is named is read, whatever it is


def test_what_was_installed_in_a_folder_is_left_out(tmp_path: Path) -> None:
    for name in ("venv/lib", "node_modules/some", "own"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.yaml").write_text("model: x\n")
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    assert expand([str(tmp_path)]) == ([str(tmp_path / "own" / "a.yaml")], [], 0)


def test_nothing_in_a_folder_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gradcheck.yaml")
    (tmp_path / "device.yaml").symlink_to("/dev/zero")
    assert expand([str(tmp_path)]) == ([], [], 2)
    (tmp_path / "nowhere.yaml").symlink_to("missing.yaml")
    assert expand([str(tmp_path)]).files == [str(tmp_path / "nowhere.yaml")]  # the reader says why


def test_a_folder_that_cannot_be_read_is_said(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(path: str) -> Any:
        if str(path).endswith("deep"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", refusing)
    for path in ("specs", "specs/deep"):
        (error,) = expand([path]).errors
        assert (error.code, error.path) == ("GC901", "specs/deep")
        assert error.message == "the folder cannot be read: permission denied"


@pytest.mark.parametrize("path", ["a" * 5000, "nul\0byte.yaml", "\udcff.yaml"])
def test_names_that_no_file_has(path: str) -> None:
    files, (error,), _ = expand([path])
    assert (files, error.code) == ([], "GC901")
    assert read(path)[1][0].code == "GC901"
