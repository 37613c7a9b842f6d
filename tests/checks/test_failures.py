"""What is told of a layer when its checks have come together."""

from dataclasses import replace

import numpy as np
import pytest

from gradcheck_cli.checks.failures import drop_implied, with_failure
from gradcheck_cli.domain.evaluation import Failure
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.domain.place import Place, Source, Span
from gradcheck_cli.domain.report import Finding, Report, SpecResult
from gradcheck_cli.report.blocks import finding_place
from gradcheck_cli.report.json_report import as_json
from tests.checks.making import SPAN, layer_problem

PROBLEM = layer_problem("layers.py:Cube", {"x": 1.0})
TWO = (PROBLEM, replace(PROBLEM, behaviour=True))


def found(code: str, dtype: str | None = "float32", mode: str = "reverse") -> Finding:
    return Finding(code, "error", "", SPAN, "torch", dtype, mode, "x")


def told(*findings: Finding, nondeterministic: bool = False) -> list[tuple[str, str | None]]:
    numbers = LayerAnswer(findings=tuple(f for f in findings if f.dtype))
    behaviour = LayerAnswer(
        findings=tuple(f for f in findings if not f.dtype), nondeterministic=nondeterministic
    )
    return [(finding.code, finding.dtype) for finding in drop_implied(TWO, [numbers, behaviour])]


def test_what_the_numbers_say_already() -> None:
    assert told(found("GC105"), found("GC105", None)) == [("GC105", "float32")]
    assert told(found("GC101"), found("GC105", None)) == [("GC101", "float32")]
    assert told(found("GC101"), found("GC607", None)) == [("GC101", "float32"), ("GC607", None)]


def test_what_forward_mode_says_already() -> None:
    for code in ("GC201", "GC202", "GC701"):
        assert told(found(code, mode="forward"), found("GC105", None)) == [(code, "float32")]
        assert ("GC105", None) in told(found(code), found("GC105", None))


def test_numbers_of_a_layer_that_is_never_the_same_mean_nothing() -> None:
    assert told(found("GC301"), found("GC602", None), nondeterministic=True) == [("GC602", None)]
    undecided = replace(found("GC501"), engine=None)  # as findings about the point are
    assert told(undecided, found("GC602", None), nondeterministic=True) == [("GC602", None)]
    kept = told(found("GC701"), found("GC602", None), nondeterministic=True)
    assert kept == [("GC701", "float32"), ("GC602", None)]


def test_a_cut_path_is_no_zero_in_forward_mode_too() -> None:
    assert told(found("GC102"), found("GC302", mode="forward")) == [("GC102", "float32")]
    assert told(found("GC302", mode="forward")) == [("GC302", "float32")]


def test_a_backward_that_is_not_linear_has_no_second_derivative() -> None:
    second = replace(found("GC106", mode="reverse-over-reverse"), input="x.w")
    assert told(second, found("GC607", None)) == [("GC607", None)]
    other = replace(second, input="b.w")
    assert told(other, found("GC607", None)) == [("GC106", "float32"), ("GC607", None)]


def test_a_crash_is_told_once() -> None:
    crashed = LayerAnswer(failure=Failure("crashed", "it died"))
    numbers = with_failure(PROBLEM, crashed)
    behaviour = with_failure(TWO[1], crashed)
    assert [f.code for f in drop_implied(TWO, [numbers, behaviour])] == ["GC702"]
    (alone,) = drop_implied(TWO[1:], [behaviour])
    assert alone.message == "while its behaviour was checked: it died"
    assert [check.status for check in numbers.checks] == ["error"]


def test_a_place_in_the_users_file_is_where_the_finger_points() -> None:
    place = Place(Source("layer.hpp", "T f();\n"), Span(1, 3, 1, 4), "f")
    failed = LayerAnswer(failure=Failure("raised", "it does not compile", place=place))
    (finding,) = with_failure(PROBLEM, failed).findings
    spec = SpecResult("a", Source("a.yaml", ""), "failed", findings=(finding,))
    assert finding_place(finding, spec) == (place.source, place.span)
    (told,) = as_json(Report("1", {}, 0, 0.0, (spec,)))["results"][0]["findings"]
    assert told["location"] == {"path": "layer.hpp", "line": 1, "column": 3}


def test_it_is_told_of_a_mode_that_the_engine_has() -> None:
    cpp = replace(PROBLEM.implementation, engine="eigen")
    failed = LayerAnswer(failure=Failure("raised", "it does not compile"))
    for engine, mode in ((cpp, "forward"), (PROBLEM.implementation, "reverse")):
        (check,) = with_failure(replace(PROBLEM, implementation=engine), failed).checks
        assert check.mode == mode


def test_whole_numbers_where_a_framework_misses_integers() -> None:
    raised = LayerAnswer(failure=Failure("raised", "IndexError: indices must be long", "at line 1"))
    (finding,) = with_failure(PROBLEM, raised).findings
    assert finding.detail.startswith("at line 1\n`x`: floating-point numbers; ")
    other = LayerAnswer(failure=Failure("raised", "ValueError: no interesting", "at line 1"))
    (finding,) = with_failure(PROBLEM, other).findings
    assert finding.detail == "at line 1"
    point = {name: replace(e, value=e.value + 0.5) for name, e in PROBLEM.spec.points[0].items()}
    drawn = replace(PROBLEM, spec=replace(PROBLEM.spec, points=(point,)))
    (finding,) = with_failure(drawn, raised).findings
    assert finding.detail.startswith("at line 1\n`x`: floating-point numbers; ")


@pytest.mark.parametrize(
    ("message", "is_hinted"),
    [
        ("TypeError: Expected float for argument 'alpha' not <tf.Tensor: shape=()>", True),
        ("TypeError: argument 'x' (position 2) must be Number, not Tensor", True),
        ("TypeError: expected one of: * (Tensor input, tuple of floats scale_factors)", True),
        ("ValueError: the number of floats is odd", False),
    ],
)
def test_single_numbers_where_a_framework_misses_them(message: str, is_hinted: bool) -> None:
    point = {name: replace(e, value=np.asarray(0.5)) for name, e in PROBLEM.spec.points[0].items()}
    problem = replace(PROBLEM, spec=replace(PROBLEM.spec, points=(point,)))
    failed = LayerAnswer(failure=Failure("raised", message))
    (finding,) = with_failure(problem, failed).findings
    hint = "`x`: an input, and therefore an array; a lambda can pass the number itself"
    assert finding.detail == (hint if is_hinted else "")
