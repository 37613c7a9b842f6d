"""From a target to what the user wrote."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradcheck_cli.domain.implementation import Implementation, Setup
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.layer.loading import (
    NoSuchLayer,
    SetupFailed,
    constructed,
    load_layer,
    not_callable,
    on_the_path,
)
from gradcheck_cli.explain.remedies import remedy_of

LAYERS = """
class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return self.by * x

    def shifted(self, x, shift):
        return self.by * x + shift


def tripled():
    return Scale(3)


def doubled(x):
    return 2 * x
"""


def target(tmp_path: Path, name: str) -> Implementation:
    (tmp_path / "layers.py").write_text(LAYERS)
    return Implementation("numpy", f"layers.py:{name}", str(tmp_path), Span(1, 1, 1, 2))


def test_a_function_without_parameters_builds_the_layer(tmp_path: Path) -> None:
    assert load_layer(target(tmp_path, "tripled"))(5) == 15
    assert load_layer(target(tmp_path, "doubled"))(5) == 10


def test_what_is_not_there_is_named_with_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(NoSuchLayer, match=r"layers\.py has no `triple`$") as caught:
        load_layer(target(tmp_path, "triple"))
    assert caught.value.detail == "did you mean `tripled`? it has: Scale, doubled, tripled"
    with pytest.raises(NoSuchLayer, match=r"math has no `nope`$") as caught:
        load_layer(replace(target(tmp_path, ""), target="math:nope"))
    assert caught.value.detail.startswith("it has: acos, acosh, ")


def test_a_method_is_that_of_an_object(tmp_path: Path) -> None:
    layer = target(tmp_path, "scale.__call__")
    path = tmp_path / "layers.py"
    path.write_text(path.read_text() + "\n\nscale = Scale(4)\n")
    os.utime(path, ns=(0, 0))  # another time of change than that of what was imported before
    assert load_layer(layer)(5) == 20


def test_classes_and_their_methods_are_made_with_the_arguments(tmp_path: Path) -> None:
    for name, more in (("Scale", {}), ("Scale.__call__", {}), ("Scale.shifted", {"shift": 1})):
        layer = replace(target(tmp_path, name), args=(4,), kwargs=more)
        made, args, kwargs = constructed(load_layer(layer), layer)
        assert made(5, *args, **kwargs) == 20 + more.get("shift", 0)
    with pytest.raises(TypeError, match="missing 1 required") as caught:
        constructed(
            load_layer(target(tmp_path, "Scale.shifted")), target(tmp_path, "Scale.shifted")
        )
    assert "--arg" in remedy_of(caught.value)


def test_a_setup_runs_once_and_in_its_order_before_the_layer(tmp_path: Path) -> None:
    (tmp_path / "shim.py").write_text(
        "import os\nsteps = [os.environ['GRADCHECK_TRIED']]\n\n"
        "def again():\n    steps.append('called')\n"
    )
    (tmp_path / "late.py").write_text("import shim\nshim.steps.append('late')\n")
    (tmp_path / "needs.py").write_text("import shim\nsteps = list(shim.steps)\n")
    setup = Setup({"GRADCHECK_TRIED": "yes"}, ("shim", "late", "shim:again"))
    layer = replace(target(tmp_path, ""), target="needs.py:steps", setup=setup)
    assert load_layer(layer) == load_layer(layer) == ["yes", "late", "called"]
    assert "GRADCHECK_TRIED" not in os.environ
    with on_the_path(layer):  # where the layer runs
        assert os.environ["GRADCHECK_TRIED"] == "yes"


def test_a_setup_that_raises_is_named_with_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def install():\n    raise ValueError('no GPU')\n")
    layer = replace(target(tmp_path, "doubled"), setup=Setup({}, ("broken.py:install",)))
    words = "the setup failed: `broken.py:install` raised ValueError: no GPU"
    with pytest.raises(SetupFailed, match=words) as caught:
        load_layer(layer)
    assert "in install" in caught.value.detail
    assert "gradcheck_cli" not in caught.value.detail


def test_what_a_file_puts_on_the_path_is_there_whenever_its_layer_runs(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "only_on_the_path.py").write_text("TWO = 2")
    (tmp_path / "layers.py").write_text(
        "import sys\n"
        f"sys.path.append({str(tmp_path / 'own')!r})\n"
        "def doubled(x):\n"
        "    import only_on_the_path\n"
        "    del sys.modules['only_on_the_path']\n"
        "    return only_on_the_path.TWO * x\n"
    )
    implementation = Implementation("torch", "layers.py:doubled", str(tmp_path), Span(1, 1, 1, 1))
    before = list(sys.path)
    for _ in range(2):  # while the file is run, and when it is known already
        with surroundings(), on_the_path(implementation):
            assert load_layer(implementation)(3) == 6
        assert sys.path == before


def test_a_pair_of_functions_is_a_layer_of_numpy() -> None:
    pair = SimpleNamespace(forward=abs, backward=abs)
    implementation = Implementation("torch", "f.py:P", "", Span(1, 1, 1, 1))
    assert "engine `numpy`" in not_callable(pair, implementation).detail
