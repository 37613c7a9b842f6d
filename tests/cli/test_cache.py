"""`gradcheck cache` names the folder of results, and clears it."""

from __future__ import annotations

from pathlib import Path

from .calling import call_here


def test_the_cache_is_named_and_cleared(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    env = {"GRADCHECK_NO_CACHE": "0", "XDG_CACHE_HOME": str(cache)}
    (tmp_path / "good.yaml").write_text("inputs: {x: 2}\nmodel: x ** 2\n")
    named = call_here("cache", cwd=tmp_path, env=env)
    assert named.out == f"{cache}/gradcheck/results\n"
    call_here("run", "good.yaml", "--engine", "reference", cwd=tmp_path, env=env)
    assert call_here("cache", "clear", cwd=tmp_path, env=env).out == "removed 1 file of results\n"
    assert call_here("cache", "clear", cwd=tmp_path, env=env).out == "removed 0 files of results\n"
