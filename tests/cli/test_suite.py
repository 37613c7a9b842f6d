"""Suites: the operations of a framework at sample inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .calling import call_here

KNOWN = Path(__file__).parent / "torch-ops.baseline.json"
"""What is wrong with PyTorch's operations, which docs/suites.md explains."""


@pytest.mark.exhaustive
def test_operations_are_counted_by_what_was_found(tmp_path: Path) -> None:
    more = ("--report", "json=a.json", "--resume", "journal")
    screen = call_here("suite", "jax-ops", "jnp.tan*", "lax.erf", *more, cwd=tmp_path)
    assert screen.code == 0, screen.err
    assert "| passed | 3 | 3 |" in screen.out
    report = json.loads((tmp_path / "a.json").read_text())
    assert (report["suite"], report["refused"]) == ("jax-ops", {})
    assert [result["spec"] for result in report["results"]] == [
        *("jnp.tan[0]", "jnp.tanh[0]", "lax.erf[0]"),
    ]
    again = call_here("suite", "jax-ops", "jnp.tan*", "lax.erf", *more, cwd=tmp_path)
    assert "3 from the cache" in again.out
    missing = call_here("suite", "jax-ops", "jnp.tanj", cwd=tmp_path)
    assert missing.code == 2
    assert "Did you mean `jnp.tan`?" in missing.err


def test_an_engine_of_another_framework_is_a_mistake(tmp_path: Path) -> None:
    screen = call_here("suite", "jax-ops", "--engine", "torch", cwd=tmp_path)
    assert screen.code == 2
    assert "the engine `torch` does not run jax-ops" in screen.err
    assert "--engine jax|jax-jit" in screen.err


@pytest.mark.exhaustive
def test_nothing_new_is_found_in_a_tenth_of_pytorchs_operations(tmp_path: Path) -> None:
    settings = ("--dtype", "float64", "--samples", "1", "--baseline", str(KNOWN))
    screen = call_here("suite", "torch-ops", "--shard", "1/10", *settings, cwd=tmp_path)
    assert screen.code == 0, screen.out + screen.err
    assert "operations in other shards" in screen.out
