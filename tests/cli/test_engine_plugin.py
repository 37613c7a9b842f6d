"""docs/engine-plugin.md: what the page shows is installed as a stranger would, and run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .calling import call, environment

PAGE = Path(__file__).parents[2] / "docs" / "engine-plugin.md"
FILE = re.compile(r"```(?:toml|python|yaml)\n(?P<text># (?P<name>\S+)\n.*?)```", re.S)
SCREEN = re.compile(r"```text\n\$ gradcheck (?P<command>.*?)\n(?P<shown>.*?)```", re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, and the package that they make in `site`."""
    folder = tmp_path_factory.mktemp("plugin")
    for found in FILE.finditer(PAGE.read_text("utf-8")):
        (folder / found["name"]).write_text(found["text"], "utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # what it depends on is here already
    where = ["--no-deps", "--no-build-isolation", "--no-index", "--target", "site", "."]
    subprocess.run([*pip, *where], cwd=folder, check=True, capture_output=True, timeout=120)
    return folder


def test_the_engine_of_the_page_does_what_the_page_shows(folder: Path) -> None:
    screen = SCREEN.search(PAGE.read_text("utf-8"))
    assert screen is not None
    path = f"{folder / 'site'}:{environment()['PYTHONPATH']}"
    done = call(*screen["command"].split(), cwd=folder, env={"PYTHONPATH": path})
    *shown, summary = done.out.rstrip().splitlines()
    assert "\n".join(shown).rstrip() == screen["shown"].rstrip()
    assert summary.startswith("1 spec: 0 passed, 1 failed; GC103")


def test_it_stands_among_the_engines(folder: Path) -> None:
    path = f"{folder / 'site'}:{environment()['PYTHONPATH']}"
    listed = call("engines", cwd=folder, env={"PYTHONPATH": path}).out
    (row,) = [line for line in listed.splitlines() if line.startswith("autograd")]
    assert row.split()[2:] == ["reverse", "1", "float32,", "float64", "cpu"]


def test_it_is_short(folder: Path) -> None:
    assert len((folder / "gradcheck_autograd.py").read_text("utf-8").splitlines()) <= 80
