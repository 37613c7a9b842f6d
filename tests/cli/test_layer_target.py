"""A layer of the command line becomes a spec, and its engine follows from its imports."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gradcheck_cli.cli.layer_target import LayerTarget, spec_of, written_in
from gradcheck_cli.domain.errors import UsageError

LAYER = LayerTarget(
    "layers.py:Outer.Net",
    ("x=2x3", "w=3", "a=[0.5, 1]", "b=2.0", "c={shape: [2], distribution: uniform}"),
    ("3", "relu"),
    ("bias=false", "axes=[0, 1]"),
)


def test_the_spec_has_all_that_was_typed() -> None:
    text = spec_of(LAYER, ["jax", "jax-jit"], {"dtypes": ["float32"], "order": 2})
    form = {
        "target": "layers.py:Outer.Net",
        "args": [3, "relu"],
        "kwargs": {"bias": False, "axes": [0, 1]},
    }
    assert YAML(typ="safe").load(text) == {
        "name": "Outer.Net",
        "inputs": {
            "x": {"shape": [2, 3], "distribution": "normal"},
            "w": {"shape": [3], "distribution": "normal"},
            "a": [0.5, 1],
            "b": 2.0,
            "c": {"shape": [2], "distribution": "uniform"},
        },
        "implementations": {"jax": form, "jax-jit": form},
        "dtypes": ["float32"],
        "order": 2,
    }


def test_a_file_is_written_relative_to_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layers.py").touch()
    loaded = YAML(typ="safe").load(spec_of(LAYER, ["torch"], folder="specs/deep"))
    assert loaded["implementations"]["torch"]["target"] == "../../layers.py:Outer.Net"
    module = LayerTarget("torch.nn:Tanh", ("x=3",))
    loaded = YAML(typ="safe").load(spec_of(module, ["torch"], folder="specs"))
    assert loaded["implementations"]["torch"]["target"] == "torch.nn:Tanh"


FILES = {
    "one.py": "import os, torch\nimport two\n",
    "two.py": "from keras import layers\n",
    "three.py": "import one\nimport two\n",
    "four.py": "import two\n",
    "five.py": "import numpy as np\n",
    "six.py": "import os\n",
    "package/__init__.py": "import torch\n",
    "book.ipynb": '{"cells": []}',
    "notes.txt": "import torch\n",
    "unfinished.py": "import torch\ndef Net(x)\n",
    "both.py": """
import numpy as np
import torch
import two

EPS = np.finfo(float).eps

class Square:
    def forward(self, x):
        self.x = np.asarray(x)
        return self.x * self.x
    def backward(self, g):
        return 2 * self.x * g

def scale_forward(x): return np.multiply(x, 2 + EPS)
def scale_backward(g, cache): return np.multiply(g, 2)

def turned(x): return x * np.pi

class Inner(torch.autograd.Function):
    @staticmethod
    def backward(ctx, g): return np.negative(g)

class Outer:
    def forward(self, x): return Inner.apply(x) + np.ones(3)
    def backward(self, g): return g

class Elsewhere:
    def forward(self, x): return two.layer(np.ones(3))
    def backward(self, g): return g

class Late:
    def forward(self, x):
        import torch
        return np.asarray(torch.ones(3))
    def backward(self, g): return g
""",
}


@pytest.mark.parametrize(
    ("target", "engine"),
    [
        ("one.py:Net", "torch"),  # what the file itself imports is surer
        ("four.py:Net", "tensorflow"),
        ("four:Net", "tensorflow"),
        ("five.py", "numpy"),
        ("layer.hpp:layer<T>", "eigen"),
        ("torch.nn:Linear", "torch"),
        ("equinox.nn:Linear", "jax"),
        ("both.py:Square", "numpy"),  # what its own code names is surer still
        ("both:Square", "numpy"),
        ("both.py:scale", "numpy"),
        ("both.py:turned", "torch"),  # a constant of NumPy, and no backward
        ("both.py:Inner", "torch"),
        ("both.py:Outer", "torch"),  # by what it uses of the file
        ("both.py:Elsewhere", "torch"),
        ("both.py:Late", "torch"),
        ("three.py:Net", "imports tensorflow and torch"),
        ("six.py:Net", "imports no known framework"),
        ("os:getcwd", "imports no known framework"),
        ("nowhere:Net", "there is no module nowhere"),
        ("package.nowhere:Net", r"there is no module package\.nowhere"),
        ("book.ipynb:Net", "is a notebook: check its layers in it"),
        ("notes.txt:Net", "notes.txt is not a Python file"),
        ("unfinished.py:Net", "unfinished.py, line 2: "),
    ],
)
def test_the_imports_say_what_a_layer_is_written_in(
    target: str, engine: str, tmp_path: Path
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    if " " in engine:
        with pytest.raises(UsageError, match=engine):
            written_in(target, str(tmp_path))
    else:
        assert written_in(target, str(tmp_path)) == engine


def test_sizes_between_commas_are_neither_a_shape_nor_numbers() -> None:
    for text in ("4,3", "4, 3", "2,3,4"):
        sizes = text.replace(" ", "").split(",")
        layer = LayerTarget("layers.py:Net", (f"x={text}",))
        with pytest.raises(UsageError) as raised:
            spec_of(layer, ["torch"])
        assert f"x={'x'.join(sizes)}," in raised.value.help
        assert f"x=[{', '.join(sizes)}]" in raised.value.help
