from pathlib import Path

import gradcheck_cli

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
    assert_snapshot(call("run", cwd=tmp_path), "missing_argument")
