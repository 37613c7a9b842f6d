from pathlib import Path

import pytest

from gradcheck_cli.cli.ops import supports
from gradcheck_cli.engines.finite_difference import FiniteDifferenceEngine
from reference_engine.op import TABLE

from .calling import assert_snapshot, call_here


def test_every_operation_is_listed(tmp_path: Path) -> None:
    screen = call_here("ops", cwd=tmp_path)
    assert screen.code == 0
    assert all(f"  {name}(" in screen.out for name in TABLE)


def test_one_row(tmp_path: Path) -> None:
    assert_snapshot(call_here("ops", "relu", cwd=tmp_path), "ops_relu")


def test_an_alias_is_the_row_itself(tmp_path: Path) -> None:
    alias = call_here("ops", "absolute", cwd=tmp_path)
    assert alias.out == call_here("ops", "abs", cwd=tmp_path).out


def test_a_word_lists_the_rows_that_mention_it(tmp_path: Path) -> None:
    text = call_here("ops", "soft", cwd=tmp_path).out
    assert "softmax(" in text
    assert "softplus(" in text
    assert "matmul(" not in text


def test_a_mistyped_operation(tmp_path: Path) -> None:
    assert_snapshot(call_here("ops", "tahn", cwd=tmp_path), "ops_unknown")


def test_operations_of_frameworks_that_are_stated_in_rows(tmp_path: Path) -> None:
    assert_snapshot(call_here("ops", "--lift", "erfc", cwd=tmp_path), "ops_lift")
    everything = call_here("ops", "--lift", cwd=tmp_path).out
    assert [line.split()[0] for line in everything.splitlines() if line[0] != " "] == [
        *("torch", "tensorflow", "jax", "numpy")
    ]
    assert call_here("ops", "--lift", "tahn", cwd=tmp_path).code == 2


def test_an_engine_that_does_not_tell_its_operations_is_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: FiniteDifferenceEngine) -> frozenset[str]:
        raise KeyError("no table")

    before = supports()
    monkeypatch.setattr(FiniteDifferenceEngine, "operations", fails)
    assert supports().keys() == before.keys() - {"finite-difference"}
    said = capsys.readouterr().err
    assert "the engine `finite-difference` does not list its operations" in said
    assert "no table" in said
