"""`gradcheck init` writes specs that can be run as they are."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from .calling import call_here

LAYERS = """
import numpy as np

def square(x):
    return x**2

def square_backward(y_bar, x):
    return 2 * x * y_bar

def double_forward(x):
    return 2 * x, None

def double_backward(y_bar, cache):
    return 2 * y_bar

class Power:
    def __init__(self, first, last, offset=0.0):
        self.power = first + last

    def forward(self, x):
        return x**self.power

    def backward(self, y_bar, x):
        return y_bar * self.power * x ** (self.power - 1)

class Scale:
    def forward(self, x, w, eps=1e-5):
        return x * w

    def backward(self, y_bar, x, w):
        return y_bar * w, y_bar * x
"""


def test_the_first_bug_is_found_without_writing_anything(tmp_path: Path) -> None:
    written = call_here("init", cwd=tmp_path)
    assert (written.code, written.out) == (
        0,
        "wrote first.gradcheck.yaml\nnext: gradcheck run\n",
    )
    found = call_here("run", "--engine", "reference", cwd=tmp_path)
    assert found.code == 1
    assert "GC201" in found.out
    assert "fix   exp(-x)" in found.out


def test_every_comment_of_the_first_spec_is_a_setting_that_works(tmp_path: Path) -> None:
    assert call_here("init", cwd=tmp_path).code == 0
    file = tmp_path / "first.gradcheck.yaml"
    text = file.read_text().replace("# dtypes", "dtypes").replace("# modes", "modes")
    for key in ("order", "tolerance", "allow", "engines"):
        text = text.replace(f"# {key}", key)
    file.write_text(text)
    assert call_here("validate", cwd=tmp_path).code == 0


def test_the_inputs_of_a_layer_are_named_as_in_its_code(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    screen = call_here("init", "layers.py:Scale", cwd=tmp_path)
    assert screen.out.splitlines()[1:] == [
        "next: put the shapes of the inputs into Scale.gradcheck.yaml",
        "next: gradcheck run",
    ]
    text = (tmp_path / "Scale.gradcheck.yaml").read_text()
    assert list(YAML(typ="safe").load(text)["inputs"]) == ["x", "w"]
    assert call_here("run", "-q", cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("layers.py:square",),
        ("layers.py:double",),
        ("layers.py:double_forward",),
        ("layers.py:Power", "--arg", "1", "--arg", "2"),
        ("layers.py:Power", "--arg", "1", "--kwarg", "last=2"),
        ("layers.py:Power", "--kwarg", "last=1", "--kwarg", "first=1"),
    ],
)
def test_what_is_written_can_be_run(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    assert call_here("init", *arguments, cwd=tmp_path).code == 0
    assert call_here("run", "-q", cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    ("name", "code", "asked"),
    [
        ("cube", "def cube(x, n=3):\n    return x**n\n", "cube_backward(g, x)"),
        ("sum_forward", "def sum_forward(x, y):\n    return x + y\n", "sum_backward(g, x, y)"),
        (
            "Cube",
            "class Cube:\n    def forward(self, x):\n        return x**3\n",
            "backward(self, g)",
        ),
        ("cube", "from there import cube_backward\ndef cube(x):\n    return x**3\n", ""),
        ("Cube", "class Cube(Base):\n    def forward(self, x):\n        return x**3\n", ""),
    ],
)
def test_a_backward_that_is_nowhere_is_asked_for(
    name: str, code: str, asked: str, tmp_path: Path
) -> None:
    (tmp_path / "layers.py").write_text("import numpy as np\n\n" + code)
    screen = call_here("init", f"layers.py:{name}", cwd=tmp_path)
    assert screen.code == 0
    assert screen.out.count("next: write") == bool(asked)
    assert f"`{asked}`" in screen.out or not asked


def test_inputs_that_are_given_are_written(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    given = ("--input", "x=4", "--input", "w=[1.0, 2.0, 3.0, 4.0]", "--output", "specs/own.yaml")
    screen = call_here("init", "layers.py:Scale", *given, cwd=tmp_path)
    assert screen.out == "wrote specs/own.yaml\nnext: gradcheck run specs/own.yaml\n"
    loaded = YAML(typ="safe").load((tmp_path / "specs/own.yaml").read_text())
    assert loaded["inputs"]["x"] == {"shape": [4], "distribution": "normal"}
    assert call_here("run", "specs", "-q", cwd=tmp_path).code == 0


def test_a_ci_file_is_added_to_a_spec_that_is_there(tmp_path: Path) -> None:
    assert call_here("init", cwd=tmp_path).code == 0
    (tmp_path / "first.gradcheck.yaml").write_text("inputs: {x: 1.0}\nmodel: x\n")
    added = call_here("init", "--ci", "gitlab", cwd=tmp_path)
    assert (added.code, added.out.splitlines()[:2]) == (
        0,
        ["kept first.gradcheck.yaml", "wrote .gitlab-ci.yml"],
    )
    assert (tmp_path / "first.gradcheck.yaml").read_text().endswith("model: x\n")


def test_a_ci_file_that_is_there_is_named(tmp_path: Path) -> None:
    assert call_here("init", "--ci", "github", cwd=tmp_path).code == 0
    again = call_here("init", "--ci", "github", cwd=tmp_path)
    assert (again.code, again.out) == (2, "")
    assert "error: .github/workflows/gradcheck.yml already exists" in again.err
    assert "--output" not in again.err


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".gitlab-ci.yml").write_text("mine: {}\n")
    screen = call_here("init", "--ci", "gitlab", cwd=tmp_path)
    assert (screen.code, screen.out) == (2, "")
    assert ".gitlab-ci.yml already exists" in screen.err
    assert (tmp_path / ".gitlab-ci.yml").read_text() == "mine: {}\n"
    assert not (tmp_path / "first.gradcheck.yaml").exists()


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_the_steps_of_the_ci_file_check_the_project(service: str, tmp_path: Path) -> None:
    assert call_here("init", "--ci", service, cwd=tmp_path).code == 0
    files = {"github": ".github/workflows/gradcheck.yml", "gitlab": ".gitlab-ci.yml"}
    job = YAML(typ="safe").load((tmp_path / files[service]).read_text())
    if service == "github":
        steps = [step["run"] for step in job["jobs"]["gradcheck"]["steps"] if "run" in step]
    else:
        steps = job["gradcheck"]["script"]
    install, *checks = map(shlex.split, steps)
    assert install == ["pip", "install", "gradcheck-cli[all]"]
    for program, *arguments in checks:
        assert program == "gradcheck"
        found = call_here(*arguments, cwd=tmp_path, env={"GRADCHECK_ENGINE": "reference"})
        assert found.code == 1
        assert "GC201" in found.out
    reports = job["gradcheck"]["artifacts"]["reports"] if service == "gitlab" else {}
    for file in reports.values():
        assert (tmp_path / file).stat().st_size > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--input", "x=3"), "need a TARGET"),
        (("numpy:exp", "--engine", "numpy"), "cannot be read from its code"),
        (("gone.py:Net",), "there is no file gone.py"),
        (("layers.py:Power",), "needs `first` and `last`"),
        (("layers.py:Power", "--arg", "1"), "needs `last`"),
        (("layers.py:Power", "--kwarg", "last=1"), "--kwarg first=VALUE"),
    ],
)
def test_what_is_not_in_order_is_said(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    screen = call_here("init", *arguments, cwd=tmp_path)
    assert (screen.code, screen.out) == (2, "")
    assert words in screen.err
    assert [file.name for file in tmp_path.iterdir()] == ["layers.py"]
