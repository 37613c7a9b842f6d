"""Runs the same specs with one worker of each engine, with two, and on a local cluster of two
nodes, and compares the times and the results.

    python benchmarks/jobs.py [COUNT] [layers|formulas]

Prints the seconds and their ratio, which means little on a busy machine. The processor time of the
busiest worker is therefore printed too: a run takes at least that. The start of Dask, before the
run, is printed separately. The exit code is 1 if any result differs.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import dask
from distributed import LocalCluster
from many_layers import workers, written

from gradcheck_cli import specfile
from gradcheck_cli.domain.events import Finished, SpecFinished
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.session import run

COUNT = 400
FORMULA = """\
name: formula{number}
inputs: {{x: {x}, y: 0.7}}
model: log(1 + exp(x * y)) / (1 + x * x)
"""
_TICKS = os.sysconf("SC_CLK_TCK")


def formulas(folder: Path, count: int) -> list[Path]:
    """A file with `count` specs."""
    texts = (FORMULA.format(number=number, x=number / 100) for number in range(count))
    file = folder / "formulas.yaml"
    file.write_text("---\n".join(texts), "utf-8")
    return [file]


def read(files: Sequence[Path]) -> list[Spec]:
    specs: list[Spec] = []
    for file in files:
        found, errors = specfile.read(str(file))
        assert not errors, errors[0].message
        specs += found
    return specs


def processor_s(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def timed(
    specs: Sequence[Spec], engine: str, jobs: int = 1, cluster: str = ""
) -> tuple[float, list[float], list[SpecResult]]:
    """Seconds, the processor seconds of each worker of the engine, and the results."""
    start = time.perf_counter()
    spent: dict[int, float] = {}
    done = 0
    options = RunOptions(engines=Layered(override=(engine,)), jobs=jobs, cluster=cluster)
    for event in run(specs, options):
        if isinstance(event, SpecFinished):
            done += 1
            if done in (len(specs) // 2, len(specs)):
                mine = [pid for pid, name in workers().items() if name.lower().startswith(engine)]
                spent |= {pid: processor_s(pid) for pid in mine}
    assert isinstance(event, Finished)
    results = [plain(result) for result in event.report.results]
    return time.perf_counter() - start, sorted(spent.values()), results


def plain(result: SpecResult) -> SpecResult:
    """A result without times."""
    checks = tuple(replace(check, duration_s=0.0) for check in result.checks)
    return replace(result, checks=checks, duration_s=0.0)


def on_a_cluster(specs: Sequence[Spec], engine: str) -> tuple[float, float, list[SpecResult]]:
    """Seconds until Dask has its nodes, seconds of the run, and the results."""
    start = time.perf_counter()
    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),  # as in `--cluster local`
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
    ):
        start_s = time.perf_counter() - start
        run_s, _, results = timed(specs, engine, cluster=cluster.scheduler_address)
    return start_s, run_s, results


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    layers = "formulas" not in sys.argv
    engine = "torch" if layers else "reference"
    with tempfile.TemporaryDirectory() as folder:
        specs = read((written if layers else formulas)(Path(folder), count))
        one_s, (alone,), one = timed(specs, engine, 1)
        two_s, each, two = timed(specs, engine, 2)
        dask_s, nodes_s, on_nodes = on_a_cluster(specs, engine)
    kind = "layers" if layers else "formulas"
    print(f"{count} {kind}: {one_s:.1f} s with one worker of {engine}")
    print(f"  {two_s:.1f} s with {len(each)}: {one_s / two_s:.2f} times as fast")
    told = " and ".join(f"{seconds:.1f} s" for seconds in each)
    print(f"  processor time of workers: {alone:.1f} s, and {told}: {alone / max(each):.2f} times")
    print(f"  {nodes_s:.1f} s on a cluster of two nodes, which Dask started in {dask_s:.1f} s")
    print(f"  a cluster takes {nodes_s / two_s:.2f} times as long as two workers")
    if not one == two == on_nodes:
        print("  results differ")
    return int(not one == two == on_nodes)


if __name__ == "__main__":
    sys.exit(main())
