import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradcheck_cli.cli.streams import PLAIN_WIDTH, wants_color, width
from tests.every import first

from .calling import call, environment


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("option", "variables", "terminal", "wanted"),
    [
        (None, {}, True, True),
        (None, {}, False, False),
        ("auto", {}, True, True),
        ("always", {}, False, True),
        ("never", {}, True, False),
        (None, {"NO_COLOR": "1"}, True, False),
        (None, {"NO_COLOR": ""}, True, True),
        (None, {"FORCE_COLOR": "1"}, False, True),
        (None, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
        (None, {"TERM": "dumb"}, True, False),
    ],
)
def test_who_decides_about_colour(
    option: str | None,
    variables: dict[str, str],
    terminal: bool,
    wanted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wants_color(Terminal() if terminal else io.StringIO(), option) is wanted


def test_off_a_terminal_the_width_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "33")
    assert width(io.StringIO()) == PLAIN_WIDTH
    assert width(Terminal()) == 33


def test_a_stream_without_unicode_does_not_crash(tmp_path: Path) -> None:
    text = "inputs: {x: 1}\nmodel: |\n  # größer — ∂f/∂x\n  höhe = epx(x)\n"
    (tmp_path / "ü.yaml").write_text(text, "utf-8")
    ascii_only = {"PYTHONIOENCODING": "ascii", "LANG": "C", "LC_ALL": "C"}
    screen = call("run", "ü.yaml", "--engine", "reference", cwd=tmp_path, env=ascii_only)
    assert screen.code == 2
    assert screen.out.isascii()
    assert "Traceback" not in screen.err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_narrow_terminal_there_is_colour_progress_and_no_long_line(tmp_path: Path) -> None:
    import pty
    import re
    import struct
    import subprocess
    from fcntl import ioctl
    from termios import TIOCSWINSZ

    from .calling import environment

    (tmp_path / "a.yaml").write_text("inputs: {x: 800}\nmodel: relu(x) + 1 / exp(x)\n", "utf-8")
    master, slave = pty.openpty()
    ioctl(slave, TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "gradcheck_cli", "run", "a.yaml", "--engine", "reference"],
        cwd=tmp_path,
        env=environment(TERM="xterm"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    received = b""
    while chunk := _read(master):
        received += chunk
    process.wait()
    text = received.decode("utf-8")
    assert "\x1b[1;31m" in text
    assert "/1 specs" in text
    visible = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r\n", "\n")
    lines = [part for line in visible.splitlines() for part in line.split("\r")]
    # the closing line, and commands to be copied, are left to the terminal to wrap
    lines = [line for line in lines[:-1] if not line.startswith("  rerun gradcheck run a.yaml ")]
    assert [line for line in lines if len(line) > 40] == []


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other end is closed
        return b""


GOOD = "inputs: {x: 2}\nmodel: x ** 2\n"


def shell(line: str, folder: Path) -> tuple[int, str]:
    """The exit code of `gradcheck LINE` in a shell, and its standard error."""
    (folder / "good.yaml").write_text(GOOD)
    command = f"{sys.executable} -m gradcheck_cli {line}"
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("line", "code", "words"),
    first(
        5,
        [
            (">&-", 2, "error: cannot write to standard output: it is closed\n"),
            (">/dev/full", 2, "error: cannot write to standard output: No space left on device\n"),
            (
                "--output /dev/full",
                2,
                "error: cannot write to /dev/full: No space left on device\n",
            ),
            (
                "--report json=/dev/full >/dev/null",
                2,
                "error: cannot write to /dev/full: No space left on device\n",
            ),
            ("--output good.txt <&- >&- 2>&-", 0, ""),
            ("2>&-", 0, ""),
            (">/dev/full 2>&1", 2, ""),
            ("<&- >&- 2>&-", 2, ""),
        ],
    ),
)
def test_streams_that_are_closed_or_full(line: str, code: int, words: str, tmp_path: Path) -> None:
    run = "run good.yaml --engine reference"
    assert shell(f"{run} {line}", tmp_path) == (code, words)


@pytest.mark.parametrize("line", ["ops", "explain GC101", "--version", "validate good.yaml"])
def test_every_command_says_that_its_output_cannot_be_written(line: str, tmp_path: Path) -> None:
    words = "error: cannot write to standard output: No space left on device\n"
    assert shell(f"{line} >/dev/full", tmp_path) == (2, words)


def test_a_closed_standard_input_is_a_spec_that_cannot_be_read(tmp_path: Path) -> None:
    assert shell("validate - <&- >out.txt", tmp_path)[0] == 2
    assert "the file cannot be read" in (tmp_path / "out.txt").read_text()
