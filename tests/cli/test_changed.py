"""--changed-since runs the specs that changed, and those whose code did."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .calling import Screen, call_here

FILES = {
    "pyproject.toml": "[tool.gradcheck]\nengine = ['reference', 'numpy']\n",
    "one.yaml": "inputs: {x: 2}\nmodel: x ** 2\nengines: [reference]\n",
    "deep/two.yaml": "inputs: {x: 1}\nmodel: sin(x)\nengines: [reference]\n",
    "layer.yaml": "inputs: {x: [1.0]}\nimplementations: {numpy: layers.py:Scale}\n",
    "layers.py": "from parts import Scale\n",
    "parts.py": "class Scale:\n"
    "    def forward(self, x):\n        return 2 * x\n"
    "    def backward(self, y_bar, x):\n        return 2 * y_bar\n",
    "unused.py": "x = 1\n",
}


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(("git", *who, *arguments), cwd=folder, check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    return tmp_path


def run(folder: Path, revision: str = "HEAD", *more: str) -> Screen:
    return call_here("run", "--changed-since", revision, "--format", "json", *more, cwd=folder)


def names(screen: Screen) -> list[str]:
    return [result["spec"] for result in json.loads(screen.out)["results"]]


def test_without_a_change_nothing_runs_and_that_is_said(folder: Path) -> None:
    screen = run(folder)
    assert (screen.code, names(screen)) == (0, [])
    assert json.loads(screen.out)["summary"]["unchanged"] == 3
    text = call_here("run", "--changed-since", "HEAD", cwd=folder).out
    assert text.startswith("0 specs: 0 passed; 3 left out, unchanged; ")


def test_a_spec_that_changed_runs(folder: Path) -> None:
    (folder / "one.yaml").write_text(FILES["one.yaml"].replace("2", "3"))
    (folder / "new.yaml").write_text(FILES["one.yaml"])
    (folder / "unused.py").write_text("x = 2\n")
    assert names(run(folder)) == ["new", "one"]


def test_a_layer_runs_where_its_imports_changed(folder: Path) -> None:
    (folder / "parts.py").write_text(FILES["parts.py"].replace("2", "3"))
    assert names(run(folder)) == ["layer"]


def test_layers_run_where_code_is_gone(folder: Path) -> None:
    (folder / "unused.py").unlink()
    assert names(run(folder)) == ["layer"]


def test_everything_runs_where_the_settings_changed(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(FILES["pyproject.toml"] + "seed = 1\n")
    assert names(run(folder)) == ["two", "layer", "one"]


def test_what_others_changed_since_is_not_of_this_branch(folder: Path) -> None:
    git(folder, "branch", "mine")
    (folder / "one.yaml").write_text(FILES["one.yaml"].replace("2", "3"))
    git(folder, "commit", "-am", "theirs")
    git(folder, "branch", "theirs")
    git(folder, "checkout", "mine")
    (folder / "deep" / "two.yaml").write_text(FILES["deep/two.yaml"].replace("sin", "cos"))
    git(folder, "commit", "-am", "mine")
    assert names(run(folder, "theirs")) == ["two"]


def test_below_the_root_of_the_repository(folder: Path) -> None:
    (folder / "deep" / "two.yaml").write_text(FILES["deep/two.yaml"].replace("sin", "cos"))
    assert names(run(folder / "deep")) == ["two"]


@pytest.mark.parametrize("revision", ["gone", "--output=stolen", ""])
def test_a_revision_that_is_none(revision: str, folder: Path) -> None:
    if not revision:
        git(folder, "checkout", "--orphan", "empty")
        git(folder, "rm", "-rf", "--cached", ".")
        revision = "HEAD"
    screen = run(folder, revision)
    assert (screen.code, screen.out) == (2, "")
    assert screen.err == f"error: --changed-since: there is no commit `{revision}`\n"
    assert not (folder / "stolen").exists()


def test_outside_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(FILES["one.yaml"])
    screen = run(tmp_path)
    assert screen.code == 2
    assert "not a git repository" in screen.err


def test_without_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    screen = run(folder)
    assert screen.code == 2
    assert "--changed-since needs git" in screen.err
