from pathlib import Path

from .calling import call, call_here

SIGMOID = "name: sigmoid\ninputs: {x: 2}\nmodel: 1 / (1 + exp(-x))\n"
LAYER = "name: layer\ninputs: {x: 2.0}\nimplementations: {torch: {target: 'torch:sin'}}\n"


def test_the_v_in_the_terminal_and_in_a_file(tmp_path: Path) -> None:
    screen = call_here("curve", "-", "--output", "v.svg", cwd=tmp_path, stdin=SIGMOID)
    assert screen.code == 0
    assert screen.out.startswith("sigmoid  float64\n")
    assert "best h = " in screen.out
    assert "</svg>" in (tmp_path / "v.svg").read_text("utf-8")
    narrow = call_here("curve", "-", "--dtype", "float32", cwd=tmp_path, stdin=SIGMOID)
    assert narrow.out.startswith("sigmoid  float32\n")


def test_the_v_as_a_picture_and_as_text(tmp_path: Path) -> None:
    picture = call_here("curve", "-", "--format", "svg", cwd=tmp_path, stdin=SIGMOID)
    assert (picture.code, picture.out.startswith("<svg ")) == (0, True)
    asked = ("curve", "-", "--format", "text", "--output", "v.txt")
    screen = call_here(*asked, cwd=tmp_path, stdin=SIGMOID)
    assert (tmp_path / "v.txt").read_text("utf-8") == screen.out


def test_a_layer_has_no_formula_to_differentiate(tmp_path: Path) -> None:
    screen = call("curve", "-", cwd=tmp_path, stdin=f"{SIGMOID}---\n{LAYER}")
    assert (screen.code, "sigmoid" in screen.out) == (2, True)
    assert "`layer` is about layers, and has no formula" in screen.err


def test_one_file_holds_one_picture(tmp_path: Path) -> None:
    two = f"{SIGMOID}---\n{SIGMOID.replace('sigmoid', 'again')}"
    for asked in (("--output", "v.svg"), ("--format", "svg")):
        screen = call_here("curve", "-", *asked, cwd=tmp_path, stdin=two)
        assert (screen.code, screen.out, "2 specs" in screen.err) == (2, "", True)
    assert not (tmp_path / "v.svg").exists()
