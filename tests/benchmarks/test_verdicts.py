"""Stored verdicts: a checkout agrees with itself, and what changes a decision is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCHMARK = ROOT / "benchmarks" / "verdicts.py"
SPEC = "specs/planted/GC301.yaml"


def test_two_runs_agree_and_another_fix_is_a_difference(tmp_path: Path) -> None:
    once, again = tmp_path / "once.json", tmp_path / "again.json"
    for file in (once, again):
        done = _verdicts("store", file, SPEC, "--engine", "reference")
        assert done.returncode == 0, done.stderr
        assert "2 findings" in done.stdout
    same = _verdicts("compare", once, again)
    assert (same.returncode, same.stdout) == (0, "the same in 1 specs\n")

    stored = json.loads(again.read_text("utf-8"))
    (lines,) = stored.values()
    fixed = [line for line in lines if "expm1" in line]
    assert len(fixed) == 2
    lines[lines.index(fixed[0])] = fixed[0].replace("expm1", "exp")
    again.write_text(json.dumps(stored), "utf-8")
    apart = _verdicts("compare", once, again)
    assert apart.returncode == 1
    spec, gone, new = apart.stdout.splitlines()
    assert spec == f"{SPEC}: cancellation"
    assert gone == f"  - {fixed[0]}"
    assert new.startswith("  + finding")
    assert "expm1" not in new


def _verdicts(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, BENCHMARK, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
