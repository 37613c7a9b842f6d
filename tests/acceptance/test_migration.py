"""A torch project whose gradient tests are migrated by changing their imports."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gradcheck_cli import jax, tensorflow, torch

PROJECT = Path(__file__).parent / "torch_project.py"
IMPORTS = re.compile(r"^from torch\.autograd(\.gradcheck)? import", re.MULTILINE)


def outcomes(text: str, folder: Path) -> dict[str, str]:
    """PASSED or FAILED, by test."""
    folder.mkdir()
    (folder / "test_layers.py").write_text(text, "utf-8")
    without = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    run = [sys.executable, "-m", "pytest", "-v", *without, "test_layers.py"]
    shown = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False).stdout
    return dict(re.findall(r"::(test_\w+) (PASSED|FAILED|ERROR)", shown))


@pytest.mark.exhaustive
def test_ten_tests_run_and_a_bug_that_torch_misses_is_found(tmp_path: Path) -> None:
    text = PROJECT.read_text("utf-8")
    before = outcomes(text, tmp_path / "before")
    assert len(before) == 10
    assert set(before.values()) == {"PASSED"}
    migrated = IMPORTS.sub("from gradcheck_cli.torch import", text)
    after = outcomes(migrated, tmp_path / "after")
    assert after == {**before, "test_overwrites": "FAILED"}


def test_the_guide_says_what_becomes_of_each_argument() -> None:
    guide = (PROJECT.parents[2] / "docs" / "guides" / "migration.md").read_text("utf-8")
    functions = (torch.gradcheck, torch.gradgradcheck, jax.check_grads, tensorflow.compute_gradient)
    named = {name for one in functions for name in inspect.signature(one).parameters}
    assert {name for name in named if not re.search(rf"\b{name}\b", guide)} == set()
