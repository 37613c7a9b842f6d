"""--watch runs again whenever a file of the project changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from gradcheck_cli.cli import watching
from gradcheck_cli.domain.errors import UsageError

from .calling import environment


def test_a_change_runs_again_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("inputs: {x: 2}\nmodel: x ** 2\n")
    out, err = tmp_path / "out", tmp_path / "err"
    words = ("run", "--watch", "--engine", "reference")
    with out.open("w") as stdout, err.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "gradcheck_cli", *words],
            cwd=tmp_path,
            env=environment(),
            stdout=stdout,
            stderr=stderr,
        )
    try:
        _wait_for(err, "watching for changes; Ctrl-C ends it", 1)
        assert out.read_text().count("ok    s") == 1
        (tmp_path / "s.yaml").write_text("inputs: {x: 100}\nmodel: 1 / exp(x)\n")
        _wait_for(err, "watching for changes; Ctrl-C ends it", 2)
        assert "FAIL  s" in out.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 1
    finally:
        process.kill()
    assert "changed: s.yaml" in err.read_text()


def _wait_for(file: Path, words: str, times: int) -> None:
    end = time.monotonic() + 60
    while file.read_text().count(words) < times:
        assert time.monotonic() < end, file.read_text()
        time.sleep(0.1)


def test_what_is_watched(tmp_path: Path) -> None:
    for name in ("a.yaml", "deep/b.py", "notes.txt", ".hidden/c.py", "venv/d.py", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    found = watching.snapshot([str(tmp_path), str(tmp_path / "notes.txt"), "gone.yaml"])
    names = sorted(os.path.relpath(path, tmp_path) for path in found)
    assert names == ["a.yaml", "deep/b.py", "notes.txt", "pyproject.toml"]


def test_a_run_that_was_interrupted_ends_the_watch(tmp_path: Path) -> None:
    assert watching.watch(lambda: 130, [str(tmp_path)]) == 130


def test_a_mistake_in_the_settings_does_not(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")

    def mend(seconds: float) -> None:
        (tmp_path / "pyproject.toml").write_text("mended")

    monkeypatch.setattr(watching.time, "sleep", mend)
    runs: list[int] = []

    def run() -> int:
        runs.append(len(runs))
        if len(runs) == 1:
            raise UsageError("invalid configuration")
        return 143

    assert watching.watch(run, []) == 143
    assert "error: invalid configuration" in capsys.readouterr().err
