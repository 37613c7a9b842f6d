"""A difference quotient is told to be off, and blamed on nobody."""

from collections.abc import Callable

from tests.conftest import Judged

ENGINES = ("finite-difference",)


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
