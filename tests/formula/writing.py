"""Short ways to write formula tests: shapes in, programs or mistakes out."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from gradcheck_cli.domain.program import Node, Program
from gradcheck_cli.formula import Argument, parse

SHAPES: dict[str, Argument] = {
    "x": Argument((3, 2)),
    "W": Argument((2, 4)),
    "v": Argument((2,)),
    "s": Argument(()),
    "mask": Argument((3, 2), "bool"),
    "n": Argument((2,), "int"),
}


def program(text: str, **constants: Any) -> Program:
    """The program of a formula over the inputs above; any mistake fails the test."""
    parsed = parse(dedent(text), inputs=SHAPES, constants=constants)
    assert parsed.errors == ()
    assert parsed.program is not None
    return parsed.program


def output(text: str, **constants: Any) -> Node:
    """The node of the output."""
    built = program(text, **constants)
    return built.result


def ops(text: str, **constants: Any) -> list[str]:
    """The operations of a formula in order, without inputs."""
    return [node.op for node in program(text, **constants).nodes if node.op != "input"]


def mistakes(text: str, **constants: Any) -> list[str]:
    """All mistakes, each as "code line:column-end message"."""
    parsed = parse(dedent(text), inputs=SHAPES, constants=constants)
    assert parsed.program is None
    told: list[str] = []
    for error in parsed.errors:
        span = error.span
        end = f"{span.end_line}:{span.end_column}" if span.end_line > span.line else span.end_column
        told.append(f"{error.code} {span.line}:{span.column}-{end} {error.message}")
    return told


def helps(text: str, **constants: Any) -> list[str]:
    """The suggestions of what to write instead, one for each mistake."""
    return [error.help for error in parse(dedent(text), inputs=SHAPES, constants=constants).errors]
