"""The computation graph as text: a tree, DOT, Mermaid."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.report.graph import graph_dot, graph_lines, graph_mermaid, summary
from gradcheck_cli.report.style import Style

HERE = Span(1, 1, 1, 2)
PROGRAM = Program(
    nodes=(
        Node(INPUT, (), {}, HERE, "x", name="x"),
        Node("exp", (0,), {}, HERE, "exp(x)"),
        Node(CONSTANT, (), {}, HERE, "1", value=1),
        Node("add", (1, 2), {}, HERE, "exp(x) + 1", name='odd "name\x1b'),
        Node("divide", (1, 3), {}, HERE, "exp(x) / y"),
        Node("sin", (0,), {}, HERE, "sin(x)"),  # which nothing uses
    ),
    inputs={"x": 0},
    outputs=(4,),
    text="",
)
NUMBERS = Graph(
    PROGRAM,
    engine="torch",
    dtype="float32",
    mode="reverse",
    values={0: np.array(100.0), 1: np.array(np.inf), 3: np.array(np.inf), 4: np.array(np.nan)},
    derivatives={0: np.array(np.nan), 1: np.array(0.0), 4: np.array(1.0)},
)


def _screen(graph: Graph, width: int = 100, unicode: bool = True) -> list[str]:
    return [line.plain for line in graph_lines("f", graph, Style(width, unicode=unicode))]


def test_a_tree_writes_what_is_shared_once() -> None:
    assert _screen(Graph(PROGRAM)) == [
        "f",
        "",
        "  operation              formula",
        "  /                      exp(x) / y",
        "  ├─ exp  #1             exp(x)",
        "  │  └─ x",
        '  └─ odd "name\\x1b = +   exp(x) + 1',
        "     ├─ #1 again",
        "     └─ 1",
    ]


def test_numbers_stand_in_columns_of_which_the_last_go_where_there_is_no_room() -> None:
    wide = _screen(NUMBERS)
    assert wide[0] == "f  float32  cotangents of the output"
    assert wide[2].split() == ["operation", "value", "cotangent", "formula"]
    assert wide[3].split() == ["/", "nan", "1", "exp(x)", "/", "y"]
    narrow = _screen(NUMBERS, width=46)
    assert narrow[3].split() == ["/", "nan", "1"]
    assert max(map(len, narrow[2:])) <= 46


def test_a_terminal_without_lines() -> None:
    assert all(line.isascii() for line in _screen(Graph(PROGRAM), unicode=False))


def test_dot_has_every_edge_and_quotes_what_users_wrote() -> None:
    text = graph_dot('a "b" \\', NUMBERS)
    assert text.startswith('digraph "a \\"b\\" \\\\" {\n')
    assert '  n1 -> n4 [label="inf\\n0"];\n' in text
    assert 'label="odd \\"name\\\\x1b = +"' in text
    assert text.count("->") == 5
    assert "n5" not in text


def test_mermaid_has_every_edge_and_no_sign_of_its_own_in_names() -> None:
    text = graph_mermaid(NUMBERS)
    assert '  n1 -->|"inf | 0"| n4\n' in text
    assert "  n2 --> n3\n" in text
    assert '"odd #34;name#92;x1b = +"' in text
    assert "style n1 stroke:#c00" in text


def test_of_many_numbers_the_ends_and_those_that_are_none() -> None:
    assert summary(np.array(0.5)) == "0.5"
    assert summary(np.array([1.0, np.nan])) == "[1, nan]"
    assert summary(np.array([[1.0, -2.0], [np.nan, np.inf]])) == "-2 … inf, 1 nan"
    assert summary(np.ones((2, 2))) == "1"
    assert summary(np.full(5, np.nan)) == "5 nan"
    assert summary(np.zeros(0)) == "[]"
