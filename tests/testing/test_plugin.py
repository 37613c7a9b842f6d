"""The plugin in a project of somebody's: a run of pytest as its user would start it, and some in
this process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from _pytest.pytester import SysModulesSnapshot

from gradcheck_cli.cli.settings import SETTINGS
from gradcheck_cli.testing.plugin import OPTIONS

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[2]
CONFIGURATION = """
[tool.pytest.ini_options]
testpaths = ["tests"]
gradcheck_specs = ["specs"]

[tool.gradcheck]
engine = ["reference"]
dtype = ["float32"]
"""
SPECS = """
name: right
inputs: {x: 2}
model: x ** 2
---
name: unstable
inputs: {x: 100}
model: 1 / exp(x)
---
name: misspelt
inputs: {x: 1}
model: exp(y)
"""
TESTS = """
def test_formula(assert_gradients):
    assert_gradients("x ** 3", x=2.0, engine="reference", dtypes=["float64"])


def test_wrong(assert_gradients):
    assert_gradients("1 / exp(x)", x=100.0, engine="reference", dtypes=["float32"])


def test_other():
    assert 1 == 2
"""
# Where the project is not installed, pytest must be told of the plugin.
PLUGIN = ("-p", "gradcheck_cli.testing.plugin")
# The same once more, and Hypothesis's, which takes as long as all the rest.
WITHOUT = ("-p", "no:gradcheck", "-p", "no:hypothesispytest")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    files = {
        "pyproject.toml": CONFIGURATION,
        "specs/all.yaml": SPECS,
        "tests/cube.gradcheck.yaml": "inputs: {x: 2}\nmodel: x ** 3\n",
        "tests/test_layers.py": TESTS,
        "tests/data.yaml": "no: spec\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture(scope="module")
def everything(project: Path) -> str:
    """What a run of all prints, on two processes of xdist."""
    # where CI is set, pytest shows whole messages in its summary, too
    ours = ("GRADCHECK_", "PYTEST_", "CI")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    asked = ("-n", "2", "--junitxml=junit.xml", "-v")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, *WITHOUT, *asked],
        cwd=project,
        env={**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, forked: None) -> Iterator[Run]:
    """run(folder, *arguments): a run of pytest in this process. What it imports stays, but for its
    tests: not every module can be imported twice."""
    monkeypatch.setattr(SysModulesSnapshot, "restore", lambda self: None)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("COLUMNS", "120")

    def run_there(folder: Path, *arguments: str) -> pytest.RunResult:
        monkeypatch.chdir(folder)
        return pytester.runpytest_inprocess(*PLUGIN, *WITHOUT, *arguments)

    yield run_there
    sys.modules.pop("test_layers", None)


def test_every_spec_is_an_item_and_every_item_has_its_outcome(everything: str) -> None:
    outcomes = dict(
        reversed(pair) for pair in re.findall(r"(PASSED|FAILED|ERROR) (\S+::\S+)", everything)
    )
    assert outcomes == {
        "specs/all.yaml::right": "PASSED",
        "specs/all.yaml::unstable": "FAILED",
        "specs/all.yaml::mistakes": "ERROR",
        "tests/cube.gradcheck.yaml::cube": "PASSED",
        "tests/test_layers.py::test_formula": "PASSED",
        "tests/test_layers.py::test_wrong": "FAILED",
        "tests/test_layers.py::test_other": "FAILED",
    }


def test_settings_on_the_command_line_of_pytest(project: Path, run: Run) -> None:
    asked = ("specs", "-k", "unstable", "-v", "-p", "no:cacheprovider")
    assert run(project, *asked, "--gradcheck-dtype", "float64").ret == 0
    assert run(project, *asked, "--gradcheck-ignore", "GC2").ret == 0
    wrong = run(project, *asked, "--gradcheck-dtype", "flaot32")
    assert wrong.ret == 2
    assert "Did you mean `float32`?" in wrong.stdout.str()
    assert set(OPTIONS) <= {setting.name for setting in SETTINGS}


def test_specs_and_tests_of_gradients_have_a_marker(project: Path, run: Run) -> None:
    asked = ("--collect-only", "-q", "--strict-markers", "-m", "not gradcheck")
    others = run(project, *asked).stdout.str()
    assert re.findall(r"::(\w+)", others) == ["test_other"]
    assert "1/7 tests collected (6 deselected)" in others


def test_a_run_without_specs_imports_nothing_of_weight(project: Path) -> None:
    """Not even where a file of specs lies beside the tests."""
    code = """
