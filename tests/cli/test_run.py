"""`gradcheck run` from end to end, on the reference engine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradcheck_cli.report.schema import report_schema
from tests.report.validator import mistakes

from .calling import assert_snapshot, call, call_here, environment

GOOD = "inputs: {x: 2}\nmodel: |\n  y = x**2\n  z = 2*y + 3\n"
WRONG = """\
inputs: {x: 20}
dtypes: [float64]
model: |
  def negexp_vjp(upstream, x):
      return upstream * exp(-x)

  @custom_gradient(negexp_vjp)
  def negexp(x):
      return exp(-x)

  negexp(x)
"""
KINK = "inputs: {x: 0}\nmodel: relu(x)\n"
ROOT = "inputs: {x: 0}\nmodel: where(x > 0, 1.0, 0.0) + x\n"
UNSTABLE = "dtypes: [float32]\ninputs: {x: 100}\nmodel: 1 / exp(x)\n"
REFERENCE = ("--engine", "reference")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {"good": GOOD, "kink": KINK, "jump": ROOT, "unstable": UNSTABLE, "wrong": WRONG}
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["good", "kink", "jump", "unstable", "wrong"])
def test_whole_screens(name: str, folder: Path) -> None:
    assert_snapshot(call_here("run", f"{name}.yaml", *REFERENCE, cwd=folder), f"run_{name}")


def test_verbose(folder: Path) -> None:
    screen = call_here("run", "good.yaml", "unstable.yaml", *REFERENCE, "-v", cwd=folder)
    assert_snapshot(screen, "run_verbose")


def test_quiet(folder: Path) -> None:
    screen = call_here("run", "good.yaml", "kink.yaml", *REFERENCE, "-q", cwd=folder)
    assert screen.code == 0
    assert len(screen.out.splitlines()) == 1


def test_concise(folder: Path) -> None:
    assert_snapshot(
        call_here("run", ".", *REFERENCE, "--format", "concise", cwd=folder), "run_concise"
    )


def test_json_is_alone_on_standard_output(folder: Path) -> None:
    screen = call_here("run", ".", *REFERENCE, "--format", "json", cwd=folder)
    report = json.loads(screen.out)
    assert screen.code == 1
    assert mistakes(report, report_schema()) == []
    statuses = {result["spec"]: result["status"] for result in report["results"]}
    assert statuses == {
        "good": "passed",
        "jump": "passed",
        "kink": "passed",
        "unstable": "failed",
        "wrong": "failed",
    }


def test_several_reports_of_one_run(folder: Path) -> None:
    screen = call_here(
        *("run", "wrong.yaml", *REFERENCE, "--format", "concise", "--output", "lines.txt"),
        *("--report", "json=report.json", "--report", "full=screen.txt"),
        cwd=folder,
    )
    assert (screen.code, screen.out) == (1, "")
    assert "GC101" in (folder / "lines.txt").read_text("utf-8")
    assert "error[GC101] wrong-gradient" in (folder / "screen.txt").read_text("utf-8")
    assert json.loads((folder / "report.json").read_text("utf-8"))["summary"]["failed"] == 1


def test_a_full_disk_is_an_error_and_the_other_reports_come(folder: Path) -> None:
    reports = ("--report", "sarif=/dev/full", "--report", "junit=tests.xml")
    screen = call_here("run", "wrong.yaml", *REFERENCE, *reports, cwd=folder)
    assert screen.code == 2
    assert "error: cannot write to /dev/full: No space left on device" in screen.err
    assert "error[GC101]" in screen.out
    assert 'failures="1"' in (folder / "tests.xml").read_text("utf-8")


def test_annotations_add_a_summary_to_the_step_on_github(folder: Path) -> None:
    step = folder / "step.md"
    step.write_text("# Of another command\n", "utf-8")
    env = {"GITHUB_STEP_SUMMARY": str(step)}
    screen = call_here("run", "wrong.yaml", *REFERENCE, "--format", "github", cwd=folder, env=env)
    assert screen.code == 1
    assert screen.out.startswith("::error file=wrong.yaml,line=11,")
    assert step.read_text("utf-8").startswith(
        "# Of another command\n### gradcheck\n\n1 spec: 0 pas"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--report", "jsn=a"), "Did you mean `json`?"),
        (("--report", "json"), "names no file"),
        (("--format", "jsn"), "Did you mean `json`?"),
        (("--output", "no/such/folder/a.txt"), "cannot write"),
    ],
)
def test_reports_that_cannot_be_written(
    arguments: tuple[str, ...], words: str, folder: Path
) -> None:
    screen = call_here("run", "good.yaml", *REFERENCE, *arguments, cwd=folder)
    assert (screen.code, screen.out) == (2, "")
    assert words in screen.err


@pytest.mark.parametrize(
    ("file", "arguments", "code"),
    [
        ("good.yaml", (), 0),
        ("wrong.yaml", (), 1),
        ("wrong.yaml", ("--exit-zero",), 0),
        ("wrong.yaml", ("--ignore", "GC1"), 0),
        ("wrong.yaml", ("--select", "GC2"), 0),
        ("jump.yaml", (), 0),
        ("jump.yaml", ("--fail-on", "warning"), 1),
        ("kink.yaml", ("--fail-on", "warning"), 0),
    ],
)
def test_exit_codes(file: str, arguments: tuple[str, ...], code: int, folder: Path) -> None:
    assert call_here("run", file, *REFERENCE, *arguments, cwd=folder).code == code


def test_fail_fast_stops_after_the_first_failure(folder: Path) -> None:
    files = ("wrong.yaml", *(f"late_{number}.yaml" for number in range(30)))
    for file in files[1:]:
        (folder / file).write_text(GOOD, "utf-8")
    screen = call_here("run", *files, *REFERENCE, "-x", "--format", "json", cwd=folder)
    assert screen.code == 1
    assert len(json.loads(screen.out)["results"]) < len(files)


def test_standard_input(folder: Path) -> None:
    screen = call_here("run", "-", "-v", *REFERENCE, cwd=folder, stdin=GOOD)
    assert screen.code == 0
    assert "z = 11, dz/dx = 8" in screen.out


def test_an_engine_that_is_not_installed_is_named_with_its_install_line(folder: Path) -> None:
    missing = _without_tensorflow(folder / "site")
    words = ("run", "good.yaml", "--engine", "reference,tensorflow")
    screen = call(*words, cwd=folder, env={"PYTHONPATH": missing})
    assert_snapshot(screen, "engine_missing")


def _without_tensorflow(site: Path) -> str:
    """A path on which importlib.metadata finds no TensorFlow, whatever is installed."""
    site.mkdir()
    (site / "usercustomize.py").write_text("", "utf-8")
    (site / "sitecustomize.py").write_text(
        "from importlib import metadata\n"
        "real = metadata.version\n"
        "def version(name):\n"
        "    if name.startswith('tensorflow'):\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "metadata.version = version\n",
        "utf-8",
    )
    return os.pathsep.join([str(site), str(Path(__file__).parents[2])])


def test_a_reader_that_leaves_early_changes_nothing(folder: Path) -> None:
    """`gradcheck run ... | head -1`: no traceback, and the verdict stands."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gradcheck_cli", "run", "wrong.yaml", "good.yaml", *REFERENCE],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 1
    assert told == b""


