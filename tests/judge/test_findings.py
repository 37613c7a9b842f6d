"""What a finding says: indices as people write them, the worst first, the rest counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.domain.report import LISTED, SHOWN_ENTRIES, Finding
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.judge import judge
from gradcheck_cli.judge.findings import entry_index
from gradcheck_cli.judge.wording import lossy
from tests.judge.making import answer, block, case

NAN, INF = np.nan, np.inf
KINK, UNDEFINED = PointKind.KINK, PointKind.UNDEFINED


def findings(made: Case) -> tuple[Finding, ...]:
    return judge(made)[1]


def of_vector(g: Any, truth: Any, *, wide: Any = None, **fields: Any) -> Finding:
    """The only finding about these entries of a scalar's gradient."""
    inputs = {"x": np.ones(np.size(g))}
    other = None if wide is None else {"x": wide}
    made = case(
        [answer({"x": g})],
        {"x": block(truth, **fields)},
        formula="sum(x)",
        inputs=inputs,
        wide=other,
    )
    (finding,) = findings(made)
    return finding


@pytest.mark.parametrize(
    ("formula", "shape", "row", "column", "index"),
    [
        ("sin(x)", (), 0, 0, ()),
        ("sum(x)", (3,), 0, 2, (2,)),
        ("sum(x)", (2, 3), 0, 4, (1, 1)),
        ("sin(x)", (3,), 1, 2, (1, 2)),
        ("sin(x)", (2, 3), 4, 2, (1, 1, 0, 2)),
        ("sum(x, axis=0)", (2, 3), 1, 5, (1, 1, 2)),
    ],
)
def test_index_has_the_output_first_and_then_the_input(
    formula: str, shape: tuple[int, ...], row: int, column: int, index: tuple[int, ...]
) -> None:
    made = case([], {}, formula=formula, inputs={"x": np.ones(shape)}, modes=["reverse"])
    assert entry_index(made, "reverse", "x", row, column) == index


@pytest.mark.parametrize(
    ("mode", "projection", "index"),
    [
        ("reverse", Projection(rows=np.ones((4, 2, 3))), (3, 1, 2)),
        ("forward", Projection(columns={"x": np.ones((6, 2, 3))}), (1, 0, 5)),
        ("forward", Projection(columns={"y": np.ones((6, 2, 3))}), (1, 0, 1, 2)),
    ],
)
def test_index_of_a_direction_is_its_number(
    mode: Mode, projection: Projection, index: tuple[int, ...]
) -> None:
    made = case(
        [],
        {},
        inputs={"x": np.ones((2, 3))},
        projections={mode: projection},
        modes=[mode],
    )
    assert entry_index(made, mode, "x", 3, 5) == index


@pytest.mark.parametrize(
    ("columns", "index"), [(None, (1, 0, 2)), ({"y": np.ones((2, 4))}, (1, 0, 2))]
)
def test_index_of_a_second_derivative(columns: Any, index: tuple[int, ...]) -> None:
    made = case(
        [],
        {},
        formula="sum(x) * sum(y)",
        inputs={"x": np.ones((2, 3)), "y": np.ones(4)},
        projections={"reverse-over-reverse": Projection(columns=columns)},
    )
    assert entry_index(made, "reverse-over-reverse", "x.y", 3, 2) == index


@pytest.mark.parametrize("along", [{}, {"x": np.ones(2), "y": np.array(1.0)}])
def test_a_finding_can_be_a_key(along: Mapping[str, Any]) -> None:
    made = case(
        [answer({"x": [1.0, 2.0]})],
        {"x": block([1.0, 1.0])},
        formula="sum(x)",
        inputs={"x": np.ones(2)},
    )
    (finding,) = findings(replace(made, along=along))
    assert {finding: 1}[replace(finding)] == 1


def test_worst_entries_come_first_and_the_rest_is_counted() -> None:
    truth = np.ones(40)
    error = np.zeros(40)
    error[5:30] = 1e-2 * np.arange(25, 0, -1)
    error[30] = 9.0
    finding = of_vector(truth + error, truth, wide=truth + error)
    assert [entry.index for entry in finding.entries] == [(30,), *((i,) for i in range(5, 14))]
    assert len(finding.entries) == SHOWN_ENTRIES == 10
    assert finding.more == 16
    assert "26 of 40 entries" in finding.message


