import re
from pathlib import Path

import pytest

import gradcheck_cli
from gradcheck_cli.cli.app import COMMANDS, ELSEWHERE, EPILOG

from .calling import assert_snapshot, call, call_here


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


def test_the_short_flag_of_the_version(tmp_path: Path) -> None:
    assert call_here("-V", cwd=tmp_path).out == f"gradcheck {gradcheck_cli.__version__}\n"


@pytest.mark.parametrize(("typed", "lead"), [("chek", "`gradcheck run`"), ("runn", "`run`?")])
def test_a_misspelt_command_leads_on_too(typed: str, lead: str, tmp_path: Path) -> None:
    assert lead in call_here(typed, cwd=tmp_path).err


@pytest.mark.parametrize("word", ELSEWHERE)
def test_a_command_of_another_tool_leads_on(word: str, tmp_path: Path) -> None:
    screen = call_here(word, cwd=tmp_path)
    assert screen.code == 2
    assert screen.err.startswith(f"error: there is no command `{word}`. {ELSEWHERE[word]}\n")
    named = re.findall(r"`gradcheck ([a-z-]+)", ELSEWHERE[word])
    assert all(name in COMMANDS or name == "--version" for name in named if name != "--help")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("gradcheck ex", ["explain"]),
        ("gradcheck run --fail-on w", ["warning"]),
        ("gradcheck run --engine torch,te", ["torch,tensorflow"]),
        ("gradcheck run --dtype bfl", ["bfloat16"]),
        ("gradcheck run --ignore GC10", ["GC101", "GC102", "GC103", "GC104", "GC105"]),
        ("gradcheck run --report js", ["json=", "jsonl="]),
        ("gradcheck explain GC20", ["GC201", "GC202", "GC203"]),
        ("gradcheck ops softm", ["softmax"]),
        ("gradcheck rnu --", []),
    ],
)
def test_what_is_completed(typed: str, completed: list[str], tmp_path: Path) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    for shell in ("bash", "zsh", "fish"):
        place = {"COMP_CWORD": typed.split()[-1]} if shell == "fish" else {}
        env = {"_GRADCHECK_COMPLETE": f"{shell}_complete", **words, **place}
        screen = call_here(cwd=tmp_path, env=env)
        assert (screen.code, screen.err) == (0, "")
        lines = [line.removeprefix("plain,").partition("\t")[0] for line in screen.out.splitlines()]
        assert [line for line in lines if line in completed] == completed


def test_a_path_is_completed_by_the_shell(tmp_path: Path) -> None:
    typed = {"COMP_WORDS": "gradcheck run spe", "COMP_CWORD": "2"}
    screen = call_here(cwd=tmp_path, env={"_GRADCHECK_COMPLETE": "bash_complete", **typed})
    assert (screen.code, screen.out) == (0, "file,spe\n")


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
    screen = call(cwd=tmp_path, env={"_GRADCHECK_COMPLETE": "zsh_complete", **typed})
    assert "json=\none object, whose schema" in screen.out


def test_the_first_step_of_the_help_is_one(tmp_path: Path) -> None:
    arguments = ("run", "-", "--engine", "reference")
    screen = call(*arguments, cwd=tmp_path, stdin="{inputs: {x: 100}, model: 1 / exp(x)}")
    assert "echo '{inputs: {x: 100}, model: 1 / exp(x)}' | gradcheck run -" in EPILOG
    assert "GC201" in screen.out