def test_code_of_users_is_refused_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "layer.py").write_text("open('ran', 'w')\n", "utf-8")
    (tmp_path / "a.yaml").write_text(
        "inputs: {x: 2}\nimplementations: {torch: layer.py:f}\n", "utf-8"
    )
    (tmp_path / "b.yaml").write_text(GOOD, "utf-8")
    screen = call_here("run", ".", *REFERENCE, cwd=tmp_path, env={"GRADCHECK_NO_USER_CODE": "1"})
    assert screen.code == 2
    assert "a.yaml:2:26" in screen.out
    assert "this run must not run user code" in screen.out
    assert "ok    b" in screen.out
    assert not (tmp_path / "ran").exists()


def test_what_is_ignored_is_said_and_is_not_ok(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("inputs: {x: 0}\nmodel: sqrt(x)\n")
    arguments = ("run", "s.yaml", "--engine", "reference", "--dtype", "float64", "--mode=reverse")
    screen = call_here(*arguments, "--ignore", "GC", cwd=tmp_path)
    head, *_, summary = screen.out.splitlines()
    assert screen.code == 0
    assert head.startswith("part  s  2 ignored (GC202, GC402)")
    assert "1 spec: 1 passed; 2 findings ignored by --ignore GC; " in summary
    screen = call_here(*arguments, "--select", "GC1", "--format", "json", cwd=tmp_path)
    report = json.loads(screen.out)
    assert report["summary"]["ignored"] == {"GC202": 1, "GC402": 1}
    assert report["results"][0]["ignored"] == {"GC202": 1, "GC402": 1}
    with (tmp_path / "s.yaml").open("a") as file:
        file.write("allow: [{code: GC202, reason: a}, {code: GC402, reason: b}]\n")
    head, *_ = call_here(*arguments, cwd=tmp_path).out.splitlines()
    assert head.startswith("known s  2 allowed")


def test_a_folder_with_other_yaml(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    screen = call_here("run", ".", "--engine", "reference", cwd=tmp_path)
    assert screen.code == 5
    assert "1 YAML file skipped: " in screen.err
    (tmp_path / "s.yaml").write_text("inputs: {x: 1}\nmodel: x\n")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / os.fsdecode(b"bad\xff.yaml")).write_text("inputs: {x: 1}\nmodel: x\n")
    screen = call_here("run", ".", "--engine", "reference", cwd=tmp_path)
    assert (screen.code, screen.out.count("ok  ")) == (0, 2)
    assert "2 YAML files skipped: " in screen.err


def test_without_a_path_the_project_is_run(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    screen = call_here("run", "--engine", "reference", cwd=tmp_path)
    assert screen.code == 5
    assert "nothing was checked: no spec in .; `gradcheck init` writes a first one\n" in screen.err
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "s.yaml").write_text("inputs: {x: 1}\nmodel: x\n")
    (tmp_path / "t.gradcheck.yaml").write_text("inputs: {x: 1}\nmodel: x\n")
    screen = call_here("run", "--engine", "reference", cwd=tmp_path)
    assert (screen.code, screen.out.count("ok  ")) == (0, 2)
    assert "1 YAML file skipped: " in screen.err


def test_a_working_folder_that_was_deleted(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("inputs: {x: 1}\nmodel: x\n")
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"rmdir ../gone; {sys.executable} -m gradcheck_cli run ../s.yaml --engine reference"
    here = environment(GRADCHECK_NO_CACHE="0", XDG_CACHE_HOME=str(tmp_path))
    done = subprocess.run(command, shell=True, cwd=gone, env=here, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_without_docstrings_there_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("inputs: {x: 1}\nmodel: x\n")
    screen = call("run", "s.yaml", cwd=tmp_path, env={"PYTHONOPTIMIZE": "2"})
    assert screen.code == 2
    assert screen.err.startswith("error: gradcheck cannot run under `python -OO`")


def test_a_spec_whose_engine_is_unknown_costs_no_other(folder: Path) -> None:
    (folder / "far.yaml").write_text(f"{GOOD}engines: [reference, caffe]\n", "utf-8")
    (folder / "near.yaml").write_text(f"{GOOD}engines: [reference]\n", "utf-8")
    screen = call_here("run", "far.yaml", "near.yaml", "--format", "json", cwd=folder)
    report = json.loads(screen.out)
    assert screen.code == 2
    assert [(one["spec"], one["status"]) for one in report["results"]] == [("near", "passed")]
    (error,) = report["errors"]
    assert (error["path"], error["line"], error["column"]) == ("far.yaml", 5, 22)
    assert error["message"] == "unknown engine `caffe`"
    screen = call_here("run", "near.yaml", "far.yaml", "--engine", "caffe", cwd=folder)
    assert (screen.code, screen.out) == (2, "")
    assert screen.err.startswith("error: unknown engine `caffe`")
