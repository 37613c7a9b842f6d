from __future__ import annotations

import ast
import re

from gradcheck_cli.formula import hints
from reference_engine.op import find

from .writing import helps, program

# Hints with a formula in them; the rest are sentences.
FORMULAS = {name: text[6:] for name, text in hints.INSTEAD.items() if text.startswith("write ")}
NAMES = {"a": "v", "b": "v", "x": "v", "condition": "mask[0]"}


def test_what_a_hint_says_to_write_is_valid() -> None:
    for name, text in FORMULAS.items():
        formula = re.sub(r"\b(a|b|x|condition)\b", lambda m: NAMES[m[0]], text)
        if name == "hstack":  # joins columns: of matrices
            formula = formula.replace("v", "x")
        if name == "getitem":
            formula = "x[0, 1:3]"
        assert program(f"sum({formula} * s)"), name


def test_hints_are_for_names_that_are_not_operations() -> None:
    named = [name for name in hints.INSTEAD if find(name) is not None and name != "getitem"]
    assert named == []


def test_every_statement_and_expression_of_python_is_known_or_named() -> None:
    known = {ast.Assign, ast.AugAssign, ast.For, ast.FunctionDef, ast.Expr}
    kinds = [k for k in vars(ast).values() if isinstance(k, type) and issubclass(k, ast.stmt)]
    rare = {"AsyncFor", "AsyncFunctionDef", "AsyncWith", "Match", "TryStar", "TypeAlias", "stmt"}
    unnamed = {k.__name__ for k in kinds if k not in known and k not in hints.NOT_HERE}
    assert unnamed <= rare


def test_methods_keep_their_arguments() -> None:
    assert helps("v.reshape((1, 2))") == ["write reshape(v, (1, 2))"]