import pytest, sys
plugins = ["-p", "gradcheck_cli.testing.plugin", "-p", "no:gradcheck", "-p", "no:cacheprovider"]
pytest.main(["tests/test_layers.py::test_other", "-q", *plugins])
heavy = {"numpy", "pydantic", "rich", "click", "ruamel"}
print(sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
"""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GRADCHECK_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env={**kept, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stdout


def test_a_failure_is_the_report_of_gradcheck_and_nothing_else(everything: str) -> None:
    shown = "error[GC201] nan-gradient  unstable  reference float32 reverse, forward"
    assert everything.count(shown) == 1
    assert "--> specs/all.yaml:8:12" in everything
    assert "fix   exp(-x)" in everything
    assert "FAILED specs/all.yaml::unstable - GC201 nan-gradient in unstable" in everything
    assert "items.py" not in everything
    assert "_pytest" not in everything


def test_a_failed_assertion_is_the_report_and_the_line_that_asked(everything: str) -> None:
    assert "tests/test_layers.py:7: assert_gradients(" in everything
    assert "FAILED tests/test_layers.py::test_wrong - GC201 nan-gradient in formula" in everything
    assert "api.py" not in everything
    assert "E       assert 1 == 2" in everything  # other tests are shown as ever


def test_a_mistake_in_a_spec_is_an_error_with_its_place(everything: str) -> None:
    assert "ERROR at setup of mistakes" in everything
    assert "--> specs/all.yaml:12:12" in everything
    assert "unknown name `y`" in everything


def test_junit_has_every_item(everything: str, project: Path) -> None:
    suite = ElementTree.parse(project / "junit.xml").getroot()[0]
    assert {k: suite.get(k) for k in ("tests", "failures", "errors")} == {
        "tests": "7",
        "failures": "3",
        "errors": "1",
    }
    (failure,) = [c[0] for c in suite if c.get("name") == "unstable"]
    assert "GC201 nan-gradient" in (failure.text or "")


def test_items_are_chosen_by_name_and_by_last_failure(
    everything: str, project: Path, run: Run
) -> None:
    done = run(project, "-n", "0", "-q", "--lf", "-k", "unstable or right")
    assert "1 failed, " in done.outlines[-1]
    assert "passed" not in done.outlines[-1]


def test_settings_that_are_not_in_order_are_told_without_a_traceback(
    tmp_path: Path, run: Run
) -> None:
    (tmp_path / "a.gradcheck.yaml").write_text("inputs: {x: 2}\nmodel: x ** 2\n", "utf-8")
    (tmp_path / "pyproject.toml").write_text('[tool.gradcheck]\nengine = ["troch"]\n', "utf-8")
    told = run(tmp_path, "-q", "-p", "no:cacheprovider").stdout.str()
    assert "unknown engine `troch`" in told
    assert "help: did you mean `torch`?" in told
    assert "Traceback" not in told
    assert "items.py" not in told
    (tmp_path / "pyproject.toml").write_text('[tool.gradcheck]\nengin = ["torch"]\n', "utf-8")
    told = run(tmp_path, "-q", "-p", "no:cacheprovider").stdout.str()
    assert "there is no setting `engin`" in told
    assert "--> pyproject.toml:2:1" in told
    assert "items.py" not in told


def test_where_it_is_not_used_nothing_of_weight_is_imported() -> None:
    code = "import sys, gradcheck_cli.testing.plugin; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({"numpy", "click", "rich", "pydantic", "torch", "reference_engine"})
