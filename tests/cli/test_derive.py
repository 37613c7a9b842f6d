from pathlib import Path

from .calling import assert_snapshot, call, call_here

SIGMOID = "name: sigmoid\ninputs: {x: 2}\nmodel: 1 / (1 + exp(-x))\n"
SORTED = "name: sorted\ninputs:\n  x: [3, 1, 2]\nmodel: sum(sort(x) ** 2)\n"


def test_steps_as_text(tmp_path: Path) -> None:
    assert_snapshot(
        call_here("derive", "-", "--steps", cwd=tmp_path, stdin=SIGMOID), "derive_steps"
    )


def test_as_latex_and_as_python(tmp_path: Path) -> None:
    latex = call_here("derive", "-", "--format", "latex", cwd=tmp_path, stdin=SIGMOID)
    assert latex.code == 0
    assert r"\frac{\mathrm{d}y}{\mathrm{d}x} &= \frac{e^{x}}{\left(e^{x} + 1" in latex.out
    python = call_here("derive", "-", "--format", "python", cwd=tmp_path, stdin=SIGMOID)
    names: dict = {}
    exec(python.out, names)
    assert abs(names["gradient"](2.0)["x"] - 0.10499358540350652) < 1e-16


def test_a_custom_gradient_is_left_aside(tmp_path: Path) -> None:
    """What a user states may be wrong: that is what `gradcheck run` finds out."""
    spec = """
name: cubes
inputs: {x: 2.0}
model: |
  def cube_vjp(u, x):
      return 2 * x ** 2 * u

  @custom_gradient(cube_vjp)
  def cube(x):
      return x ** 3

  cube(x)
"""
    derived = call_here("derive", "-", cwd=tmp_path, stdin=spec)
    assert (derived.code, "dy/dx = 3*x**2" in derived.out) == (0, True)
    assert derived.err == (
        "note: cubes: derivatives are those of `cube` itself, not of its custom gradient\n"
    )


def test_what_has_no_formula_is_pointed_at(tmp_path: Path) -> None:
    (tmp_path / "sorted.yaml").write_text(SORTED)
    assert_snapshot(call("derive", "sorted.yaml", cwd=tmp_path), "derive_refused")


def test_a_difference_that_was_named_is_shown_with_its_error(tmp_path: Path) -> None:
    asked = ("--engine", "finite-difference", "--mode", "forward", "--dtype", "float32")
    scheme = ("--difference-scheme", "forward", "--difference-step", "0.01")
    screen = call_here("run", "-", *asked, *scheme, cwd=tmp_path, stdin=SIGMOID)
    assert screen.code == 0
    assert "forward difference, h = 0.01: off by" in screen.out
    assert "--difference-scheme forward --difference-step 0.01 --seed 0" in " ".join(
        screen.out.split()
    )
