from pathlib import Path

import pytest

from .calling import assert_snapshot, call, call_here

SPEC = "name: sigmoid\ninputs: {x: -100}\nmodel: 1 / (1 + exp(-x))\n"
LAYER = """
name: twice
inputs: {x: [0.5, 2.0]}
implementations:
  torch: {target: 'torch:sinh'}
  jax: {target: 'jax.numpy:sinh'}
"""


def test_a_tree_with_the_numbers_of_a_run(tmp_path: Path) -> None:
    screen = call_here("graph", "-", "--values", "--dtype", "float32", cwd=tmp_path, stdin=SPEC)
    assert_snapshot(screen, "graph_values")


@pytest.mark.parametrize(
    ("written", "start"), [("dot", "digraph "), ("mermaid", "flowchart TD"), ("svg", "<svg ")]
)
def test_formats(written: str, start: str, tmp_path: Path) -> None:
    screen = call_here("graph", "-", "--format", written, cwd=tmp_path, stdin=SPEC)
    assert (screen.code, screen.out.startswith(start)) == (0, True)
    asked = ("graph", "-", "--format", written, "--output", "g.txt")
    screen = call_here(*asked, cwd=tmp_path, stdin=SPEC)
    assert (screen.code, screen.out.startswith("sigmoid\n")) == (0, True)
    assert (tmp_path / "g.txt").read_text("utf-8").startswith(start)


def test_a_file_alone_is_a_picture_and_no_input_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SPEC, "utf-8")
    assert call_here("graph", "s.yaml", "--output", "g.svg", cwd=tmp_path).code == 0
    assert (tmp_path / "g.svg").read_text("utf-8").startswith("<svg ")
    refused = call_here("graph", "s.yaml", "--output", "s.yaml", cwd=tmp_path)
    assert (refused.code, "is an input" in refused.err) == (2, True)
    assert (tmp_path / "s.yaml").read_text("utf-8") == SPEC
    code = tmp_path / "layers.py"
    code.write_text("import torch\n\ndef f(x):\n    return torch.sinh(x)\n", "utf-8")
    asked = ("graph", "layers.py:f", "--engine", "torch", "--input", "x=2")
    refused = call_here(*asked, "--output", "layers.py", cwd=tmp_path)
    assert (refused.code, "is an input" in refused.err) == (2, True)
    assert "torch.sinh" in code.read_text("utf-8")


def test_layers_are_lifted_and_one_can_be_chosen(tmp_path: Path) -> None:
    both = call_here("graph", "-", cwd=tmp_path, stdin=LAYER)
    assert (both.code, both.out.count("└─ x")) == (0, 2)
    assert "twice_jax" in both.out
    svg = call_here("graph", "-", "--format", "svg", cwd=tmp_path, stdin=LAYER)
    assert (svg.code, "2 graphs" in svg.err) == (2, True)
    one = call_here("graph", "-", "--engine", "torch", cwd=tmp_path, stdin=LAYER)
    assert (one.code, one.out.startswith("twice\n")) == (0, True)


def test_a_layer_that_is_named_with_its_inputs(tmp_path: Path) -> None:
    asked = ("graph", "torch:sinh", "--engine", "torch", "--input", "x=2", "--values")
    screen = call_here(*asked, cwd=tmp_path)
    assert (screen.code, "└─ x" in screen.out) == (0, True)


def test_a_mistake_in_the_spec_is_shown(tmp_path: Path) -> None:
    screen = call("graph", "-", cwd=tmp_path, stdin=SPEC.replace("exp(", "exq("))
    assert (screen.code, screen.out) == (2, "")
    assert "exq" in screen.err
