"""Runs labelled layers, right ones and wrong ones with a code, and counts misses and false alarms.

    python benchmarks/labelled.py [--every N] [--engine NAME,...]

The specs of specs/labelled have their labels in `description`. The layers in `hostile` are by an
author who had not seen the code. Those in `reported` are wrong gradients that were reported in
public, with right ones for comparison. A right layer must have no error and no warning. A wrong one
must have the label's code as an error (GC402, a point without a derivative, as a warning). The exit
code is 1 if any layer is judged otherwise.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SPECS = Path(__file__).resolve().parents[1] / "specs" / "labelled"
ENGINES = ("torch", "jax", "tensorflow", "numpy")
SAID = ("error", "warning")


@dataclass(frozen=True)
class Judged:
    """A spec, its label, and the codes of its errors and warnings."""

    name: str
    label: str
    codes: frozenset[str]

    @property
    def is_right(self) -> bool:
        return not self.codes if self.label == "right" else self.label in self.codes


def label_of(spec: dict[str, Any]) -> str:
    """`right` or a code. The source of a report follows it in the description."""
    return str(spec["description"]).split(";")[0]


def judged(every: int = 1, engines: Sequence[str] = ENGINES) -> Iterator[Judged]:
    """Every n-th spec of each file, run as a user runs it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        labels: dict[str, str] = {}
        for engine in engines:
            for file in sorted(SPECS.glob(f"*/{engine}.yaml")):
                mine = folder / file.parent.name
                mine.mkdir(exist_ok=True)
                shutil.copy(file.with_name(f"{engine}_layers.py"), mine)
                specs = [*yaml.safe_load_all(file.read_text("utf-8"))][::every]
                (mine / file.name).write_text(yaml.safe_dump_all(specs, sort_keys=False), "utf-8")
                for spec in specs:
                    labels[str(mine / file.name) + spec["name"]] = label_of(spec)
        for result in _results(folder, engines):
            found = {f["code"] for f in result["findings"] if f["severity"] in SAID}
            path = Path(result["path"])
            shown = f"{path.parent.name}/{path.stem} {result['spec']}"
            yield Judged(shown, labels.pop(result["path"] + result["spec"]), frozenset(found))
    assert not labels, f"not run: {labels}"


def _results(folder: Path, engines: Sequence[str]) -> list[dict[str, Any]]:
    report = folder / "report.json"
    command = (sys.executable, "-m", "gradcheck_cli", "run", str(folder), "--no-cache", "-q")
    named = [word for engine in engines for word in ("--engine", engine)]
    done = subprocess.run(
        [*command, *named, "--report", f"json={report}"], stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode > 1:
        raise SystemExit(f"gradcheck ended with {done.returncode}")
    found: list[dict[str, Any]] = json.loads(report.read_text("utf-8"))["results"]
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python benchmarks/labelled.py")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--engine", default=",".join(ENGINES))
    chosen = parser.parse_args(arguments)
    cases = [*judged(chosen.every, chosen.engine.split(","))]
    for group in ("hostile", "reported"):
        mine = [case for case in cases if case.name.startswith(group)]
        wrong = [case for case in mine if case.label != "right"]
        right = [case for case in mine if case.label == "right"]
        print(
            f"{group:9} wrong, found: {sum(case.is_right for case in wrong)} of {len(wrong)}; "
            f"right, no alarm: {sum(case.is_right for case in right)} of {len(right)}"
        )
    failed = [case for case in cases if not case.is_right]
    for case in failed:
        print(f"{case.name}: {case.label}, but {', '.join(sorted(case.codes)) or 'nothing'}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
