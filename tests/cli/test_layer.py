"""`gradcheck layer` checks a layer without a spec, and writes the spec that does the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .calling import Screen, call_here

LAYERS = """
import numpy as np

class Scale:
    def __init__(self, factor, shift=0.0):
        self.factor, self.shift = factor, shift

    def forward(self, x):
        return self.factor * x + self.shift

    def backward(self, y_bar, x):
        return self.factor * y_bar

class Wrong(Scale):
    def backward(self, y_bar, x):
        return 2 * self.factor * y_bar
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "layers.py").write_text(LAYERS)
    (tmp_path / "plain.py").write_text("def f(x):\n    return x * x\n")
    return tmp_path


def checked(folder: Path, *arguments: str) -> tuple[Screen, dict[str, Any]]:
    screen = call_here("layer", *arguments, "--format", "json", cwd=folder)
    (result,) = json.loads(screen.out)["results"]
    return screen, result


def test_a_layer_with_its_arguments(folder: Path) -> None:
    target = ("layers.py:Scale", "--input", "x=2x3", "--arg", "3.0", "--kwarg", "shift=1.5")
    screen, result = checked(folder, *target, "--dtype", "float32")
    assert (screen.code, result["spec"], result["status"]) == (0, "Scale", "passed")
    (check,) = result["checks"]
    assert (check["engine"], check["dtype"]) == ("numpy", "float32")


def test_the_command_that_repeats_a_finding_does(folder: Path) -> None:
    screen, result = checked(folder, "layers.py:Wrong", "--input", "x=3", "--arg", "0.5")
    assert screen.code == 1
    repeat = result["findings"][0]["repeat"]
    begin = "gradcheck layer layers.py:Wrong --input x=3 --arg 0.5 --engine numpy --dtype "
    assert repeat.startswith(begin)
    again, result = checked(folder, *repeat.split()[2:])
    assert again.code == 1
    assert repeat in [finding["repeat"] for finding in result["findings"]]


def test_the_saved_spec_does_the_same(folder: Path) -> None:
    target = ("layers.py:Wrong", "--input", "x=[1.0, 2.0]", "--arg", "0.5", "--mode", "reverse")
    _, result = checked(folder, *target, "--save", "specs/wrong.yaml")
    again = call_here("run", "specs/wrong.yaml", "--format", "json", cwd=folder)
    (saved,) = json.loads(again.out)["results"]
    codes = [(f["code"], f["index"], f["computed"]) for f in result["findings"]]
    assert codes
    assert codes == [(f["code"], f["index"], f["computed"]) for f in saved["findings"]]
    assert {f["location"]["path"] for f in saved["findings"]} <= {
        "specs/wrong.yaml",
        "specs/../layers.py",
        "layers.py",
    }
    refused = call_here("layer", *target, "--save", "specs/wrong.yaml", cwd=folder)
    assert (refused.code, refused.out) == (2, "")
    assert "already exists" in refused.err


def test_order_is_a_setting_of_the_spec(folder: Path) -> None:
    (folder / "module.py").write_text("import torch\n\ndef cube(x):\n    return x**3\n")
    _, result = checked(folder, "module:cube", "--input", "x=[2.0]", "--order", "2")
    assert not result["findings"]
    assert {check["engine"] for check in result["checks"]} == {"torch"}
    assert "hessian" in " ".join(check["mode"] for check in result["checks"]) or any(
        "over" in check["mode"] for check in result["checks"]
    )


def test_what_no_handler_is_meant_to_catch_has_its_line_too(folder: Path) -> None:
    text = "import numpy as np\nimport asyncio\n\ndef odd(x):\n    raise asyncio.CancelledError\n"
    (folder / "odd.py").write_text(text + "\ndef odd_backward(g, x):\n    return g\n")
    screen = call_here("layer", "odd.py:odd", "--input", "x=2", "--dtype", "float64", cwd=folder)
    assert screen.code == 1
    assert "--> odd.py:5:5" in screen.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("layers.py:Scale",), "needs an input"),
        (("layers.py:Scale", "--input", "x"), "has no value"),
        (("layers.py:Scale", "--input", "=3"), "has no name"),
        (("layers.py:Scale", "--input", "x=3", "--kwarg", "shift"), "has no value"),
        (("layers.py:Scale", "--input", "x=3", "--save", "notes.txt"), "is called *.yaml"),
        (("spec.yaml", "--input", "x=3"), "`gradcheck run spec.yaml`"),
        (("plain.py:f", "--input", "x=3"), "which one is it written in?"),
        (("gone.py:Scale", "--input", "x=3"), "there is no file gone.py"),
        (("gone.py:Scale", "--input", "x=3", "--engine", "numpy"), "there is no file gone.py"),
        (("layers.py:Scale", "--input", "x={"), "--input 'x={': not valid YAML"),
        (("layers.py:Scale", "--input", "x=0.5, 1"), "is more than one value"),
        (("layers.py:Scale", "--input", "x=3", "--kwarg", "a=1, b: 2"), "is more than one value"),
        (("layers.py:Scale", "--input", "x=3", "--arg", "["), "--arg '[': not valid YAML"),
        (("layers.py:Scale", "--input", "x=abc"), "--> command line\n    |\n    | abc\n    | ^^^ "),
    ],
)
def test_what_is_not_in_order_is_said(arguments: tuple[str, ...], words: str, folder: Path) -> None:
    screen = call_here("layer", *arguments, cwd=folder)
    assert screen.code == 2
    assert words in screen.out + screen.err


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("layers.py:Scales", "did you mean `Scale`? it has: Scale, Wrong"),
        ("layers.py", "it has: Scale, Wrong"),
        ("no_such_module.sub:Scale", "there is no module `no_such_module`"),
        ("nothing.py:Scale", "there is no file nothing.py"),
        ("numpy.fft.fft", "did you mean `numpy.fft:fft`?"),
    ],
)
def test_a_target_that_is_not_there_is_a_mistake_of_the_call(
    folder: Path, target: str, words: str
) -> None:
    screen = call_here("layer", target, "--input", "x=3", "--engine", "numpy", cwd=folder)
    assert screen.code == 2
    assert words in screen.out + screen.err


@pytest.mark.parametrize("target", ["", ":", "layers.py:", "layers.py::Scale", "layers:", "."])
def test_what_is_no_target_is_said_of_the_target(target: str, folder: Path) -> None:
    screen = call_here("layer", target, "--input", "x=2", "--engine", "numpy", cwd=folder)
    assert screen.code == 2
    assert "key   implementations.numpy.target" in screen.out + screen.err
    assert "`name`" not in screen.out + screen.err


def test_an_argument_that_has_no_value_is_a_mistake_of_the_call(folder: Path) -> None:
    more = LAYERS.replace("forward(self, x)", "forward(self, x, bias)")
    (folder / "layers.py").write_text(more)
    screen = call_here("layer", "layers.py:Scale", "--input", "x=3", "--arg", "2.0", cwd=folder)
    assert screen.code == 2
    assert "the layer takes `bias`, which has no value" in screen.out


def test_a_module_that_raises_while_it_is_imported_is_an_error_of_the_layer(folder: Path) -> None:
    (folder / "broken.py").write_text("import no_such_module\n")
    screen = call_here("layer", "broken.py:f", "--input", "x=3", "--engine", "numpy", cwd=folder)
    assert screen.code == 1
    assert "GC701" in screen.out
