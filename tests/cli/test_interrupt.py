"""Ctrl-C, SIGTERM and SIGHUP: what was finished is reported, and nothing is left behind."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.every import first

from .calling import environment

COUNT = 60  # for three seconds
SPEC = "inputs: {x: {shape: [300], distribution: normal, seed: 0}}\nmodel: sum(tanh(x) ** 2)\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
@pytest.mark.parametrize("name", first(2, ["SIGINT", "SIGTERM", "SIGHUP"]))
def test_what_was_finished_is_reported(tmp_path: Path, name: str) -> None:
    for number in range(COUNT):
        (tmp_path / f"spec_{number:04}.yaml").write_text(SPEC, "utf-8")
    words = ["run", ".", "--engine", "reference", "--report", "json=report.json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gradcheck_cli", *words],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()  # by now one spec is finished and many are not
    process.send_signal(signal.Signals[name])
    rest, told = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.Signals[name]
    assert first.startswith("ok ")
    assert "interrupted" in rest.splitlines()[-1]
    assert "Traceback" not in told
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert 1 <= report["summary"]["specs"] < COUNT
    assert (report["interrupted"], report["signal"]) == (True, name)
    assert _workers_of(process.pid) == []


STRIKING = """
import signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
module, name, *sys.argv[1:] = sys.argv[1:]

class Finder:
    def find_spec(self, sought, path, target=None):
        if sought == module:
            signal.raise_signal(signal.Signals[name])

sys.meta_path.insert(0, Finder())
from gradcheck_cli.__main__ import main

try:
    main()
except SystemExit:
    if module == "the end":
        signal.raise_signal(signal.Signals[name])
    raise
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGHUP")
@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("gradcheck_cli.cli.signals", "SIGINT", ["run", "none.yaml"]),
        ("click", "SIGINT", ["run", "none.yaml"]),
        ("gradcheck_cli.cli.exits", "SIGTERM", ["run", "none.yaml"]),
        ("gradcheck_cli.cli.run", "SIGINT", ["run", "none.yaml"]),
        ("gradcheck_cli.cli.execution", "SIGHUP", ["run", "none.yaml"]),
        ("gradcheck_cli.specfile", "SIGTERM", ["validate", "none.yaml"]),
        ("the end", "SIGINT", ["--version"]),
    ],
)
def test_a_signal_at_any_moment_is_a_sentence(module: str, name: str, words: list[str]) -> None:
    """Amid an import, where a command begins, and after its end."""
    ended = subprocess.run(
        [sys.executable, "-c", STRIKING, module, name, *words],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 128 + signal.Signals[name]
    assert ended.stderr.strip() == "error: interrupted"


SLEEPER = """
import os, subprocess, time

def forward(x):
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    with open("sleeper", "w") as file:
        file.write(str(child.pid))
    time.sleep(3600)

def backward(cotangent, x):
    return cotangent
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_layer_started_ends_with_the_run(tmp_path: Path) -> None:
    (tmp_path / "layer.py").write_text(SLEEPER, "utf-8")
    text = "inputs: {x: 1.0}\nimplementations: {numpy: layer.py}\n"
    (tmp_path / "layer.yaml").write_text(text, "utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "gradcheck_cli", "run", "layer.yaml"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    sleeper = tmp_path / "sleeper"
    while not (sleeper.exists() and sleeper.read_text("utf-8")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143
    stat = Path("/proc", sleeper.read_text("utf-8"), "stat")
    for _ in range(50):  # until whoever adopted it has seen its end
        if not stat.exists():
            break
        time.sleep(0.1)
    assert not stat.exists() or stat.read_text("utf-8").split()[2] == "Z"


def _workers_of(parent: int) -> list[str]:
    """Workers are started with their parent's process number as last argument."""
    for _ in range(50):
        listed = subprocess.run(
            ["ps", "-eo", "args"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        found = [
            line
            for line in listed
            if "gradcheck_cli.run.workers.worker" in line and f" {parent}" in line
        ]
        if not found:
            return []
        time.sleep(0.1)
    return found
