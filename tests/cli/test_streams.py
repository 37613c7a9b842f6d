import io
import os
import sys
from pathlib import Path

import pytest

from gradcheck_cli.cli.streams import PLAIN_WIDTH, wants_color, width

from .calling import call


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
