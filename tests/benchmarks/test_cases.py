"""The benchmark of the cases runs, and what it prints is what the run said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.case_classes import classified

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CASES = [
    json.loads(line) for line in (BENCHMARKS / "cases" / "instability.jsonl").open(encoding="utf-8")
]


@pytest.mark.parametrize("engine", ["torch", "tf", "jax"])
def test_classes_are_those_of_the_data(engine: str) -> None:
    for case in CASES:
        known = case[f"class_{engine}"]
        if case["true_gradient"] is None or known in ("finite", "error"):
            continue
        found = classified(case[f"observed_{engine}"], case["true_gradient"], case["dtype"])
        alike = {"ok": ("ok", "flush"), "slightly-inaccurate": ("ok",)}.get(known, (known,))
        assert found in alike, case["id"]


def test_a_flushed_subnormal_is_no_zero_gradient() -> None:
    assert classified([0.0], [1e-42], "float32") == "flush"
    assert classified([0.0], [1e-37], "float32") == "zero"
    assert classified(["-inf"], [-1e39], "float32") == "ok"
    assert classified(["inf"], [-1e39], "float32") == "wrong"


def test_a_run_says_what_was_found_engine_by_engine(tmp_path: Path) -> None:
    only = "exp_recip,sech2,relu0,recip_sq,cubic_expanded"
    command = [sys.executable, BENCHMARKS / "cases.py", "--only", only, "--json", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode in (0, 1), done.stderr
    report = json.loads((tmp_path / "out").read_text())["modes"]["reverse"]
    verdicts = {(one["id"], one["engine"]): one["verdict"] for one in report["told"]}
    for engine in ("reference", "torch", "tensorflow", "jax"):
        assert verdicts["exp_recip", engine] == "found"
        assert verdicts["cubic_expanded", engine] == "found"
        assert verdicts["sech2", engine] == "quiet"
        assert verdicts["relu0", engine] == "told"
        assert verdicts["recip_sq", engine] == "told"
        assert verdicts["cubic_expanded.fix", engine] == "quiet"
        assert report["summary"]["rows"]["defects found"][engine] == [2, 2]
    table = done.stdout.splitlines()
    assert any("defects found" in line and line.count("2 of 2 100%") == 4 for line in table)
    assert "missed: 0" in table
