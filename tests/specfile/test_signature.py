"""The inputs of a layer are read from its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.specfile.signature import input_names

CODE = """
raise SystemExit  # it is never run

def function(x, w, scale=2.0, *, flag=False): ...

class Function:
    @staticmethod
    def forward(ctx, x, w): ...

class Module:
    def __init__(self, width): ...
    def forward(self, x, mask=None): ...

class Keras:
    def call(self, inputs, training): ...

class Other: ...

class Outer:
    class Inner:
        def __call__(self, a, /, b): ...

number = 3
"""


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("function", ["x", "w"]),
        ("Function", ["x", "w"]),
        ("Module", ["x"]),
        ("Keras", ["inputs"]),
        ("Outer.Inner", ["a", "b"]),
        ("Other", []),
        ("number", []),
        ("gone", []),
    ],
)
def test_names_of_inputs(name: str, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(CODE)
    assert input_names(f"layers.py:{name}", str(tmp_path)) == names


def test_code_that_is_not_here_or_no_python_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "layer.hpp").write_text("template <class T> T f(T x) { return x; }\n")
    for target in ("broken.py:f", "layer.hpp:f<T>", "torch.nn:Linear", "gone.py:f"):
        assert input_names(target, str(tmp_path)) == []
