from pathlib import Path

from .calling import assert_snapshot, call_here

GOOD = "name: first\ninputs: {x: 2}\nmodel: x ** 2\n---\nname: second\ninputs: {x: 1}\nmodel: x\n"
BAD = "inputs: {x: 1}\nmodel: epx(x)\nordre: 2\n"


def test_specs_in_order(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD, "utf-8")
    assert_snapshot(call_here("validate", "good.yaml", cwd=tmp_path), "validate_good")


def test_every_mistake_of_every_file(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BAD, "utf-8")
    (tmp_path / "good.yaml").write_text(GOOD, "utf-8")
    screen = call_here("validate", "bad.yaml", "good.yaml", "gone.yaml", cwd=tmp_path)
    assert_snapshot(screen, "validate_bad")


def test_nothing_to_validate(tmp_path: Path) -> None:
    assert call_here("validate", ".", cwd=tmp_path).code == 5
    assert call_here("validate", cwd=tmp_path).code == 5
