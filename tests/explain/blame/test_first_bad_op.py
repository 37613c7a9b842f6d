"""The first bad number is found among the nodes of a program, in traces made by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Operation, Trace
from gradcheck_cli.domain.program import Program
from gradcheck_cli.explain.blame.first_bad_op import first_bad, first_zero
from gradcheck_cli.explain.blame.traces import lossy, not_finite, traces_of, vanished, zero
from tests.conftest import program_of

CHAIN = "a = exp(x)\nb = a * 2\nsin(b)"
X, A, B, SINE = 0, 1, 3, 4
NODES = program_of(CHAIN, {"x": 1.0}).nodes


def traced(
    values: Mapping[int, float],
    derivatives: Mapping[int, float],
    *,
    exact: tuple[Mapping[int, float], Mapping[int, float]] | None = None,
    mode: str = "reverse",
) -> Callable[..., Operation | None]:
    """`first_bad` on a chain exp, * 2, sin with these numbers; all others are 1, the constant 2."""
    program: Program = program_of(CHAIN, {"x": 1.0})
    ones = dict.fromkeys(range(len(program.nodes)), 1.0)
    assert [program.nodes[i].op for i in (X, A, B, SINE)] == ["input", "exp", "multiply", "sin"]

    def trace(given: Mapping[int, float], slopes: Mapping[int, float]) -> Trace:
        return Trace(
            {i: np.asarray(v) for i, v in {**ones, 2: 2.0, **given}.items()},
            {i: np.asarray(v) for i, v in {**ones, **slopes}.items() if i != 2},
        )

    narrow = trace(values, derivatives)
    wide = trace(*exact) if exact else trace({}, {})
    traces = traces_of(program, "float32", mode, narrow, wide)
    return lambda bad, **how: first_zero(traces) if bad is zero else first_bad(traces, bad, **how)


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(("exact", "expected"), [(1.0, "exp"), (0.0, "exp"), (NAN, None)])
def test_a_zero_is_blamed_only_where_it_is_known_what_is_right(
    exact: float, expected: str | None
) -> None:
    cause = traced({}, {X: 0.0}, exact=({}, {X: exact}))(zero)
    assert (cause and NODES[cause.node].op) == expected


@pytest.mark.parametrize(
    ("values", "derivatives", "expected"),
    [
        ({}, {}, None),
        ({A: INF, B: INF, SINE: NAN}, {X: NAN}, ("exp", "forward")),
        ({B: INF, SINE: NAN}, {X: NAN}, ("multiply", "forward")),
        ({SINE: NAN}, {}, ("sin", "forward")),
        ({X: NAN, A: NAN, B: NAN, SINE: NAN}, {}, None),  # the input's own
        ({}, {X: NAN}, ("exp", "backward")),
        ({}, {X: NAN, A: NAN}, ("multiply", "backward")),
        ({}, {X: NAN, A: NAN, B: NAN}, ("sin", "backward")),
        ({}, {X: NAN, A: NAN, B: NAN, SINE: NAN}, None),
    ],
)
def test_the_first_bad_number_is_looked_for(
    values: Mapping[int, float],
    derivatives: Mapping[int, float],
    expected: tuple[str, str] | None,
) -> None:
    cause = traced(values, derivatives)(not_finite)
    assert (cause and (NODES[cause.node].op, cause.phase)) == expected


@pytest.mark.parametrize(
    ("tangents", "expected"),
    [
        ({}, None),
        ({A: NAN, B: NAN, SINE: NAN}, "exp"),
        ({B: NAN, SINE: NAN}, "multiply"),
        ({SINE: NAN}, "sin"),
    ],
)
def test_tangents_are_followed_forward(tangents: Mapping[int, float], expected: str | None) -> None:
    cause = traced({}, tangents, mode="forward")(not_finite)
    assert (cause and NODES[cause.node].op) == expected


def test_backward_can_be_asked_first() -> None:
    look = traced({A: 0.0}, {X: 0.0})
    forward, backward = look(vanished), look(vanished, backward_first=True)
    assert forward is not None
    assert backward is not None
    assert (forward.phase, backward.phase) == ("forward", "backward")


@pytest.mark.parametrize(("off", "op"), [(2.0**-18, None), (2.0**-16, "multiply")])
def test_a_quarter_of_the_digits_may_go(off: float, op: str | None) -> None:
    cause = traced({B: 1 + off}, {})(lossy(FORMATS["float32"]))
    assert (cause and NODES[cause.node].op) == op


def test_without_the_other_precision_zeros_and_digits_are_not_guessed() -> None:
    program = program_of(CHAIN, {"x": 1.0})
    zeros = {i: np.zeros(()) for i in range(len(program.nodes))}
    traces = traces_of(program, "float64", "reverse", Trace(zeros, zeros), Trace(zeros, zeros))
    assert first_bad(traces, vanished) is None
    assert first_bad(traces, lossy(FORMATS["float64"])) is None


@pytest.mark.parametrize(
    ("formula", "blamed"),
    [
        ("xlogy(p, p) + p * q", "xlogy(p, p)"),
        ("xlogy(p, p) - xlogy(p, q)", "xlogy(p, p)"),
        ("p * q + sqrt(p)", "sqrt(p)"),
        ("sqrt(p) + p * q", "sqrt(p)"),
        ("p ** 0.5 + exp(p)", "p ** 0.5"),
    ],
)
def test_of_several_uses_the_one_at_its_edge_is_blamed(formula: str, blamed: str) -> None:
    """The cotangent of `p` is a sum: the last use does not make it bad by being the last."""
    program = program_of(formula, {"p": 0.0, "q": 0.5})
    ones = {index: np.asarray(1.0) for index in range(len(program.nodes))}
    values = ones | {0: np.asarray(0.0), 1: np.asarray(0.5)}
    constants = {i: np.asarray(n.value) for i, n in enumerate(program.nodes) if n.op == "constant"}
    trace = Trace(values | constants, ones | {0: np.asarray(NAN)})
    cause = first_bad(traces_of(program, "float64", "reverse", trace, None), not_finite)
    assert cause is not None
    assert program.nodes[cause.node].text == blamed
