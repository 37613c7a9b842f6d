from __future__ import annotations

import pytest

from .writing import helps, mistakes, ops, output, program


def test_a_loop_is_unrolled_with_its_variable_as_a_constant() -> None:
    built = program("t = 0\nfor i in range(3):\n    t = t + x[i, 0] * i\nt")
    indices = [node.keywords["index"] for node in built.nodes if node.op == "getitem"]
    assert indices == [(0, 0), (1, 0), (2, 0)]
    assert [n.value for n in built.nodes if n.text == "i"] == [0, 1, 2]


def test_bounds_are_constants_and_their_arithmetic() -> None:
    text = "t = s\nfor i in range(k - 1, 0, -2):\n    t = t * t\nt"
    assert ops(text, k=6).count("multiply") == 3


def test_loops_stand_in_loops_and_use_each_others_variables() -> None:
    text = "t = s\nfor i in range(3):\n    for j in range(i):\n        t = t + x[i, j % 2]\nt"
    assert ops(text).count("getitem") == 3


def test_an_augmented_assignment_is_an_assignment() -> None:
    node = output("y = s\ny *= 2\ny += 1")
    assert (node.op, node.name) == ("add", "y")


def test_a_value_keeps_its_first_name() -> None:
    built = program("a = sin(s)\nb = a\nb")
    assert built.result.name == "a"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("for i in x:\n    y = i\ns", "GC904 1:10-11 a loop runs over range(...) only"),
        ("for i in range(s):\n    y = i\ns", "GC904 1:16-17 the bounds of a loop must be known"),
        ("for i in range(2.5):\n    y = i\ns", "GC904 1:16-19 2.5 is not a whole number"),
        ("for i in range(0, 5, 0):\n    y = i\ns", "GC904 1:22-23 the step of a range cannot be 0"),
        ("for i in range():\n    y = i\ns", "GC904 1:10-17 range takes one to three whole numbers"),
        ("for i, j in range(3):\n    y = 1\ns", "GC904 1:5-9 a loop has one variable"),
        ("a = b = s\na", "GC904 1:1-10 one assignment has one name"),
        ("a, x[0] = s, s\na", "GC904 1:4-8 entries cannot be assigned to"),
        ("a, b = s, s, s\na", "GC906 1:1-15 3 values cannot be given to 2 names"),
        ("a, b = s\na", "GC906 1:1-9 this is one value, and one name is enough"),
        ("x[0] = s\nx", "GC904 1:1-5 entries cannot be assigned to"),
        ("y: float = s\ns", "GC904 1:1-13 annotations are not part of the formula language"),
        ("while s > 0:\n    s = s - 1\ns", "GC904 1:1-13 `while` is not part"),
        ("if s > 0:\n    y = s\ns", "GC904 1:1-10 `if` is not part of the formula language"),
        ("import numpy as np\ns", "GC904 1:1-19 nothing can be imported"),
        ("from os import path\ns", "GC904 1:1-20 nothing can be imported"),
        ("return s", "GC904 1:1-9 `return` belongs in a function"),
        ("class A:\n    y = 1\ns", "GC904 1:1-9 classes are not part of the formula language"),
        ("del s\ns", "GC904 1:1-6 `del` is not part of the formula language"),
    ],
)
def test_statements_outside_the_language(text: str, told: str) -> None:
    (found,) = mistakes(text)
    assert found.startswith(told)


def test_an_if_says_what_to_write() -> None:
    assert helps("if s > 0:\n    y = s\ns") == ["write where(condition, a, b)"]


def test_a_mistake_in_a_loop_is_told_once() -> None:
    assert mistakes("t = s\nfor i in range(9):\n    t = t + x[i, 0]\nt") == [
        "GC906 3:13-20 x[i, 0]: (3, 2): the index 3 is outside axis 0, which has size 3"
    ]


def test_a_mistake_ends_a_loop_and_what_it_would_have_made_is_not_blamed() -> None:
    text = """
    t = stack([s])
    for i in range(10**30):
        t = concatenate([t, stack([unknown])])
    reshape(t, (7,))
    """
    assert mistakes(text) == ["GC905 4:32-39 unknown name `unknown`"]


def test_the_body_of_a_loop_with_wrong_bounds_is_looked_at() -> None:
    assert mistakes("for i in range(zz):\n    y = sun(s)\ns") == [
        "GC905 1:16-18 unknown name `zz`",
        "GC905 2:9-12 unknown operation `sun`",
    ]


def test_several_names_for_several_values() -> None:
    assert ops("a, b = s * 2, sin(s)\na + b")[-1] == "add"
    assert output("[a, b] = [s, 3]\nb * a").op == "multiply"
    assert output("a, b = v, s\na, b = b, a\nb").shape == (2,)


def test_every_name_of_several_is_that_of_its_value() -> None:
    built = program("w, u = eigh(x @ transpose(x))\nsum(w) + sum(u)")
    assert {node.name: node.op for node in built.nodes if node.name in ("w", "u")} == {
        "w": "eigvalsh",
        "u": "eigh_vectors",
    }


def test_values_that_nobody_uses_are_not_computed() -> None:
    assert "eigh_vectors" not in ops("w, u = eigh(x @ transpose(x))\nsum(w)")


@pytest.mark.parametrize(
    ("text", "told", "help"),
    [
        (
            "a, b, c = eigh(x @ transpose(x))\na",
            "GC906 1:1-33 2 values cannot be given to 3 names",
            "eigh gives eigenvalues, eigenvectors",
        ),
        ("a, b = split(x, 3)\na", "GC906 1:1-19 3 values cannot be given to 2 names", ""),
        ("a, b = sum(x), 1, 2\na", "GC906 1:1-20 3 values cannot be given to 2 names", ""),
        (
            "a = topk(v, 1)\na",
            "GC904 2:1-2 a formula has one output, but this is a list",
            "combine the values: a + b, or stack([a, b])",
        ),
        ("a, (b, c) = s, v\na", "GC904 1:4-10 only a name can be assigned to", ""),
    ],
)
def test_names_and_values_that_do_not_match(text: str, told: str, help: str) -> None:
    assert mistakes(text)[0] == told
    assert help in helps(text)[0]
