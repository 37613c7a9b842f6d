from pathlib import Path

from .calling import assert_snapshot, call

SIGMOID = "name: sigmoid\ninputs: {x: 2}\nmodel: 1 / (1 + exp(-x))\n"
SORTED = "name: sorted\ninputs:\n  x: [3, 1, 2]\nmodel: sum(sort(x) ** 2)\n"


def test_steps_as_text(tmp_path: Path) -> None:
    assert_snapshot(call("derive", "-", "--steps", cwd=tmp_path, stdin=SIGMOID), "derive_steps")


def test_as_latex_and_as_python(tmp_path: Path) -> None:
    latex = call("derive", "-", "--format", "latex", cwd=tmp_path, stdin=SIGMOID)
    assert latex.code == 0
    assert r"\frac{\partial y}{\partial x} &= \frac{1}{4 \cosh^{2}" in latex.out
    python = call("derive", "-", "--format", "python", cwd=tmp_path, stdin=SIGMOID)
    names: dict = {}
    exec(python.out, names)
    assert abs(names["gradient"](2.0)["x"] - 0.10499358540350652) < 1e-16


def test_what_has_no_formula_is_pointed_at(tmp_path: Path) -> None:
    (tmp_path / "sorted.yaml").write_text(SORTED)
    assert_snapshot(call("derive", "sorted.yaml", cwd=tmp_path), "derive_refused")
