"""Runs a thousand small layers, and measures seconds per layer, started workers, and memory.

    python benchmarks/many_layers.py [COUNT]

Every worker must be started once, and its memory must not grow from layer to layer. Otherwise the
exit code is 1.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from gradcheck_cli import specfile
from gradcheck_cli.domain.events import Event, SpecFinished, Started
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.run.session import run
from gradcheck_cli.run.workers.memory import resident

COUNT = 1000
PER_FILE = 100
GROWTH_MB = 50.0  # from the first tenth of the layers to the end: a twentieth of a megabyte a layer

LAYERS = """
import torch


def made(number):
    weight = torch.full((3,), 1.0 + number / 1000, requires_grad=True)

    def layer(x):
        return torch.exp(-x * weight).sum()

    return layer


"""
SPEC = """\
name: layer{number}
inputs: {{x: {{shape: [3], distribution: normal, seed: {number}}}}}
implementations: {{torch: layers.py:layer{number}}}
"""


def written(folder: Path, count: int) -> list[Path]:
    """Files with `count` specs in total, and the file of their layers."""
    layers = "".join(f"layer{number} = made({number})\n" for number in range(count))
    (folder / "layers.py").write_text(LAYERS + layers, "utf-8")
    files = []
    for start in range(0, count, PER_FILE):
        numbers = range(start, min(start + PER_FILE, count))
        files.append(folder / f"specs{start}.yaml")
        files[-1].write_text("---\n".join(SPEC.format(number=n) for n in numbers), "utf-8")
    return files


def workers() -> dict[int, str]:
    """The engine of every live worker, by process id."""
    found = {}
    for thread in Path(f"/proc/{os.getpid()}/task").iterdir():
        for pid in (thread / "children").read_text().split():
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if "gradcheck_cli.run.workers.worker" in words:
                target = words[words.index("gradcheck_cli.run.workers.worker") + 1]
                found[int(pid)] = target.rpartition(":")[2]
    return found


def processors() -> dict[str, float]:
    """Processor seconds, which include workers that have ended."""
    found = {}
    for who, which in (("here", resource.RUSAGE_SELF), ("in workers", resource.RUSAGE_CHILDREN)):
        spent = resource.getrusage(which)
        found[who] = spent.ru_utime + spent.ru_stime
    return found


class Watch:
    """Observes the workers during the run."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = 0
        self.failed = 0
        self.seen: dict[int, str] = {}
        self.memory: dict[str, list[tuple[int, float]]] = {}  # (layers done, MB) by engine

    def hear(self, event: Event) -> None:
        if isinstance(event, Started):
            self._look()
        if isinstance(event, SpecFinished):
            self.done += 1
            self.failed += event.result.status != "passed"
            if self.done % max(self.count // 20, 1) == 0:
                self._look()

    def _look(self) -> None:
        for pid, engine in workers().items():
            self.seen[pid] = engine
            held = (resident(pid) or 0) / 1e6
            self.memory.setdefault(engine, []).append((self.done, held))

    def growth(self, engine: str) -> float:
        """The growth in MB from the time when a tenth of the layers was done to the end."""
        later = [held for done, held in self.memory[engine] if done >= self.count / 10]
        return later[-1] - later[0] if later else 0.0


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        specs = []
        for file in written(Path(folder), count):
            found, errors = specfile.read(str(file))
            assert not errors, errors[0].message
            specs += found
        read = time.perf_counter() - started
        watch = Watch(count)
        for event in run(specs, RunOptions(jobs=1)):
            watch.hear(event)
        seconds = time.perf_counter() - started - read
    print(f"{count} layers, {watch.failed} failed; read in {read:.1f} s, run in {seconds:.1f} s")
    told = ", ".join(f"{1e3 * spent / count:.1f} ms {who}" for who, spent in processors().items())
    print(f"  a layer (two precisions, behaviour): {1e3 * seconds / count:.1f} ms; of CPU: {told}")
    ok = watch.failed == 0
    for engine in sorted(watch.memory):
        starts = list(watch.seen.values()).count(engine)
        held = watch.memory[engine][-1][1]
        growth = watch.growth(engine)
        ok = ok and starts == 1 and growth < GROWTH_MB
        print(f"  {engine}: started {starts} times, {held:.0f} MB, grew by {growth:+.1f} MB")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