def test_nan_comes_before_every_number_in_the_order_of_indices() -> None:
    finding = of_vector([NAN, 1.0, NAN], [1.0, 1.0, 2.0])
    assert [entry.index for entry in finding.entries] == [(0,), (2,)]
    assert finding.more == 0


def test_an_entry_has_all_its_numbers() -> None:
    finding = of_vector([1.5, 1.0], [1.0, 1.0], wide=[1.5, 1.0], error=1e-9)
    (entry,) = finding.entries
    assert entry.index == (0,)
    assert (entry.computed, entry.truth, entry.truth_error) == (1.5, 1.0, 1e-9)
    assert (entry.finite_difference, entry.finite_difference_error) == (1.0, 1e-9)
    assert entry.ulps == 0.5 * 2**23


def test_what_is_not_known_is_none_and_not_nan() -> None:
    made = case([answer({"x": 1.0})], {"x": block(NAN, NAN, kind=UNDEFINED)})
    (entry,) = findings(made)[0].entries
    assert (entry.truth, entry.truth_error, entry.finite_difference) == (None, None, None)
    assert entry.computed is None  # the point, not an engine, is reported


@pytest.mark.parametrize(
    ("g", "truth", "wide", "message"),
    [
        (-1.0, 1.0, -1.0, "the gradient of `x`: wrong in every precision"),
        (NAN, 1.0, 1.0, "the gradient of `x`: nan where the derivative is finite"),
        (INF, 1.0, 1.0, "the gradient of `x`: infinite where the derivative is finite"),
        (1 + 2**-9, 1.0, 1.0, "the gradient of `x`: 14 of 24 bits lost in float32"),
        (-1.0, 1.0, 1.0, "the gradient of `x`: 24 of 24 bits lost in float32"),
        (1e30, 1.0, 1.0, "the gradient of `x`: 24 of 24 bits lost in float32"),
        (0.0, 1.0, 1.0, "the gradient of `x`: zero, although float32 can hold the truth"),
        ([-1.0, 2.0], [1.0, 2.0], [-1.0, 2.0], "1 of 2 entries of the gradient of `x`: wrong"),
        ([0.0, 0.0, 1], [1.0, 1, 1], None, "2 of 3 entries of the gradient of `x`: zero"),
    ],
)
def test_message(g: Any, truth: Any, wide: Any, message: str) -> None:
    assert of_vector(g, truth, wide=wide).message.startswith(message)


def test_an_error_of_more_ulps_than_there_are_numbers_has_lost_every_bit() -> None:
    """As where the truth is 0 in float64."""
    about: Any = SimpleNamespace(
        errors=np.array([np.inf, np.nan]),
        format=FORMATS["float64"],
        entries="the gradient",
        case=SimpleNamespace(dtype="float64"),
    )
    assert lossy(about) == "the gradient: 53 of 53 bits lost in float64"


def test_message_of_ill_conditioning() -> None:
    finding = of_vector(1.001, 1.0, condition=1e-3)
    expected = "the gradient of `x`: explained by rounding the inputs alone"
    assert finding.message == expected


@pytest.mark.parametrize("kind", [UNDEFINED, PointKind.JUMP])
def test_message_where_there_is_no_derivative(kind: PointKind) -> None:
    made = case([answer({"x": NAN})], {"x": block(NAN, INF, kind=kind)})
    first, second = findings(made)
    assert first.message == "the gradient of `x`: nan at a point without a derivative"
    assert second.message.startswith("`x`: ")


@pytest.mark.parametrize(
    ("slopes", "message"),
    [
        ((-1, 1), "`x`: a kink: every slope from -1 to 1 is accepted"),
        ((0.25, 1 / 3), "`x`: a kink: every slope from 0.25 to 0.3333 is accepted"),
        (
            (0, INF),
            "`x`: a kink with many slopes, not all of them known: any finite slope is accepted",
        ),
    ],
)
def test_message_of_a_kink(slopes: tuple[float, float], message: str) -> None:
    made = case([answer({"x": 0.25})], {"x": block(0.25, kind=KINK, between=slopes)})
    (finding,) = findings(made)
    assert finding.message == message


def test_message_of_a_kink_of_the_gradient() -> None:
    mode = "reverse-over-reverse"
    made = case(
        [answer({"x.x": 0.25}, mode=mode)], {"x.x": block(0.25, kind=KINK, between=(-INF, INF))}
    )
    (finding,) = findings(made)
    assert "the gradient has a kink or a jump here" in finding.message


