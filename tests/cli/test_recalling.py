"""Results of earlier runs are used again, where nothing has changed that they depend on."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.run.executors import local
from gradcheck_cli.run.workers import launch
from tests.every import first

from .calling import Screen, call_here

SPECS = {
    "good.yaml": "inputs: {x: 2}\nmodel: x ** 2\n",
    "bad.yaml": "inputs: {x: 100}\nmodel: 1 / exp(x)\n",
    "deep/two.yaml": "inputs: {x: 1}\nmodel: sin(x)\n---\ninputs: {x: 0}\nmodel: relu(x)\n",
    "layer.yaml": "inputs: {x: [1.0, 2.0]}\nimplementations: {numpy: layers.py:Scale}\n",
}
LAYERS = """
import numpy as np
from parts import factor

class Scale:
    def forward(self, x):
        return factor * x

    def backward(self, y_bar, x):
        return factor * y_bar
"""

Run = Callable[..., Screen]


def written(folder: Path) -> Path:
    for name, text in SPECS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "layers.py").write_text(LAYERS)
    (folder / "parts.py").write_text("factor = 2.0\n")
    return folder


def run_of(folder: Path, cache: Path) -> Run:
    variables = {"GRADCHECK_NO_CACHE": "0", "XDG_CACHE_HOME": str(cache)}

    def call_it(*arguments: str, **more: str) -> Screen:
        words = ("run", ".", "--engine", "reference,numpy", *arguments)
        return call_here(*words, cwd=folder, env={**variables, **more})

    return call_it


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path)


@pytest.fixture
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with a cache of its own."""
    return run_of(folder, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def run_again(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of specs that have run. Tests that change no file share it."""
    run = run_of(written(tmp_path_factory.mktemp("known")), tmp_path_factory.mktemp("cache"))
    run()
    return run


def report(screen: Screen) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(screen.out)
    return found


def from_cache(screen: Screen) -> set[str]:
    return {result["spec"] for result in report(screen)["results"] if result["cached"]}


def lasting(screen: Screen) -> dict[str, Any]:
    """A report without what may differ: how long it took, and where it came from."""
    found = report(screen)
    del found["duration_s"]
    for result in found["results"]:
        del result["cached"], result["duration_s"]
        for check in result["checks"]:
            del check["duration_s"]
    return found


ALL = {"good", "bad", "two#1", "two#2", "layer"}
JSON = ("--format", "json")


def test_a_report_of_the_cache_is_that_of_a_run(run: Run) -> None:
    fresh = run(*JSON)
    recalled = run(*JSON)
    assert (from_cache(fresh), from_cache(recalled)) == (set(), ALL)
    assert recalled.code == fresh.code == 1
    assert lasting(recalled) == lasting(fresh)


def test_it_says_so(run: Run) -> None:
    fresh, recalled = run(), run()
    body, _, last = recalled.out.rpartition("5 specs: ")
    assert body == fresh.out.rpartition("5 specs: ")[0]
    assert "; 5 from the cache; " in last
    assert "from the cache" not in fresh.out


def test_a_changed_spec_runs_among_those_that_are_known(run: Run, folder: Path) -> None:
    run()
    (folder / "deep" / "two.yaml").write_text(SPECS["deep/two.yaml"].replace("sin", "cos"))
    again = run(*JSON)
    assert from_cache(again) == ALL - {"two#1", "two#2"}
    names = [result["spec"] for result in report(again)["results"]]
    assert names == ["bad", "two#1", "two#2", "good", "layer"]


def test_results_come_in_the_order_of_files_also_while_others_are_read(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    monkeypatch.setattr(local, "_AHEAD", 1)
    for name in ("bad.yaml", "deep/two.yaml", "good.yaml"):
        (folder / name).write_text(SPECS[name] + "dtypes: [float32]\n")
    again = run(*JSON, "--jobs", "1")
    names = [result["spec"] for result in report(again)["results"]]
    assert names == ["bad", "two#1", "two#2", "good", "layer"]
    assert from_cache(again) == {"layer"}


def test_code_that_a_layer_imports_is_part_of_it(run: Run, folder: Path) -> None:
    run()
    (folder / "unrelated.py").write_text("x = 1\n")
    assert from_cache(run(*JSON)) == ALL
    (folder / "parts.py").write_text("factor = 3.0\n")
    assert from_cache(run(*JSON)) == ALL - {"layer"}


@pytest.mark.parametrize(
    "changed",
    first(
        3,
        [
            "--dtype float32",
            "--power 0.9",
            "--no-cache",
            "--mode reverse",
            "--ignore GC201",
            "--seed 1",
        ],
    ),
)
def test_other_settings_are_another_run(changed: str, run_again: Run) -> None:
    assert from_cache(run_again(*JSON, *changed.split())) == set()


def test_what_only_shows_or_ends_a_run_is_none(run_again: Run) -> None:
    assert from_cache(run_again(*JSON, "-q", "--jobs", "1", "--fail-on", "warning")) == ALL


def test_what_is_known_is_not_sent_to_a_cluster(run_again: Run) -> None:
    assert from_cache(run_again(*JSON, "--cluster", "local")) == ALL


def test_no_worker_starts_early_for_a_cluster(
    run_again: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(launch, "prewarm", lambda target="reference": started.append(target))
    run_again(*JSON, "--cluster", "local")
    assert started == []
    run_again(*JSON)
    assert len(started) == 3  # the reference engine is named, too


@pytest.mark.exhaustive
def test_what_the_nodes_of_a_cluster_here_find_is_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(os.environ)
    fresh = run(*JSON, "--cluster", "local", "--jobs", "1")
    for name in set(os.environ) - before:  # Dask leaves some in the process that starts nodes
        monkeypatch.delenv(name)
    recalled = run(*JSON)
    assert (from_cache(fresh), from_cache(recalled)) == (set(), ALL)
    assert lasting(recalled) == lasting(fresh)


def test_variables_of_frameworks_count(run_again: Run) -> None:
    assert from_cache(run_again(*JSON, OMP_NUM_THREADS="7")) == set()


def test_fail_fast_ends_with_the_first_failure_that_is_known(run_again: Run) -> None:
    screen = run_again(*JSON, "--fail-fast")
    assert [result["spec"] for result in report(screen)["results"]] == ["bad"]
    assert screen.code == 1


def test_mistakes_are_read_anew(run: Run, folder: Path) -> None:
    (folder / "good.yaml").write_text(SPECS["good.yaml"] + "---\nmodel: [\n")
    assert run().code == 2
    again = run(*JSON)
    assert again.code == 2
    assert from_cache(again) == ALL - {"good"}


def test_a_layer_is_not_recalled_where_no_code_may_run(run_again: Run) -> None:
    assert "layer" not in from_cache(screen := run_again(*JSON, "--no-user-code"))
    assert screen.code == 2


def test_what_another_run_may_not_find_is_not_kept(run: Run, folder: Path) -> None:
    (folder / "layers.py").write_text(LAYERS + "raise OSError('the network is down')\n")
    run()
    assert from_cache(run(*JSON)) == ALL - {"layer"}


def test_a_baseline_counts_over_known_and_new_results(run: Run, folder: Path) -> None:
    (folder / "bad.yaml").write_text("name: bad\n" + SPECS["bad.yaml"])
    assert run("--write-baseline", "known.json").code == 0
    assert run("--baseline", "known.json").code == 0
    assert from_cache(run(*JSON, "--baseline", "known.json")) == ALL
    (folder / "again.yaml").write_text("name: bad\n" + SPECS["bad.yaml"])
    both = run(*JSON, "--baseline", "known.json")
    assert both.code == 1  # the baseline has it once
    statuses = {result["path"]: result["status"] for result in report(both)["results"]}
    assert (statuses["again.yaml"], statuses["bad.yaml"]) == ("failed", "passed")


def test_a_report_does_not_replace_the_code_of_a_known_layer(run: Run, folder: Path) -> None:
    run()
    screen = run("--report", "json=parts.py")
    assert screen.code == 2
    assert "is an input of this run" in screen.err
    assert (folder / "parts.py").read_text() == "factor = 2.0\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes with names")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=[SPECS["good.yaml"]])
    writing.start()
    variables = {"GRADCHECK_NO_CACHE": "0", "XDG_CACHE_HOME": str(tmp_path)}
    screen = call_here("run", "pipe.yaml", "--engine", "reference", cwd=tmp_path, env=variables)
    writing.join()
    assert (screen.code, screen.out.split()[:2]) == (0, ["ok", "pipe"])


def test_a_folder_that_cannot_be_written_is_said(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("cache") / "file"
    place.write_text("")
    env = {"GRADCHECK_NO_CACHE": "0", "XDG_CACHE_HOME": str(place)}
    screen = call_here("run", "good.yaml", "--engine", "reference", cwd=folder, env=env)
    assert screen.code == 0
    assert "results cannot be cached in " in screen.err
