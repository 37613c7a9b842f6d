"""The code of a layer without the rest of its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.domain.implementation import Implementation, Setup
from gradcheck_cli.domain.place import Span
from gradcheck_cli.report.repro.layer_code import LayerCode, NoScript, layer_code

FILE = """
import math
import torch
from .beside import helper

SCALE = 2.0

def scaled(x):
    return SCALE * x

def layer(x, n, y):
    return math.pi * scaled(x) + y

def other(x):
    return helper(x)

class Net(torch.nn.Module):
    def __init__(self, size, bias=True):
        super().__init__()

    def forward(self, x):
        return x

class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

class Base(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

class Derived(Base):
    @staticmethod
    def backward(ctx, g):
        return g, g

def factory():
    return scaled

@torch.library.custom_op("mine::told", mutates_args=())
def told(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

def optional(x, y=2, z=3, *, w=4):
    return x * y * z * w

@told.register_fake
def shape_of_told(x):
    return rule(x)

def rule(ctx, g):
    return g

told.register_autograd(rule)
"""


def code(tmp_path: Path, name: str, inputs: list[str], **changes: Any) -> LayerCode:
    (tmp_path / "layers.py").write_text(FILE)
    made = Implementation("torch", f"layers.py:{name}", str(tmp_path), Span(1, 1, 1, 2), **changes)
    return layer_code(made, "torch", "float32", inputs, 7)


def test_a_script_has_what_the_layer_needs_and_no_more(tmp_path: Path) -> None:
    found = code(tmp_path, "layer", ["x", "y"], args=(3,))
    for part in ("import math", "SCALE = 2.0", "def scaled(x):", "def layer(x, n, y):"):
        assert part in found.source
    for part in ("helper", "Net", "manual_seed"):
        assert part not in found.source
    assert found.call == "layer(inputs['x'], 3, inputs['y'])"
    assert found.made == ""


def test_inputs_have_the_places_of_their_parameters(tmp_path: Path) -> None:
    """What `tf.custom_gradient` is given by name has no custom gradient."""
    assert code(tmp_path, "optional", ["x", "z"]).call == "optional(inputs['x'], z=inputs['z'])"
    assert code(tmp_path, "optional", ["x", "y"]).call == "optional(inputs['x'], inputs['y'])"
    given = code(tmp_path, "optional", ["x", "w"], kwargs={"y": 1, "z": 2})
    assert given.call == "optional(inputs['x'], 1, 2, w=inputs['w'])"


def test_a_function_is_told_its_rule(tmp_path: Path) -> None:
    source = code(tmp_path, "told", ["x"]).source
    for part in ("def told(x", "def shape_of_told(x)", "told.register_autograd(rule)", "def rule"):
        assert part in source
    assert "class" not in source


def test_what_needs_another_file_is_imported(tmp_path: Path) -> None:
    found = code(tmp_path, "other", ["x"])
    assert "needs that file" in found.source
    assert f"sys.path.insert(0, {str(tmp_path)!r})\nfrom layers import other" in found.source


@pytest.mark.parametrize(
    ("name", "changes", "made", "call"),
    [
        (
            "Net",
            {"args": (4,), "kwargs": {"bias": False}},
            "torch.manual_seed(7)\nlayer = Net(4, bias=False).to(torch.float32)",
            "layer(inputs['x'])",
        ),
        ("Custom", {}, "layer = Custom.apply", "layer(inputs['x'])"),
        ("Derived", {}, "layer = Derived.apply", "layer(inputs['x'])"),
        ("factory", {}, "layer = factory()", "layer(inputs['x'])"),
    ],
)
def test_classes_and_factories_make_the_layer(
    tmp_path: Path, name: str, changes: Mapping[str, Any], made: str, call: str
) -> None:
    found = code(tmp_path, name, ["x"], **changes)
    assert (found.made, found.call) == (made, call)


@pytest.mark.parametrize(
    ("name", "inputs", "changes", "why"),
    [
        ("missing", ["x"], {}, "does not define missing"),
        ("layer", ["state[0]"], {}, "of one file"),
        ("layer", ["x"], {"setup": Setup(imports=("a.py",))}, "a setup"),
    ],
)
def test_layers_that_no_script_can_have(
    tmp_path: Path, name: str, inputs: list[str], changes: Mapping[str, Any], why: str
) -> None:
    with pytest.raises(NoScript, match=why):
        code(tmp_path, name, inputs, **changes)
