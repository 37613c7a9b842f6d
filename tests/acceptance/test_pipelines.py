"""The action for GitHub and the hooks for pre-commit: their steps are executed as written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from gradcheck_cli.cli.init import CI
from tests.cli.calling import environment

ROOT = Path(__file__).parents[2]
ACTION = YAML(typ="safe").load(ROOT / "action.yml")
HOOKS = YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")
SPECS = {
    "right.gradcheck.yaml": "{inputs: {x: 2}, model: x ** 2}",
    "wrong.gradcheck.yaml": "{dtypes: [float32], inputs: {x: 100}, model: 1 / exp(x)}",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with two specs, and `gradcheck` first on the path."""
    for name, text in SPECS.items():
        (tmp_path / name).write_text(text, "utf-8")
    put_program(tmp_path, "gradcheck", sys.executable, "-m gradcheck_cli")
    return tmp_path


def put_program(folder: Path, name: str, python: str | Path, words: str = "") -> None:
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{python}" {words} "$@"\n', "utf-8")
    program.chmod(0o755)


def bash(script: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs `script` as GitHub runs a step."""
    path = f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=environment(PATH=path, **env),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


def filled(text: str, inputs: dict[str, str]) -> str:
    """`text` with the values of GitHub's expressions."""
    known = {f"inputs.{name}": value for name, value in inputs.items()}
    known["github.action_path"] = str(ROOT)
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: known[found[1]], text)


def step(
    name: str, folder: Path, more: Mapping[str, str] | None = None, **given: str
) -> subprocess.CompletedProcess[str]:
    """Runs a step of the action with these inputs, and `more` in its environment."""
    (found,) = (one for one in ACTION["runs"]["steps"] if one["name"] == name)
    inputs = {key: one["default"] for key, one in ACTION["inputs"].items()} | given
    env = {key: filled(value, inputs) for key, value in found["env"].items()}
    env["GITHUB_STEP_SUMMARY"] = str(folder / "step.md")
    return bash(found["run"], folder, **env, **(more or {}))


def test_the_action_annotates_and_leaves_its_reports_where_it_keeps_them(project: Path) -> None:
    done = step("Check gradients", project, arguments="--engine reference --seed 1")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("::error file=wrong.gradcheck.yaml,line=1,")
    assert "GC201" in (project / "step.md").read_text("utf-8")
    reports = project / "gradcheck-reports"
    assert json.loads((reports / "report.json").read_text("utf-8"))["seed"] == 1
    assert ElementTree.parse(reports / "junit.xml").getroot().get("failures") == "1"
    (run,) = json.loads((reports / "gradcheck.sarif").read_text("utf-8"))["runs"]
    assert {result["ruleId"] for result in run["results"]} == {"GC201"}


def test_the_action_checks_the_paths_that_are_given(project: Path) -> None:
    done = step(
        "Check gradients", project, paths="right.gradcheck.yaml", arguments="--engine reference"
    )
    assert done.returncode == 0
    assert "1 spec: 1 passed" in done.stdout


@pytest.mark.exhaustive
def test_the_action_installs_itself(project: Path) -> None:
    empty = project / "environment"
    venv.create(empty, with_pip=True)
    put_program(project, "python", empty / "bin" / "python")
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    assert bash(f"python -m pip install {' '.join(needed)}", project).returncode == 0
    alone = {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}  # pip's way to say: no isolation
    done = step("Install gradcheck", project, alone, extras="torch")
    assert done.returncode == 0, done.stderr
    assert (empty / "bin" / "gradcheck").exists()


def test_reports_are_kept_after_a_failure_too() -> None:
    kept = [one for one in ACTION["runs"]["steps"] if "uses" in one]
    assert [one["if"].split(" && ")[0] for one in kept] == ["always()", "always()"]
    names = {"reports": "gradcheck-reports"}
    assert filled(kept[0]["with"]["path"], names) == "gradcheck-reports"
    assert filled(kept[1]["with"]["sarif_file"], names) == "gradcheck-reports/gradcheck.sarif"


def test_the_guide_shows_the_job_that_init_writes() -> None:
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text("utf-8")
    _, job = CI["gitlab"]
    assert f"```yaml\n{job.format(extra='[torch]').partition(chr(10))[2]}```" in guide


@pytest.mark.parametrize(("hook", "code"), [("gradcheck", 1), ("gradcheck-validate", 0)])
def test_a_hook_runs_on_the_specs_that_changed(hook: str, code: int, project: Path) -> None:
    (found,) = (one for one in HOOKS if one["id"] == hook)
    changed = [name for name in (*SPECS, "notes.yaml") if re.search(found["files"], name)]
    assert changed == list(SPECS)
    done = bash(f"{found['entry']} {' '.join(changed)}", project, GRADCHECK_ENGINE="reference")
    assert done.returncode == code
