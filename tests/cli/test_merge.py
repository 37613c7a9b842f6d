"""Shards of a run, and one report of them."""

from __future__ import annotations

import json
from pathlib import Path

from .calling import call_here, lasting

TEXTS = ("x ** 2", "1 / exp(x)", "sin(x)", "tanh(x)")


def test_shards_cover_the_run_and_are_merged_to_its_report(tmp_path: Path) -> None:
    texts = [f"name: {model}\ninputs: {{x: 100.0}}\nmodel: {model}\n" for model in TEXTS]
    (tmp_path / "a.yaml").write_text(texts[0])
    (tmp_path / "b.yaml").write_text("---\n".join(texts[1:]))
    run = ("run", ".", "--engine", "reference")
    whole = call_here(*run, "--format", "concise", cwd=tmp_path)
    for shard in ("1/2", "2/2"):
        file = f"{shard[0]}.json"
        code = call_here(*run, "--shard", shard, "--format=json", "--output", file, cwd=tmp_path)
        assert code.code in (0, 1), code.err
    counts = [len(json.loads((tmp_path / f"{n}.json").read_text())["results"]) for n in (1, 2)]
    assert sum(counts) == 4
    assert all(counts)
    again = call_here(*run, "--shard", "1/2", "--format=json", cwd=tmp_path)
    assert json.loads(again.out)["elsewhere"] == counts[1]  # where results are known, too
    merged = call_here("merge", "1.json", "2.json", "--format", "concise", cwd=tmp_path)
    assert (merged.code, lasting(merged.out)) == (whole.code, lasting(whole.out))
    missing = call_here("merge", "1.json", cwd=tmp_path)
    assert missing.code == 2
    assert "shard 2/2 is missing" in missing.err


def test_a_shard_without_specs_passes(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("inputs: {x: 1.0}\nmodel: x ** 2\n")
    screens = [
        call_here("run", ".", "--engine=reference", "--shard", f"{n}/3", cwd=tmp_path)
        for n in range(1, 4)
    ]
    assert [screen.code for screen in screens] == [0] * 3
    assert sum("1 passed" in screen.out for screen in screens) == 1
    assert sum("1 spec in other shards" in screen.out for screen in screens) == 2


def test_what_is_no_shard_is_a_mistake(tmp_path: Path) -> None:
    for shard in ("0/2", "3/2", "half"):
        assert call_here("run", ".", "--shard", shard, cwd=tmp_path).code == 2


def test_the_help_has_the_options_of_reports_alone(tmp_path: Path) -> None:
    screen = call_here("merge", "--help", cwd=tmp_path)
    assert screen.code == 0
    assert "--report" in screen.out
    assert "--engine " not in screen.out
