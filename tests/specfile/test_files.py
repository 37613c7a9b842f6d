from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.specfile import expand


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
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
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
    assert expand(paths) == (files, [])


@pytest.mark.parametrize(
    ("path", "message", "help"),
    [
        ("specs/bb.yaml", "there is no such file or folder", "did you mean `specs/b.yaml`?"),
        ("specs/b", "there is no such file or folder", "did you mean `specs/b.yaml`?"),
        ("spec", "there is no such file or folder", "did you mean `specs`?"),
        ("nowhere/a.yaml", "there is no such file or folder", "there is no folder nowhere"),
        ("specs/z*.yaml", "the pattern matches no spec", ""),
    ],
)
def test_what_is_not_there(tree: Path, path: str, message: str, help: str) -> None:
    files, (error,) = expand([path])
    assert files == []
    assert (error.code, error.path, error.message, error.help) == ("GC901", path, message, help)


def test_what_is_there_is_found_beside_what_is_not(tree: Path) -> None:
    files, errors = expand(["specs/none.yaml", "specs/deep"])
    assert (files, len(errors)) == (["specs/deep/c.yaml"], 1)
