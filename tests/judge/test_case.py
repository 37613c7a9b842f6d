"""Whole cases made by hand: which codes are raised, and which are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.evaluation import Failure, Mode, Operation, Projection, Trace
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.judge import flushed, judge, suspects
from gradcheck_cli.judge.gate import unexplained
from tests.conftest import Judged
from tests.judge.making import answer, block, case, failed

NAN, INF = np.nan, np.inf
KINK, UNDEFINED = PointKind.KINK, PointKind.UNDEFINED
JUMP, OPEN = PointKind.JUMP, PointKind.UNDECIDED
ULP = 2.0**-23
AT_KINK = block(0.0, kind=KINK, between=(-1, 1))
NO_TRUTH = block(NAN, INF, kind=OPEN, between=(NAN, NAN), confirmed=False)

ENGINES = ("finite-difference",)

TINY = 1e-40  # below the normal numbers of float32


def found(made: Case) -> list[tuple[str, str]]:
    """Code and severity of every finding, in the order in which they are reported."""
    return [(finding.code, finding.severity) for finding in judge(made)[1]]


def statuses(made: Case) -> list[str]:
    return [check.status for check in judge(made)[0]]


def test_a_gradient_that_is_missing_is_told_with_its_largest_true_entry() -> None:
    (found,) = judge(case([answer({"x": None})], {"x": block(1.0)}))[1]
    (entry,) = found.entries
    assert (entry.computed, entry.truth) == (None, 1.0)


def single(g: Any, truth: TruthBlock, **fields: Any) -> Case:
    return case([answer({"x": g})], {"x": truth}, **fields)


@pytest.mark.parametrize(
    ("g", "truth", "wide", "expected", "status"),
    [
        (1.0, block(1.0), None, [], "passed"),
        (-1.0, block(1.0), -1.0, [("GC101", "error")], "failed"),
        (None, block(1.0), None, [("GC102", "error")], "failed"),
        (None, block(0.0, 1e-9), None, [], "passed"),  # no gradient, and none is missed
        (None, block(0.5, kind=KINK, between=(0.2, 1)), None, [("GC102", "error")], "failed"),
        (None, AT_KINK, None, [], "passed"),
        (NAN, block(1.0), 1.0, [("GC201", "error")], "failed"),
        (INF, block(1.0), 1.0, [("GC202", "error")], "failed"),
        (1 + 2**-16, block(1.0), 1.0, [("GC301", "note")], "passed"),  # 7 of 24 bits
        (1 + 2**-9, block(1.0), 1.0, [("GC301", "error")], "failed"),  # 14 of 24 bits
        (1 + 2**-11, block(1.0), 1.0, [("GC301", "note")], "passed"),  # exactly half
        (0.0, block(1.0), 1.0, [("GC302", "error")], "failed"),
        (0.5, AT_KINK, None, [("GC401", "note")], "passed"),
        (2.0, AT_KINK, 2.0, [("GC101", "error")], "failed"),
        (3.0, block(NAN, INF, kind=UNDEFINED), None, [("GC402", "warning")], "passed"),
        (3.0, block(0.0, kind=JUMP), None, [("GC403", "warning")], "passed"),
        (3.0, NO_TRUTH, None, [("GC501", "warning")], "passed"),
        (1.0, block(1.0, 0.1), None, [("GC501", "warning")], "passed"),
        (1.001, block(1.0, condition=1e-3), 1.0, [("GC502", "note")], "passed"),
        # a point without a derivative stays one where an engine returns nan or infinity
        (
            NAN,
            block(NAN, INF, kind=UNDEFINED),
            None,
            [("GC201", "error"), ("GC402", "warning")],
            "failed",
        ),
        (INF, block(0.0, kind=JUMP), None, [("GC202", "error"), ("GC403", "warning")], "failed"),
    ],
)
def test_one_entry(
    g: float | None,
    truth: TruthBlock,
    wide: float | None,
    expected: list[tuple[str, str]],
    status: str,
) -> None:
    made = single(g, truth, wide=None if wide is None else {"x": wide})
    assert found(made) == expected
    assert statuses(made) == [status]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("raised", "GC701"),
        ("crashed", "GC702"),
        ("timed-out", "GC703"),
        ("wrong-shape", "GC103"),
    ],
)
def test_engine_without_an_answer(kind: Any, code: str) -> None:
    made = case([failed(kind), answer({"x": 1.0}, engine="reference")], {"x": block(1.0)})
    assert found(made) == [(code, "error")]
    assert statuses(made) == ["error", "passed"]  # the others go on


def test_a_program_that_an_engine_cannot_express() -> None:
    made = case([failed("unsupported")], {"x": block(1.0)})
    assert found(made) == [("GC705", "note")]
    assert found(replace(made, named=frozenset({"tensorflow"}))) == [("GC705", "note")]
    assert found(replace(made, named=frozenset({"torch"}))) == [("GC705", "error")]
    assert found(replace(made, named_modes=frozenset({"reverse"}))) == [("GC705", "error")]
    assert found(replace(made, named_modes=frozenset({"forward"}))) == [("GC705", "note")]


def test_every_input_of_a_failed_engine_has_its_check() -> None:
    made = case([failed("raised")], {"x": block(1.0)}, formula="x * y", inputs={"x": 1, "y": 2})
    checks, findings = judge(made)
    assert [(check.input, check.status) for check in checks] == [("x", "error"), ("y", "error")]
    assert len(findings) == 1


def test_gradient_of_another_dtype() -> None:
    made = case([answer({"x": 1.0}, own_dtype="float64")], {"x": block(1.0)})
    (check,), (finding,) = judge(made)
    assert (finding.code, finding.input) == ("GC103", "x")
    assert finding.message == "the gradient of `x` is float64, but its input is float32"
    assert check.status == "failed"


# --- output that is nan or infinite ---


def test_lost_output_silences_its_gradient() -> None:
    made = case([answer({"x": NAN}, output=INF)], {"x": block(1.0)}, output=2e30)
    (finding,) = judge(made)[1]
    assert (finding.code, finding.severity, finding.input) == ("GC203", "error", None)
    assert finding.message == "the output is inf"
    assert statuses(made) == ["failed"]


@pytest.mark.parametrize(
    ("output", "severity"), [(INF, "warning"), (NAN, "error"), (-INF, "error")]
)
def test_output_that_does_not_fit_is_told_so(output: float, severity: str) -> None:
    made = case([answer({"x": NAN}, output=output)], {"x": block(1.0)}, output=2e43)
    (finding,) = judge(made)[1]
    assert (finding.code, finding.severity) == ("GC203", severity)
    assert "genuine overflow: its exact value, 2e+43, does not fit float32" in finding.message


def test_a_derivative_that_fits_is_judged_although_its_value_overflows() -> None:
    certified = replace(block(2e38), certified=np.array([[True]]))
    made = case([answer({"x": INF}, output=INF)], {"x": certified}, output=2e43)
    assert set(found(made)) == {("GC203", "warning"), ("GC202", "error")}
    assert found(case([answer({"x": 2e38}, output=INF)], {"x": certified}, output=2e43)) == [
        ("GC203", "warning")
    ]


def test_a_lost_output_whose_gradient_does_not_fit_says_so() -> None:
    made = case([answer({"x": NAN}, output=INF)], {"x": block(-2e43)}, output=5.0)
    assert judge(made)[1][0].message == (
        "the output is inf; genuine overflow: the size of the exact gradient of `x`, 2e+43,"
        " does not fit float32"
    )


def test_only_the_rows_of_the_lost_output_are_silent() -> None:
    truth = block(np.diag([1.0, 2.0]))
    g = [[1.0, 0.0], [0.0, -2.0]]
    fields: dict[str, Any] = {
        "formula": "sin(x)",
        "inputs": {"x": np.array([1.0, 2.0])},
        "wide": {"x": g},
        "output": [1.0, 1.0],
    }
    first = case([answer({"x": g}, output=[NAN, 1.0])], {"x": truth}, **fields)
    assert [code for code, _ in found(first)] == ["GC203", "GC101"]
    assert judge(first)[1][0].message == "the output at (0,) is nan"
    second = case([answer({"x": g}, output=[1.0, NAN])], {"x": truth}, **fields)
    assert [code for code, _ in found(second)] == ["GC203"]


def test_a_lost_output_is_lost_in_every_cotangent() -> None:
    made = case(
        [answer({"x": [[NAN, 1.0], [9.0, 9.0]]}, output=[NAN, 1.0, 1.0])],
        {"x": block(np.ones((2, 2)))},
        formula="concatenate([x, x[:1]])",
        inputs={"x": np.ones(2)},
        output=np.ones(3),
        projections={"reverse": Projection(rows=np.ones((2, 3)))},
    )
    assert found(made) == [("GC203", "error")]


def test_input_that_overflows_when_rounded_is_named() -> None:
    made = case(
        [answer({"x": NAN}, output=NAN)],
        {"x": block(1.0)},
        inputs={"x": 1e300},
        output=0.5,
        values={"x": np.array(INF)},
    )
    assert judge(made)[1][0].message == "the output is nan; the input `x` is too large for float32"


# --- several engines, modes and inputs ---


def test_the_point_is_reported_once_the_engine_each() -> None:
    engines = [answer({"x": -1.0}, engine=name) for name in ("reference", "torch", "tensorflow")]
    wrong = case(engines, {"x": block(1.0)}, wide={"x": -1.0})
    assert [(f.code, f.engine) for f in judge(wrong)[1]] == [
        ("GC101", "reference"),
        ("GC101", "torch"),
        ("GC101", "tensorflow"),
    ]
    kink = case(engines, {"x": AT_KINK})
    assert [(f.code, f.engine) for f in judge(kink)[1]] == [("GC401", None)]


def test_one_engine_at_fault_is_named_alone() -> None:
    made = case(
        [answer({"x": 1.0}, engine="reference"), answer({"x": NAN}, engine="torch")],
        {"x": block(1.0)},
    )
    (finding,) = judge(made)[1]
    assert (finding.code, finding.engine, finding.mode, finding.dtype, finding.input) == (
        "GC201",
        "torch",
        "reverse",
        "float32",
        "x",
    )
    assert statuses(made) == ["passed", "failed"]


def test_each_input_has_its_own_verdict() -> None:
    made = case(
        [answer({"x": 2.0, "y": NAN})],
        {"x": block(2.0), "y": block(1.0)},
        formula="x * y",
        inputs={"x": 1.0, "y": 2.0},
    )
    assert [(f.code, f.input) for f in judge(made)[1]] == [("GC201", "y")]
    assert [(c.input, c.status) for c in judge(made)[0]] == [("x", "passed"), ("y", "failed")]


def test_one_engine_that_fails_at_a_kink_leaves_it_a_kink() -> None:
    made = case(
        [answer({"x": 0.0}, engine="reference"), answer({"x": 7.0}, engine="torch")],
        {"x": AT_KINK},
    )
    assert [(f.code, f.engine) for f in judge(made)[1]] == [("GC101", "torch"), ("GC401", None)]


# --- second order ---


SECOND: Mode = "reverse-over-reverse"


@pytest.mark.parametrize(
    ("g", "truth", "wide", "expected"),
    [
        (2.0, block(2.0), None, []),
        (0.0, block(2.0, stated=0.0), 0.0, [("GC106", "error")]),
        (None, block(2.0), None, [("GC106", "error")]),
        (None, block(0.0, 1e-9), None, []),
        (NAN, block(2.0), 2.0, [("GC201", "error")]),
        (0.0, block(2.0), 2.0, [("GC302", "error")]),
        (2.01, block(2.0), 2.0, [("GC301", "error")]),
    ],
)
def test_second_derivative(
    g: float | None, truth: TruthBlock, wide: float | None, expected: list[tuple[str, str]]
) -> None:
    made = case(
        [answer({"x.x": g}, mode=SECOND)],
        {"x.x": truth},
        wide=None if wide is None else {"x.x": wide},
    )
    assert found(made) == expected


def test_wrong_first_derivative_is_not_called_a_second() -> None:
    made = case(
        [answer({"x": -1.0}), answer({"x.x": 2.0}, mode=SECOND)],
        {"x": block(1.0), "x.x": block(2.0)},
        wide={"x": -1.0},
    )
    assert [(f.code, f.input) for f in judge(made)[1]] == [("GC101", "x")]


# --- no truth at all ---


def test_without_truth_nothing_is_decided() -> None:
    (finding,) = judge(case([answer({"x": 1.0})], None, modes=["reverse"]))[1]
    assert (finding.code, finding.severity) == ("GC501", "warning")
    assert "could not be computed within the time" in finding.message


@pytest.mark.parametrize("kind", [PointKind.SMOOTH, OPEN])
@pytest.mark.parametrize("confirmed", [True, False])
def test_what_is_undecided_is_not_shown_as_known(kind: PointKind, confirmed: bool) -> None:
    """Neither by a bar that is too wide, nor by a value that nothing confirms."""
    truth = block(1.0, 0.1, kind=kind, confirmed=confirmed)
    (finding,) = judge(case([answer({"x": 1.0})], {"x": truth}, modes=["reverse"]))[1]
    assert (finding.code, finding.truth_source) == ("GC501", "undecided")
    assert [entry.truth for entry in finding.entries] == [None]


def test_a_truth_that_gradcheck_broke_is_an_error_and_no_check_passes() -> None:
    broken = Failure("internal", "the truth could not be computed: KeyError: 'x'", "a traceback")
    checks, (finding,) = judge(case([answer({"x": 1.0})], None, modes=["reverse"], no_truth=broken))
    assert (finding.code, finding.severity) == ("GC706", "error")
    assert (finding.message, finding.detail) == (broken.message, broken.detail)
    assert [check.status for check in checks] == ["error"]


def test_a_truth_that_ran_out_of_memory_is_undecided() -> None:
    large = Failure("out-of-memory", "took more than 4 GB of memory")
    (finding,) = judge(case([answer({"x": 1.0})], None, modes=["reverse"], no_truth=large))[1]
    assert finding.code == "GC501"
    assert finding.message.endswith("could not be computed: took more than 4 GB of memory")


def test_without_truth_and_without_answers_only_the_failure_is_told() -> None:
    assert found(case([failed("crashed")], None, modes=["reverse"])) == [("GC702", "error")]


def test_the_reason_for_being_undecided_is_told() -> None:
    why = {("reverse", "x"): "it oscillates faster than any step"}
    (finding,) = judge(single(1.0, NO_TRUTH, reasons=why))[1]
    assert finding.message == "`x`: undecided: it oscillates faster than any step"


# --- what a check says ---


@pytest.mark.parametrize(
    ("g", "truth", "ulps", "source"),
    [
        ([1.0, 2.0], block([1.0, 2.0]), 0.0, "confirmed"),
        ([1 + ULP, 2 - 6 * ULP], block([1.0, 2.0]), 3.0, "confirmed"),
        ([1.0, 2.0], block([1.0, 2.0], confirmed=False), 0.0, "finite-difference"),
        ([1.0, NAN], block([1.0, 2.0]), None, "confirmed"),
        ([1 + ULP, 9.0], block([1.0, NAN], [0, INF], kind=[0, UNDEFINED]), 1.0, "confirmed"),
        (
            [0.0, 0.0],
            block([0.0, 0.0], kind=KINK, between=(-1, 1), confirmed=False),
            None,
            "one-sided-difference",
        ),
        (
            [0.0, 0.0],
            block([NAN, NAN], INF, kind=OPEN, confirmed=False),
            None,
            "undecided",
        ),
    ],
)
def test_check_states_largest_error_and_source(
    g: list[float], truth: TruthBlock, ulps: float | None, source: str
) -> None:
    made = case([answer({"x": g})], {"x": truth}, inputs={"x": np.array([1.0, 2.0])})
    (check,) = judge(made)[0]
    assert (check.max_ulps, check.truth) == (ulps, source)


def test_check_counts_the_passes() -> None:
    made = single(1.0, block(1.0))
    counted = replace(made.evaluations[0], forward=3, backward=2, duration_s=0.25)
    (check,) = judge(replace(made, evaluations=(counted,), point=4))[0]
    assert (check.status, check.point, check.max_ulps, check.truth) == (
        "passed",
        4,
        0.0,
        "confirmed",
    )
    assert (check.forward, check.backward, check.duration_s) == (3, 2, 0.25)


# --- who is looked at again ---


@pytest.mark.parametrize(
    ("gradients", "blocks", "expected"),
    [
        ({"x": [1.0, 2.0]}, {"x": block([1.0, 2.0])}, None),
        ({"x": [1.0, 9.0]}, {"x": block([1.0, 2.0])}, (0, "x", 1)),
        ({"x": [1.5, 9.0]}, {"x": block([1.0, 2.0])}, (0, "x", 1)),  # the worst
        ({"x": [NAN, 9.0]}, {"x": block([1.0, 2.0])}, (0, "x", 0)),  # nan before all
        ({"x": [1.0, 2.0]}, {"x": block([1.0, 2.0], [0.0, 0.5])}, (0, "x", 1)),  # wide bar
        ({"x": [0.0, 2.0]}, {"x": block([0.0, 2.0], kind=[KINK, 0])}, None),
        ({"x": None}, {"x": block([1.0, 2.0])}, None),
        ({"x": [[1, 0], [0, 5]]}, {"x": block(np.eye(2))}, (1, "x", 1)),
        ({"x": [1.1, 2.0], "y": 7.0}, {"x": block([1.0, 2.0]), "y": block(1.0)}, (0, "y", 0)),
    ],
)
def test_suspects(
    gradients: Mapping[str, Any],
    blocks: Mapping[str, TruthBlock],
    expected: tuple[int, str, int] | None,
) -> None:
    made = case([answer(gradients)], blocks, inputs={"x": np.ones(2), "y": 1.0}, formula="x * y")
    places = [(s.trace.row, s.trace.input, s.trace.column) for s in suspects(made)]
    assert places == ([] if expected is None else [expected])


def test_suspects_are_told_by_engine_and_mode() -> None:
    made = case(
        [
            answer({"x": 1.0}, engine="reference"),
            answer({"x": 3.0}, engine="torch"),
            answer({"x": 3.0}, engine="torch", mode="forward"),
            failed("raised", engine="tensorflow"),
        ],
        {"x": block(1.0)},
    )
    assert [(s.engine, s.mode) for s in suspects(made)] == [
        ("torch", "reverse"),
        ("torch", "forward"),
    ]
    assert suspects(replace(made, truth=None)) == ()


def test_second_look_at_a_second_derivative_follows_the_column() -> None:
    made = case(
        [answer({"x.y": [[1.0, 5.0]]}, mode=SECOND)],
        {"x.y": block([[1.0, 2.0]])},
        formula="sum(x * y)",
        inputs={"x": 1.0, "y": np.ones(2)},
    )
    (suspect,) = suspects(made)
    assert (suspect.trace.input, suspect.trace.column) == ("y", 1)


# --- the same, with everything computed ---


COMPUTED: list[tuple[str, Mapping[str, Any], str, str, list[str]]] = [
    ("exp(-x)", {"x": 2.0}, "float32", "reverse", []),
    ("1 / exp(x)", {"x": 100.0}, "float32", "reverse", ["GC201"]),
    ("1 / exp(x)", {"x": 60.0}, "float32", "reverse", ["GC302"]),
    ("sqrt(x * x)", {"x": 1e-30}, "float32", "reverse", ["GC202", "GC303"]),
    ("exp(x)", {"x": 100.0}, "float32", "reverse", ["GC203"]),
    ("(exp(x) - 1) / x", {"x": 1e-4}, "float32", "reverse", ["GC301"]),
    ("abs(x)", {"x": 0.0}, "float64", "forward", ["GC401"]),
    ("where(x >= 0, x + 1, x)", {"x": 0.0}, "float32", "reverse", ["GC403"]),
    ("sin(1e20 * x)", {"x": 0.1}, "float64", "reverse", ["GC502"]),
    ("sin(1e6 * x)", {"x": 0.7}, "float32", "reverse", ["GC502"]),
    ("-log(clip(sigmoid(x), 1e-7, 1))", {"x": -30.0}, "float32", "reverse", ["GC404"]),
    # the output alone: its terms are a million times as large, and the slopes are not
    ("(x - y) * 1e6 + z * z", {"x": 1.1, "y": 1.1, "z": 1e-4}, "float32", "reverse", []),
    ("(x * x - y) * 1e6", {"x": 1.1, "y": 1.21}, "float32", "reverse", ["GC502"]),
    # nothing is left of the terms, as half an ulp of y would leave nothing
    ("softplus(x) - x * y", {"x": 30.0, "y": 1.0}, "float32", "reverse", ["GC502"]),
]


@pytest.mark.parametrize(("formula", "inputs", "dtype", "mode", "codes"), COMPUTED)
def test_computed(
    judged: Callable[..., Any],
    formula: str,
    inputs: Mapping[str, Any],
    dtype: str,
    mode: str,
    codes: list[str],
) -> None:
    made = judged(formula, inputs, dtype=dtype, modes=(mode,), engines=("reference",))
    assert made.codes == codes


def test_output_that_its_inputs_move_as_far(judged: Callable[..., Any]) -> None:
    """A note, once an engine; where the gradient is told to be ill-conditioned there is none."""
    made = judged("(x * x - y) * 1e6", {"x": 1.1, "y": 1.21}, engines=("reference",))
    (found,) = made.of("GC502")
    assert (found.severity, found.input) == ("note", None)
    assert found.message.startswith("the output: ")
    assert found.message.endswith("; explained by rounding the inputs alone")
    assert made.passed
    both = judged("sin(1e6 * x)", {"x": 0.7}, engines=("reference",)).of("GC502")
    assert {one.input for one in both} == {"x"}


def test_findings_and_checks_have_one_order() -> None:
    """Engines first, then the point, then agreement."""
    made = case(
        [
            failed("raised", engine="tensorflow"),
            answer({"x": [1.0, 0.0, 5.0], "y": NAN}, engine="torch"),
            answer({"x": [1.0, 0.5, 5.0], "y": 1.0}, engine="reference"),
        ],
        {
            "x": block([1.0, 0.0, NAN], [0, 0, INF], kind=[0, KINK, UNDEFINED], between=(-1, 1)),
            "y": block(1.0),
        },
        formula="sum(x * y)",
        inputs={"x": np.ones(3), "y": 1.0},
    )
    checks, findings = judge(made)
    assert [(f.code, f.engine, f.input) for f in findings] == [
        ("GC701", "tensorflow", None),
        ("GC201", "torch", "y"),
        ("GC401", None, "x"),
        ("GC402", None, "x"),
    ]
    assert [(c.engine, c.input) for c in checks] == [
        (e, i) for e in ("tensorflow", "torch", "reference") for i in ("x", "y")
    ]


@pytest.mark.parametrize(
    ("g", "truth", "code"),
    [
        # a row: the gradient of one output is right as a whole
        ([[1.0, 6e-7]], block([[1.0, 1e-15]]), "GC301"),
        # a zero: nothing in its row and in its column
        ([[1.0, 0.0], [0.5, 0.5]], block([[1.0, 1e-20], [0.5, 0.5]]), "GC302"),
        # a column: what one input does to all outputs
        ([[0.5], [8e-8]], block([[0.5], [1e-12]]), "GC301"),
    ],
)
def test_an_error_that_is_nothing_beside_its_row_or_column_is_a_note(
    g: Any, truth: TruthBlock, code: str
) -> None:
    made = several(g, truth, wide=truth.value)
    assert found(made) == [(code, "note")]
    assert statuses(made) == ["passed"]
    assert "negligible" in judge(made)[1][0].message
    # a wrong rule is wrong however small it looks beside the others
    assert found(several(g, truth, wide=g if code == "GC301" else None)) in (
        [("GC101", "error")],
        [("GC302", "note")],
    )


@pytest.mark.parametrize(
    ("g", "truth"),
    [
        ([[1.0, 1e-4]], block([[1.0, 2e-4]])),  # a thousand roundings of 1
        ([[1.0, 0.0], [0.0, 0.0]], block([[1.0, 0.0], [0.0, 1e-20]])),  # no larger one beside it
        ([[1e-20, 0.0]], block([[1e-20, 1e-21]])),
        ([[1.0, 0.0]], block([[1.0, 1e-20]])),  # of a scalar: that entry stands still
    ],
)
def test_an_error_that_shows_beside_its_row_and_column_stays_one(g: Any, truth: TruthBlock) -> None:
    assert statuses(several(g, truth, wide=truth.value)) == ["failed"]


def test_hidden_entries_are_left_out_where_others_show() -> None:
    truth = block([[1.0, 1e-20, 0.0], [1.0, 1.0, 1e-20]])
    made = several([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]], truth, wide=truth.value)
    ((finding),) = judge(made)[1]
    assert (finding.code, finding.severity) == ("GC302", "error")
    assert [entry.index for entry in finding.entries] == [(1, 2)]
    ((check),) = judge(made)[0]
    assert [(one.rule, one.entries) for one in check.passed_by] == [("invisible", 1)]


def several(g: Any, truth: TruthBlock, *, wide: Any) -> Case:
    """Several outputs, or one, of an input with several entries."""
    rows, columns = truth.value.shape
    return case(
        [answer({"x": g}, output=np.ones(rows))],
        {"x": truth},
        formula="concatenate([x, x])" if columns == 1 else "x",
        inputs={"x": np.ones(columns)},
        wide=None if wide is None else {"x": wide},
        output=np.ones(rows),
    )


def test_nothing_is_asked_of_a_missing_gradient_whose_output_is_lost() -> None:
    made = case([answer({"x": None}, output=INF)], {"x": block(1.0)})
    assert [code for code, _ in found(made)] == ["GC203"]


def test_a_value_that_is_infinite_in_every_precision_has_not_overflowed() -> None:
    """As the logarithm of a probability of 0, in a layer of which nothing is certified."""
    made = case([answer({"x": 1.0}, output=-INF)], {"x": block(1.0)}, output=-INF)
    ((finding),) = judge(made)[1]
    assert (finding.code, finding.severity) == ("GC203", "warning")
    assert "overflow" not in finding.message
    assert "float64" in finding.message


@pytest.mark.parametrize(
    ("trace", "code"),
    [
        (Trace({}, {}, culprits=(0,)), "GC302"),  # an operation that makes it zero
        (Trace({}, {}), "GC101"),  # none was found, and differences see the derivative
        (Trace({}, {}, enclosed=True), "GC101"),
    ],
)
def test_a_zero_of_usual_size_is_underflow_only_where_an_operation_makes_it(
    trace: Trace, code: str
) -> None:
    made = single(0.0, block(4.0, floor=1e-7), wide={"x": 0.0})
    assert made.truth is not None
    key = ("torch", "reverse")
    traced = {key: replace(made.evaluations[0], trace=trace)}
    truth = replace(made.truth, output_cost=np.zeros(1))
    assert {one for one, _ in found(replace(made, traced=traced, truth=truth))} == {code}


@pytest.mark.parametrize(
    ("inputs", "exact", "code"),
    [
        ((1.0, 1.0 - 5e-19), 5e-19, "GC301"),  # 1 - cos(x) where both are 1
        ((1e20, 3.0), 1e20 + 3.0, "GC301"),  # a term that is absorbed
        ((2.0, 3.0), 6.0, "GC101"),  # a kernel that gives 0 for a product
    ],
)
def test_the_same_wrong_number_in_two_precisions_is_no_rounding_unless_operations_round_it(
    inputs: tuple[float, ...], exact: float, code: str
) -> None:
    result = 1e20 if exact > 1e19 else 0.0
    ulp = float(np.spacing(np.float32(exact)))
    lost = Operation(
        "op", "forward", None, (), inputs, inputs, result, exact, abs(result - exact) / ulp
    )
    trace = Trace({}, {}, operations=(lost,), culprits=(0,), repaired=0.0)
    made = single(1.0, block(0.5, floor=1e-7), wide={"x": 1.0})
    traced = {("torch", "reverse"): replace(made.evaluations[0], trace=trace)}
    assert {one for one, _ in found(replace(made, traced=traced))} == {code}
    assert {one for one, _ in found(made)} == {"GC101"}


def test_what_it_is_off_by(judged: Callable[..., Judged]) -> None:
    found = judged("exp(sin(x))", {"x": 1.5}, engines=ENGINES, modes=("forward",))
    (finding,) = found.findings
    assert (finding.code, finding.severity, finding.cause) == ("GC304", "warning", None)
    assert finding.message.startswith("central difference, h = 0.00781: off by ")
    (entry,) = finding.entries
    assert entry.computed is not None
    assert entry.truth is not None
    assert 1e-6 < abs(entry.computed - entry.truth) < 1e-4
    assert [check.status for check in found.checks] == ["passed"]
    assert found.checks[0].max_ulps == entry.ulps
    assert found.case.traced == {}


def test_a_right_one_is_right(judged: Callable[..., Judged]) -> None:
    found = judged("x**2", {"x": 4.0}, engines=ENGINES, modes=("forward",), dtype="float64")
    assert found.passed
    assert found.codes == []


def test_where_no_truth_decides_it_does_not_disagree(judged: Callable[..., Judged]) -> None:
    found = judged(
        "sum(eigvalsh(x))",
        {"x": [[1.0, 0.0], [0.0, 1.0]]},
        engines=("reference", *ENGINES),
        modes=("forward",),
    )
    assert "GC107" not in found.codes


def at_tiny(output: Any, gradient: Any, *, kept: Any, zero: Any) -> Case:
    """An engine's value and derivative at TINY, where `kept` is right there and `zero` at 0."""
    (y, slope), (y_0, slope_0) = kept, zero
    return case(
        [answer({"x": gradient}, output=output, engine="jax")],
        {"x": block(slope)},
        output=y,
        inputs={"x": TINY},
        kept={"reverse": answer({"x": slope}, output=y, engine="reference")},
        zero={"reverse": answer({"x": slope_0}, output=y_0, engine="reference")},
    )


