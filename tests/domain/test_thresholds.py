"""The numbers that flip a verdict stand in one file, each with its unit, reason and users."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gradcheck_cli.domain import thresholds

PACKAGE = Path(__file__).parents[2] / "gradcheck_cli"
HOME = Path(thresholds.__file__)
DECIDING = ("judge", "checks", "truth", "explain", "engines/trace", "engines/layer", "engines/kit")
KINDS = ("Step", "Enough", "Spread", "Residue", "Cost", "Seconds")
FIXED = {0.0, 1.0, -1.0, 2.0, 0.5}  # nothing, all, a base of powers, half of a step of rounding


@cache
def _files() -> list[tuple[str, ast.Module]]:
    return [
        (str(path.relative_to(PACKAGE)), ast.parse(path.read_text("utf-8")))
        for room in DECIDING
        for path in sorted((PACKAGE / room).rglob("*.py"))
    ]


def _has_a_fraction(node: ast.AST) -> bool:
    """Whether this is a number with a fraction: 0.25, 2.0**-8, 13 / 12, a tuple of them."""
    if isinstance(node, ast.Tuple):
        return any(map(_has_a_fraction, node.elts))
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div) or any(map(_has_a_fraction, (node.left, node.right)))
    if isinstance(node, ast.UnaryOp):
        return _has_a_fraction(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def _constants(tree: ast.Module) -> Iterator[tuple[str, str, ast.expr]]:
    """Name, annotation and value of what a module or a class binds."""
    bodies = [tree.body, *(n.body for n in ast.walk(tree) if isinstance(n, ast.ClassDef))]
    for statement in (statement for body in bodies for statement in body):
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            yield (
                ast.unparse(statement.target),
                ast.unparse(statement.annotation),
                statement.value,
            )
        elif isinstance(statement, ast.Assign):
            yield ast.unparse(statement.targets[0]), "", statement.value


def test_a_number_with_a_fraction_is_a_threshold_or_says_what_it_is() -> None:
    nameless = [
        f"{place}: {name} = {ast.unparse(value)}"
        for place, tree in _files()
        for name, kind, value in _constants(tree)
        if name.isupper() and _has_a_fraction(value)
        if kind.removeprefix("tuple[").removesuffix(", ...]") not in KINDS
    ]
    assert nameless == []


def test_no_comparison_has_a_number_of_its_own() -> None:
    own = [
        f"{place}:{compare.lineno}: {ast.unparse(compare)}"
        for place, tree in _files()
        for compare in ast.walk(tree)
        if isinstance(compare, ast.Compare)
        for node in ast.walk(compare)
        if isinstance(node, ast.Constant) and isinstance(node.value, float)
        if node.value not in FIXED
    ]
    assert own == []


@cache
def _thresholds() -> dict[str, str]:
    """Each with the text that stands below it."""
    body = ast.parse(HOME.read_text("utf-8")).body
    return {
        one.target.id: ast.get_docstring(ast.Module([below], []))  # type: ignore[arg-type]
        for one, below in itertools.pairwise(body)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        if ast.unparse(one.annotation) == "Final"
    }


@cache
def _users() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if thresholds.__name__ in text else ():
            if isinstance(node, ast.ImportFrom) and node.module == thresholds.__name__:
                for alias in node.names:
                    found.setdefault(alias.name, set()).add(path.relative_to(PACKAGE).parts[0])
    return found


@pytest.mark.parametrize("name", _thresholds())
def test_a_threshold_says_who_uses_it(name: str) -> None:
    users = ", ".join(sorted(_users().get(name, ())))
    assert _thresholds()[name].replace("\n", " ").endswith(f"Used by: {users}.")
