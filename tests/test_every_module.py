"""Every module with logic has a test file of the same name, at the same place of the tree."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
BRANCHES = (
    *(ast.If, ast.IfExp, ast.BoolOp, ast.Match),
    *(ast.For, ast.While, ast.comprehension),
    ast.Try,
)
LOGIC = 20
"""Branches and loops from which on a module has logic: below, it is data, a type, or a call."""

TABLES = (
    *("engines/*/ops.py", "engines/*/shapes.py", "engines/*/matrices.py", "engines/*/networks.py"),
    *("engines/*/kernels.py", "engines/*/kernels/*.py"),
    *("explain/rewrites/*.py", "ops/*.py"),
)
"""What is a table: tests over all its rows try each of them, on examples of its own."""

OF_LAYERS = (
    *("bounds", "casts", "custom_functions", "detached", "framework", "declared", "keras", "layer"),
    *("layer_recorder", "lines", "modes", "pair", "recording", "state", "variables", "walk"),
    "wide",
)
"""What a framework's layers are made of, in `engines/`: the tests of layers in tests/checks and
tests/engines/*/test_layer.py try it through whole layers of the framework."""


def logic_of(module: Path) -> int:
    """How many branches and loops a module has."""
    tree = ast.parse(module.read_text("utf-8"))
    return sum(isinstance(node, BRANCHES) for node in ast.walk(tree))


def file_of_tests(module: Path) -> Path:
    """Where the tests of a module belong."""
    package, *parts = module.relative_to(ROOT).parent.parts
    place = () if package == "gradcheck_cli" else (package,)
    return ROOT.joinpath("tests", *place, *parts, f"test_{module.stem.strip('_')}.py")


def without_tests() -> list[str]:
    """The modules with logic that have no test file of their name."""
    modules = [
        module
        for package in ("gradcheck_cli", "reference_engine")
        for module in sorted((ROOT / package).rglob("*.py"))
    ]
    return [
        module.relative_to(ROOT).as_posix()
        for module in modules
        if not any(module.match(pattern) for pattern in TABLES)
        and not (module.stem in OF_LAYERS and module.match("engines/*/*.py"))
        and not file_of_tests(module).exists()
        and logic_of(module) >= LOGIC
    ]


def test_every_module_with_logic_has_a_file_of_tests_its_name() -> None:
    assert without_tests() == []


def test_a_module_has_its_tests_at_the_same_place() -> None:
    assert (
        file_of_tests(ROOT / "gradcheck_cli/run/workers/pool.py")
        == ROOT / "tests/run/workers/test_pool.py"
    )
    of_the_library = file_of_tests(ROOT / "reference_engine/tape.py")
    assert of_the_library == ROOT / "tests/reference_engine/test_tape.py"
    assert of_the_library.exists()