def test_what_is_right_at_zero_is_told_once() -> None:
    """log(1e-40) is -92, and -inf to who sees 0."""
    made = at_tiny(-INF, INF, kept=(-92.1, 1e30), zero=(-INF, INF))
    checks, (found,) = judge(made)
    assert (found.code, found.severity, found.engine) == ("GC402", "warning", "jax")
    assert "`x`: jax treats numbers below 1.18e-38 as 0" in found.message
    assert [check.status for check in checks] == ["passed"]


@pytest.mark.parametrize(
    ("output", "gradient", "kept", "zero"),
    [
        (0.5, np.nan, (-92.1, 1e30), (-INF, INF)),  # the value is right at neither
        (0.0, np.nan, (1e-20, 1e20), (0.0, np.nan)),  # nan is right nowhere
        (1.0, 3.0, (1.0, 1.0), (1.0, 1.0)),  # 0 explains nothing: both have the same answer
        (1.0, 3.0, (1.0, 1.0), (1.0, 7.0)),
    ],
)
def test_what_zero_does_not_explain_is_judged(
    output: float, gradient: float, kept: Any, zero: Any
) -> None:
    codes = {f.code for f in judge(at_tiny(output, gradient, kept=kept, zero=zero))[1]}
    assert codes
    assert "GC402" not in codes


