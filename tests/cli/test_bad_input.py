"""What bad input gets: every mistake with its place, nothing of the bad spec run, exit code 2."""

from pathlib import Path

import pytest

from .calling import assert_snapshot, call, call_here

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

TEXTS = {
    "empty_file": "",
    "only_comments": "# nothing here\n",
    "no_yaml": "inputs: [1, 2\nmodel: }{\n",
    "yaml_bomb": BOMB,
    "unknown_key": "inputs: {x: 1}\nmodle: exp(x)\nmodel: exp(x)\n",
    "wrong_type": "inputs: {x: one}\nmodel: exp(x)\norder: first\n",
    "duplicate_key": "inputs: {x: 1}\nmodel: exp(x)\nmodel: log(x)\n",
    "unknown_op": "inputs: {x: 1}\nmodel: epx(x)\n",
    "formula_syntax": "inputs: {x: 1}\nmodel: |\n  y = exp(x\n  y\n",
    "import": "inputs: {x: 1}\nmodel: __import__('os').system('true')\n",
    "attribute": "inputs: {x: [1, 2]}\nmodel: x.sum()\n",
    "shapes": "inputs:\n  x: [[1, 2, 3]]\n  W: [[1, 2]]\nmodel: sum(x @ W)\n",
    "integer_output": "inputs: {x: [1, 2]}\nmodel: x > 0\n",
    "several_mistakes": (
        "inputs:\n  x: {shape: [2], distribtion: normal}\nmodes: [backward]\nmodel: sum(lgo(x))\n"
    ),
}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_bad_spec(name: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(TEXTS[name], "utf-8")
    screen = call_here("run", "bad.yaml", "--engine", "reference", cwd=tmp_path)
    assert screen.code == 2
    assert_snapshot(screen, f"bad_{name}")


def test_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "layer.yaml").write_text("inputs: {x: 1}\nmodel: exp(x)\n", "utf-8")
    assert_snapshot(call_here("run", "lyaer.yaml", cwd=tmp_path), "bad_missing_file")


def test_a_file_of_50_mb_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "big.yaml").open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    assert_snapshot(call("run", "big.yaml", cwd=tmp_path, timeout=20), "bad_big_file")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"model: \xff\xfe\x00\n")
    screen = call_here("run", "bad.yaml", cwd=tmp_path)
    assert screen.code == 2
    assert "GC901" in screen.out
    assert "Traceback" not in screen.err


def test_a_folder_without_specs(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    assert_snapshot(call_here("run", "nothing", cwd=tmp_path), "no_specs")


def test_a_file_without_a_spec_in_a_machine_format(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    screen = call_here("run", "nothing", "--format", "json", cwd=tmp_path)
    assert screen.code == 5
    assert '"specs": 0' in screen.out


def test_an_engine_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("inputs: {x: 1}\nmodel: exp(x)\n", "utf-8")
    assert_snapshot(
        call_here("run", "a.yaml", "--engine", "tensorflwo", cwd=tmp_path), "engine_unknown"
    )


def test_the_good_spec_beside_a_bad_one_is_run(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(TEXTS["unknown_op"], "utf-8")
    (tmp_path / "good.yaml").write_text("inputs: {x: 2}\nmodel: x ** 2\n", "utf-8")
    screen = call_here("run", ".", "--engine", "reference", "--dtype", "float64", cwd=tmp_path)
    assert_snapshot(screen, "bad_beside_good")
