"""A place in code is lines of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.specfile.stretches import NoStretch, Stretch, is_file, stretch

CODE = '''\
import torch


class Layer:
    """A layer."""

    @staticmethod
    def forward(x):
        with torch.no_grad():
            w = x.exp()
            w = w * 2
        return (
            x
            * w.detach()
        )


def outer():
    def inner():
        return 1
    return inner
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "layers.py").write_text(CODE)
    (tmp_path / "broken.py").write_text("def")
    return tmp_path


@pytest.mark.parametrize(
    ("place", "first", "last"),
    [
        ("9", 9, 11),  # a block by its first line
        ("10", 10, 10),  # a statement inside of it
        ("14", 12, 15),  # a statement of several lines
        ("7", 7, 15),  # a decorator
        ("6", 6, 6),  # between statements
        ("Layer", 4, 15),
        ("Layer.forward", 7, 15),
        ("outer.inner", 19, 20),
    ],
)
def test_lines(folder: Path, place: str, first: int, last: int) -> None:
    found = stretch(f"layers.py:{place}", str(folder))
    assert found == Stretch(str((folder / "layers.py").resolve()), first, last)
    assert found.has(str(folder / "layers.py"), first)
    assert not found.has(str(folder / "layers.py"), last + 1)
    assert not found.has(str(folder / "broken.py"), first)


@pytest.mark.parametrize(
    ("target", "message", "help"),
    [
        ("layers.py", "does not say where", "path.py:LINE"),
        ("layers.py:", "does not say where", "path.py:LINE"),
        ("none.py:3", "there is no file none.py", "relative to the spec"),
        ("broken.py:1", "is not valid Python", ""),
        ("layers.py:300", "there is no statement at", ""),
        ("layers.py:Layer.forwrd", "no function or class", "did you mean `Layer.forward`?"),
        ("no.such.module:f", "there is no module", ""),
        ("math:sin", "there is no module `math` in Python", ""),
    ],
)
def test_what_is_not_there(folder: Path, target: str, message: str, help: str) -> None:
    with pytest.raises(NoStretch, match=message) as raised:
        stretch(target, str(folder))
    assert help in raised.value.help


def test_modules() -> None:
    assert not is_file("textwrap:dedent")
    found = stretch("textwrap:dedent", "")
    assert Path(found.path).name == "textwrap.py"
    assert found.last > found.first
