"""Tables of lowerings are collected from a package, read without a framework, and bound to one."""

from __future__ import annotations

import importlib
import types
from pathlib import Path

import pytest

from gradcheck_cli.engines.jax import ops as jax_ops
from gradcheck_cli.engines.kit.lowerings import Limited, Missing, bound, gathered, had, reasons
from gradcheck_cli.engines.tensorflow import ops as tensorflow_ops
from gradcheck_cli.engines.torch import ops as torch_ops
from reference_engine import ops


def package(folder: Path, name: str, **modules: str) -> list[str]:
    """A package on disk; the path of its modules."""
    (folder / name).mkdir()
    for module, rows in {"__init__": "", **modules}.items():
        (folder / name / f"{module}.py").write_text(rows)
    importlib.invalidate_caches()
    return [str(folder / name)]


def test_every_module_of_a_package_adds_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = package(
        tmp_path, "lowered", one='ROWS = {"exp": "exp"}', two='ROWS = {"log": "math.log"}'
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert gathered("lowered", path) == {"exp": "exp", "log": "math.log"}


def test_an_operation_that_is_lowered_twice_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = package(tmp_path, "twice", one='ROWS = {"exp": "exp"}', two='ROWS = {"exp": "math.exp"}')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="lowered twice: exp"):
        gathered("twice", path)


@pytest.mark.parametrize("lowered", [torch_ops, tensorflow_ops, jax_ops])
def test_no_file_of_lowerings_is_without_its_file_of_rows(lowered: types.ModuleType) -> None:
    stems = {path.stem for path in Path(lowered.__path__[0]).glob("*.py")}
    assert stems <= {path.stem for path in Path(ops.__path__[0]).glob("*.py")}


def test_a_limited_row_is_had_and_remarked_upon_and_a_missing_one_only_remarked_upon() -> None:
    table = {
        "exp": "exp",
        "lgamma": Limited("lgamma", "nine digits are right"),
        "airy": Missing("there is none"),
    }
    assert had(table) == {"exp", "lgamma"}
    assert reasons(table) == {"lgamma": "nine digits are right", "airy": "there is none"}


def test_a_name_is_looked_up_and_a_function_is_given_the_framework() -> None:
    framework = types.SimpleNamespace(math=types.SimpleNamespace(exp=lambda x: x + 1), two=2)
    table = {
        "exp": "math.exp",
        "twice": lambda framework, x: framework.two * x,
        "lgamma": Limited("math.exp", "nine digits are right"),
        "airy": Missing("there is none"),
    }
    calls = bound(table, framework)
    assert isinstance(calls["airy"], Missing)
    ready = {name: call for name, call in calls.items() if not isinstance(call, Missing)}
    assert {name: call(3) for name, call in ready.items()} == {"exp": 4, "twice": 6, "lgamma": 4}
