"""Runs where what Linux alone has is taken away, in this process and in the workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.every import first

OURS = """
import os, pathlib, sys
sys.path[:0] = os.environ["OURS"].split(os.pathsep)
import gradcheck_cli.run.workers.family as family
import gradcheck_cli.run.workers.pipes as pipes
family.PROC = pathlib.Path("/nothing/like/proc")
"""
MACOS = OURS + "import sysconfig; sysconfig.get_config_vars(); sys.platform = 'darwin'\n"
WINDOWS = (
    """
import os, random, selectors, signal, subprocess, sys
for name in ("environb", "fork", "getppid", "geteuid", "getuid", "killpg", "register_at_fork"):
    delattr(os, name)
for name in ("set_blocking", "setsid", "sysconf"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGSTOP", "getitimer", "pthread_sigmask", "setitimer"):
    delattr(signal, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
"""
    + OURS
    + """
pipes.pipes_of = pipes.Threaded
family.join = lambda parent: None
def end(worker, mark=""):
    if worker.poll() is None:
        worker.send_signal(9)
    worker.wait()
family.end = end  # `taskkill`
"""
)
SPECS = {
    "right.yaml": "inputs: {x: [0.5, 2.0]}\nmodel: sum(sin(x) * exp(-x))\n",
    "layer.yaml": "inputs: {x: [0.5, 2.0]}\nimplementations: {numpy: layer.py}\n",
    "wrong.yaml": "inputs: {x: [0.5, 2.0]}\nimplementations: {numpy: wrong.py}\n",
    "crash.yaml": "inputs: {x: [0.5, 2.0]}\nimplementations: {numpy: crash.py}\n",
    "hang.yaml": "timeout: 1\ninputs: {x: [0.5, 2.0]}\nimplementations: {numpy: hang.py}\n",
}
LAYER = """
import os, time
import numpy as np

def forward(x):
    BEFORE
    return np.sin(x)

def backward(cotangent, x):
    return cotangent * np.cos(x)
"""
LAYERS = {
    "layer.py": LAYER.replace("BEFORE", "pass"),
    "wrong.py": LAYER.replace("BEFORE", "pass").replace("np.cos", "2 * np.cos"),
    "crash.py": LAYER.replace("BEFORE", "os._exit(7)"),
    "hang.py": LAYER.replace("BEFORE", "time.sleep(60)"),
}
FOUND = {
    "right": set(),
    "layer": set(),
    "wrong": {"GC101"},
    "crash": {"GC702"},
    "hang": {"GC703"},
}


OPTIONS = ["--engine", "reference,numpy", "--dtype", "float64", "--format", "json"]
NOTES = {"GC705"}  # NumPy takes layers and no formulas


@pytest.mark.parametrize("system", first(1, ["macos", "windows"]))
def test_formulas_and_layers_are_checked(tmp_path: Path, system: str) -> None:
    for name, text in {**SPECS, **LAYERS}.items():
        (tmp_path / name).write_text(text, "utf-8")
    start = tmp_path / "start"
    start.mkdir()
    text = {"macos": MACOS, "windows": WINDOWS}[system]
    (start / "sitecustomize.py").write_text(text, "utf-8")
    environment = dict(os.environ)
    environment["OURS"] = os.pathsep.join(map(os.path.abspath, sys.path))
    environment["PYTHONPATH"] = os.pathsep.join([str(start), environment["OURS"]])
    done = subprocess.run(
        [sys.executable, "-m", "gradcheck_cli", "run", *SPECS, *OPTIONS],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    for result in json.loads(done.stdout)["results"]:
        codes = {finding["code"] for finding in result["findings"]}
        assert codes - NOTES == FOUND[result["spec"]], result["spec"]
