from pathlib import Path

from reference_engine.op import TABLE

from .calling import assert_snapshot, call


def test_every_operation_is_listed(tmp_path: Path) -> None:
    screen = call("ops", cwd=tmp_path)
    assert screen.code == 0
    assert all(f"  {name}(" in screen.out for name in TABLE)


def test_one_row(tmp_path: Path) -> None:
    assert_snapshot(call("ops", "relu", cwd=tmp_path), "ops_relu")


def test_an_alias_is_the_row_itself(tmp_path: Path) -> None:
    assert call("ops", "absolute", cwd=tmp_path).out == call("ops", "abs", cwd=tmp_path).out


def test_a_word_lists_the_rows_that_mention_it(tmp_path: Path) -> None:
    text = call("ops", "soft", cwd=tmp_path).out
    assert "softmax(" in text
    assert "softplus(" in text
    assert "matmul(" not in text


def test_a_mistyped_operation(tmp_path: Path) -> None:
    assert_snapshot(call("ops", "tahn", cwd=tmp_path), "ops_unknown")
