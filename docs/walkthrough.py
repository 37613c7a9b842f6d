"""Plays a page: writes the files and runs the commands that it shows, and inserts their output.

A block of code whose first line is a comment with a path is that file. A block `text` that begins
with `$ COMMAND` is a screen: commands, each with its output; `...` represents lines that are left
out. A block `sh` has commands whose output is not shown. Commands of pip and make are left to the
reader.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.S | re.M)
NAME = re.compile(r"(?:#|//) ([\w./-]+\.\w+)\n")
FOR_THE_READER = ("pip ", "make ", "eval ")
OF_THE_CALLER = ("GRADCHECK_", "PYTEST_", "GITHUB_")
ON_A_SERVER = {"CI", "BUILD_NUMBER"}  # if one is set, pytest prints its whole summary


class PageError(Exception):
    """A block can be neither written nor run, or a command failed."""


def played(page: str, folder: Path) -> str:
    """The page with the screens of a run in `folder`, from its first block to its last.

    A screen that differs only in numbers is unchanged. Raises PageError.
    """
    parts, end = [], 0
    for block in BLOCK.finditer(page):
        parts += [page[end : block.start("text")], _played_block(block, folder)]
        end = block.end("text")
    return "".join([*parts, page[end:]])


def _played_block(block: re.Match[str], folder: Path) -> str:
    language, text = block["language"], block["text"]
    if language == "sh":
        for line in text.splitlines():
            if line and not line.startswith(FOR_THE_READER):
                _run(line, folder)
    elif language == "text":
        return "".join(_screen(part, folder) for part in re.split(r"^(?=\$ )", text, flags=re.M))
    elif name := NAME.match(text):
        path = folder / name[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    else:
        raise PageError(f"no `# PATH` in the first line, so this cannot be run:\n{text}")
    return text


def _screen(shown: str, folder: Path) -> str:
    """A command and its output now. If the words are the same, the page keeps its own text."""
    if not shown.startswith("$ "):
        return shown
    command, _, before = shown.partition("\n")
    now = _run(command.removeprefix("$ "), folder)
    gap = "\n" if shown.endswith("\n\n") else ""  # before the next command
    return shown if agrees(before, now) else f"{command}\n{now}{gap}"


def agrees(shown: str, printed: str) -> bool:
    """Whether the same words were printed. `...` on its own line represents any lines."""
    pieces = [words(piece) for piece in re.split(r"^ *\.\.\.$", shown, flags=re.M)]
    pattern = ".*".join(re.escape(" ".join(piece)) for piece in pieces)
    return re.fullmatch(pattern, " ".join(words(printed))) is not None


def words(text: str) -> list[str]:
    """The words of a text, without numbers, the spaces that a table puts around numbers, and the
    minutes that pytest adds on a slow machine: "in 68.98s (0:01:08)"."""
    text = re.sub(r"(?<=s) \(\d+:\d\d:\d\d\)", "", text)
    return re.sub(r"-?\d[\d.]*(e[+-]\d+)?", "0", text).split()


def _run(command: str, folder: Path) -> str:
    """The output of a command, without gradcheck's summary line, which has the seconds."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(OF_THE_CALLER) and name not in ON_A_SERVER
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={
            **kept,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "GRADCHECK_NO_CACHE": "1",  # all output comes from real runs
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
        timeout=240,  # far more than the slowest command, which imports four frameworks
    )
    if done.returncode not in (0, 1):  # 1: findings, or failed tests
        raise PageError(f"{command}: exit code {done.returncode}\n{done.stdout}")
    lines = [line for line in done.stdout.splitlines() if not re.match(r"\d+ specs?: ", line)]
    return "\n".join(lines).strip("\n") + "\n"