def test_second_derivative_is_called_by_its_name() -> None:
    made = case(
        [answer({"x.x": -1.0}, mode="reverse-over-reverse")],
        {"x.x": block(1.0)},
        wide={"x.x": -1.0},
    )
    (finding,) = findings(made)
    assert finding.message.startswith("the second derivative of `x.x`: wrong in every precision")


@pytest.mark.parametrize(("size", "is_listed"), [(2, True), (LISTED + 1, False)])
def test_a_product_with_directions_has_those_of_its_block(size: int, is_listed: bool) -> None:
    mode: Mode = "forward-over-forward"
    u, v = np.arange(size) + 1.0, np.arange(size) - 1.0
    made = case(
        [answer({"y.x": -1.0}, mode=mode)],
        {"y.x": block(1.0)},
        formula="sum(x * y)",
        inputs={"x": np.ones(size), "y": np.ones(size)},
        wide={"y.x": -1.0},
        projections={mode: Projection(None, {"x": v[None]}, {"y": u[None]})},
    )
    (finding,) = findings(made)
    (entry,) = finding.entries
    assert entry.index == (0, 0)
    assert finding.firsts == ((tuple(u),) if is_listed else ())
    assert finding.columns == ((tuple(v),) if is_listed else ())


@pytest.mark.parametrize(
    ("mode", "projection", "cotangents", "columns"),
    [
        ("reverse", Projection(rows=np.array([[1.0, 2.0]])), ((1.0, 2.0),), ()),
        ("forward", Projection(columns={"x": np.array([[3.0, 4.0]])}), (), ((3.0, 4.0),)),
    ],
)
def test_a_product_of_first_order_has_its_vectors(
    mode: Mode, projection: Projection, cotangents: Any, columns: Any
) -> None:
    shape = (1, 2) if mode == "reverse" else (2, 1)
    made = case(
        [answer({"x": -np.ones(shape)}, mode=mode)],
        {"x": block(np.ones(shape))},
        formula="sin(x)",
        inputs={"x": np.ones(2)},
        output=[1.0, 1.0],
        wide={"x": -np.ones(shape)},
        projections={mode: projection},
    )
    (finding,) = findings(made)
    assert (finding.cotangents, finding.columns, finding.firsts) == (cotangents, columns, ())


def test_the_worst_entry_decides_how_grave_a_loss_is() -> None:
    light = of_vector([1 + 2**-14, 1.0], [1.0, 1.0], wide=[1.0, 1.0])
    grave = of_vector([1 + 2**-14, 1.01], [1.0, 1.0], wide=[1.0, 1.0])
    assert (light.code, light.severity) == ("GC301", "note")
    assert (grave.code, grave.severity) == ("GC301", "error")
    assert [entry.index for entry in grave.entries] == [(1,), (0,)]


@pytest.mark.parametrize(
    ("dtype", "lost", "severity"),
    [
        ("float64", 14, "note"),
        ("float64", 26, "note"),
        ("float64", 27, "error"),
        ("float32", 7, "note"),
        ("float32", 13, "error"),
        ("bfloat16", 3, "note"),
        ("bfloat16", 5, "error"),
        ("float16", 6, "error"),
    ],
)
def test_grave_is_a_matter_of_the_bits_that_a_dtype_has(
    dtype: str, lost: int, severity: str
) -> None:
    bits: Mapping[str, int] = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11}
    g = 1 + 2.0 ** (lost + 1 - bits[dtype])
    made = case([answer({"x": g}, dtype=dtype)], {"x": block(1.0)}, wide={"x": 1.0}, dtype=dtype)
    (finding,) = findings(made)
    assert (finding.code, finding.severity) == ("GC301", severity)


def test_every_finding_points_at_the_output_and_names_its_point() -> None:
    formula = "y = sin(x)\nloss = y * 2"
    made = case([answer({"x": NAN})], {"x": block(1.0)}, formula=formula, point=3)
    (finding,) = findings(made)
    assert (finding.span.line, finding.span.column, finding.point) == (2, 8, 3)
    assert finding.truth_source == "confirmed"


def test_a_point_is_reported_once_for_all_its_modes() -> None:
    both = [answer({"x": 0.0}), answer({"x": 0.0}, mode="forward")]
    made = case(both, {"x": block(0.0, kind=KINK, between=(-1, 1))})
    (finding,) = findings(made)
    assert (finding.code, finding.engine, finding.mode) == ("GC401", None, None)
