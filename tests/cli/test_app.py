from pathlib import Path

import gradcheck_cli
from gradcheck_cli.cli.app import EPILOG

from .calling import assert_snapshot, call


def test_help(tmp_path: Path) -> None:
    assert_snapshot(call("--help", cwd=tmp_path), "help")


def test_help_of_run(tmp_path: Path) -> None:
    assert_snapshot(call("run", "--help", cwd=tmp_path), "help_run")


def test_version(tmp_path: Path) -> None:
    screen = call("--version", cwd=tmp_path)
    assert (screen.code, screen.out) == (0, f"gradcheck {gradcheck_cli.__version__}\n")


def test_without_a_command_the_help_goes_to_standard_error(tmp_path: Path) -> None:
    screen = call(cwd=tmp_path)
    assert (screen.code, screen.out) == (2, "")
    assert "Commands:" in screen.err


def test_a_mistyped_command(tmp_path: Path) -> None:
    assert_snapshot(call("rnu", "a.yaml", cwd=tmp_path), "unknown_command")


def test_a_mistyped_flag(tmp_path: Path) -> None:
    assert_snapshot(call("run", "--fail-one", "error", "a.yaml", cwd=tmp_path), "unknown_flag")


def test_a_missing_argument(tmp_path: Path) -> None:
    assert_snapshot(call("derive", cwd=tmp_path), "missing_argument")


def test_completion(tmp_path: Path) -> None:
    screen = call(cwd=tmp_path, env={"_GRADCHECK_COMPLETE": "bash_source"})
    assert screen.code == 0
    assert "complete -o nosort -F _gradcheck_completion gradcheck" in screen.out
    typed = {"COMP_WORDS": "gradcheck run --fail-o", "COMP_CWORD": "2"}
    screen = call(cwd=tmp_path, env={"_GRADCHECK_COMPLETE": "bash_complete", **typed})
    assert (screen.code, screen.out) == (0, "plain,--fail-on\n")
    typed = {"COMP_WORDS": "gradcheck run --report jso", "COMP_CWORD": "3"}
    screen = call(cwd=tmp_path, env={"_GRADCHECK_COMPLETE": "bash_complete", **typed})
    assert (screen.code, screen.out) == (0, "plain,json=\nplain,jsonl=\n")


def test_the_first_step_of_the_help_is_one(tmp_path: Path) -> None:
    arguments = ("run", "-", "--engine", "reference")
    screen = call(*arguments, cwd=tmp_path, stdin="{inputs: {x: 100}, model: 1 / exp(x)}")
    assert "echo '{inputs: {x: 100}, model: 1 / exp(x)}' | gradcheck run -" in EPILOG
    assert "GC201" in screen.out