def test_which_inputs_are_flushed() -> None:
    made = at_tiny(0.0, 0.0, kept=(0.0, 0.0), zero=(0.0, 0.0))
    assert flushed(made) == {"x": 0.0}
    assert flushed(case([], None, inputs={"x": [0.0, 1.0], "n": 3})) == {}


def test_the_last_gate_knows_of_all_inputs() -> None:
    """What an engine takes for 0 in one input may be seen in the derivative by another."""
    inputs = {"x": TINY, "y": 2.0}
    slopes = {"x": INF, "y": 3.0}
    made = case(
        [answer(slopes, output=-INF, engine="jax")],
        {"x": block(1e30), "y": block(5.0)},
        output=-92.1,
        inputs=inputs,
        kept={"reverse": answer({"x": 1e30, "y": 5.0}, output=-92.1, engine="reference")},
        zero={"reverse": answer(slopes, output=-INF, engine="reference")},
    )
    checks, findings = judge(made)
    assert {check.input for check in checks} == {"x", "y"}
    assert list(unexplained(checks, findings)) == []


@pytest.mark.parametrize(
    ("modes", "code"),
    [
        (("forward-over-reverse", "forward-over-forward"), "GC301"),
        (("forward", "forward-over-forward"), "GC106"),  # the first derivative says nothing of it
    ],
)
def test_a_second_derivative_that_is_not_traced_rounds_as_its_engine_does(
    modes: tuple[Mode, Mode], code: str
) -> None:
    traced, unseen = modes
    spoilt = Operation("sub", "forward", None, (), (1.0, 1.0), (1.0, 1.0), 0.0, 5e-19, 2.0**23)
    trace = Trace({}, {}, operations=(spoilt,), culprits=(0,), repaired=0.0)
    made = case(
        [answer({"x.x": 1.0}, mode=unseen)], {"x.x": block(0.5, floor=1e-7)}, wide={"x.x": 1.0}
    )
    seen = {("torch", traced): replace(made.evaluations[0], mode=traced, trace=trace)}
    assert {one for one, _ in found(replace(made, traced=seen))} == {code}
