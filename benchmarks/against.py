"""Compares ordinary runs of this checkout with those of another: processor seconds and evaluations.

    python benchmarks/startup.py --against CHECKOUT

Both run under this Python in turn, each with its own engines, so that a busy machine slows both.
The time is that of the whole tree of processes, user and system, and the ratio is that of the
medians. Evaluations are the forward and backward passes in the JSON report. The exit code is 1 if
this checkout takes more than GROWTH times as much of either.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from timing import processor_seconds

GROWTH = 1.05
REPEATS = 7
MANY = 60
HERE = Path(__file__).resolve().parents[1]
_GROUP = "gradcheck.engines"

FORMULAS = (
    "sin(x) * exp(-x)",
    "sqrt(x ** 2 + {c})",
    "sum(softmax(v * {c}) * v)",
    "logsumexp(v) * {c}",
    "sum(relu(v - {c}))",
)
FORMULA = "name: formula{n}\ninputs: {{{inputs}}}\nmodel: {model}\n"
LAYERS = (
    "torch.exp(-x * x).sum()",
    "torch.tanh(x) * x",
    "torch.softmax(x, 0)",
    "torch.relu(weight @ x)",
    "(x / (1 + x * x)).cumsum(0)",
)
LAYER = (
    "import torch\n\nweight = torch.arange(8.0).reshape(2, 4) - {n}\n\n\n"
    "def layer(x):\n    return {body}\n"
)
LAYER_SPEC = (
    "name: layer{n}\ninputs: {{x: {{shape: [4], distribution: normal, seed: {n}}}}}\n"
    "implementations: {{torch: layer{n}.py:layer}}\n"
)


@dataclass(frozen=True, slots=True)
class Workload:
    """The arguments of a `gradcheck run`."""

    what: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """One run: processor seconds of all its processes, and the number of its passes."""

    seconds: float
    evaluations: int


def workloads(folder: Path, count: int) -> list[Workload]:
    """One and `count` formulas and layers, written to the folder."""
    for name, number in (("one", 1), ("many", count)):
        formulas, layers = folder / f"{name}-formulas", folder / f"{name}-layers"
        formulas.mkdir()
        layers.mkdir()
        for n in range(number):
            model = FORMULAS[n % len(FORMULAS)].format(c=1 + n / 50)
            inputs = f"v: [0.{n:02}1, 1.5, -0.7]" if "v" in model else f"x: 1.{n:02}"
            _write(formulas / f"formula{n}.yaml", FORMULA.format(n=n, inputs=inputs, model=model))
            _write(layers / f"layer{n}.py", LAYER.format(n=n, body=LAYERS[n % len(LAYERS)]))
            _write(layers / f"layer{n}.yaml", LAYER_SPEC.format(n=n))
    return [
        Workload("one formula, reference", (str(folder / "one-formulas"), "--engine", "reference")),
        Workload(f"{count} formulas, reference", _many(folder, "reference")),
        Workload(f"{count} formulas, PyTorch", _many(folder, "torch")),
        Workload("one layer, PyTorch", (str(folder / "one-layers"),)),
        Workload(f"{count} layers, PyTorch", (str(folder / "many-layers"),)),
    ]


def _many(folder: Path, engine: str) -> tuple[str, ...]:
    return (str(folder / "many-formulas"), "--engine", engine)


def _write(file: Path, text: str) -> None:
    file.write_text(text, "utf-8")


def environment(checkout: Path, folder: Path) -> dict[str, str]:
    """The environment in which Python finds that checkout and its engines. Entry points are written
    to `folder`, because the installed metadata may belong to another checkout."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))["project"]
    told = folder / f"{project['name'].replace('-', '_')}-0.dist-info"
    told.mkdir(parents=True)
    lines = [f"{name} = {target}" for name, target in project["entry-points"][_GROUP].items()]
    _write(told / "entry_points.txt", "\n".join([f"[{_GROUP}]", *lines, ""]))
    _write(told / "METADATA", f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
    found = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return found | {
        "PYTHONPATH": os.pathsep.join((str(folder), str(checkout))),
        "GRADCHECK_NO_CACHE": "1",
        "OMP_NUM_THREADS": "1",  # threads that wait for work take time of their own
    }


def spent(workload: Workload, variables: Mapping[str, str], folder: Path) -> Spent:
    """One run. Raises CalledProcessError if it fails."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "gradcheck_cli", "run", *workload.arguments]
    # -j 1: the start of a second worker, which saves time, is no work that a check needs
    command += ["--exit-zero", "--report", f"json={report}", "--quiet", "-j", "1"]
    seconds = processor_seconds(command, folder, variables)
    results = json.loads(report.read_text("utf-8"))["results"]
    passes = (check["evaluations"] for result in results for check in result["checks"])
    evaluations = sum(p["forward"] + p["backward"] for p in passes)
    return Spent(seconds, evaluations)


def compared(
    workload: Workload, sides: Sequence[Mapping[str, str]], folder: Path, repeats: int
) -> list[Spent]:
    """The median of each side. The first run of each fills the caches and is dropped, unless there
    is no other."""
    runs: list[list[Spent]] = [[] for _ in sides]
    for repeat in range(repeats + 1):
        order = range(len(sides)) if repeat % 2 else reversed(range(len(sides)))
        for side in order:
            runs[side].append(spent(workload, sides[side], folder))
    return [
        Spent(statistics.median(run.seconds for run in mine[1:] or mine), mine[0].evaluations)
        for mine in runs
    ]


def compare(other: Path, only: str = "", count: int = MANY, repeats: int = REPEATS) -> int:
    """Print a line for each workload with `only` in its name. Returns 1 if one takes more than
    allowed, and 0 otherwise."""
    missed = 0
    print(f"{'here':>9} {'there':>9} {'ratio':>6} {'evaluations':>19} {'ratio':>6} {GROWTH:6.2f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = [
            environment(HERE, folder / "here"),
            environment(other.resolve(), folder / "there"),
        ]
        for workload in workloads(folder, count):
            if only not in workload.what:
                continue
            here, there = compared(workload, sides, folder, repeats)
            time = here.seconds / there.seconds
            passes = here.evaluations / there.evaluations
            late = max(time, passes) > GROWTH
            missed += late
            print(
                f"{here.seconds:8.3f}s {there.seconds:8.3f}s {time:6.3f} {here.evaluations:9} "
                f"{there.evaluations:9} {passes:6.3f} {'MISSED' if late else '':7} {workload.what}",
                flush=True,
            )
    return 1 if missed else 0
