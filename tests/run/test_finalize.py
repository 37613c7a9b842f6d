"""From findings to a SpecResult: what is allowed, selected, named and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.domain.evaluation import Training
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Check, Finding, Pass, Rule, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.finalize import Found, settle, training_result
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.specfile import read

Read = Callable[[str], Spec]
TEXT = "name: mine\ninputs: {x: 2.0}\nmodel: |\n  y = x ** 2\n"
ALLOW = TEXT + "allow: [{code: GC201, engine: torch, reason: known}]\n"


def _found(code: str = "GC201", **fields: Any) -> Finding:
    given = {
        "code": code,
        "severity": "error",
        "message": "",
        "span": Span(1, 1, 1, 2),
        "engine": "torch",
        "dtype": "float32",
        "mode": "reverse",
        "input": "x",
    }
    return Finding(**{**given, **fields})


def _settled(spec: Spec, findings: Sequence[Finding], **settings: Any) -> SpecResult:
    options = RunOptions(**settings)
    plan = make_plan(spec, options, engines())
    usual = [name for name, found in engines().items() if found.by_default]
    return settle(plan, options, usual, Found(findings=list(findings)))


def test_an_error_fails_the_spec(spec: Read) -> None:
    assert _settled(spec(TEXT), [_found()]).status == "failed"
    assert _settled(spec(TEXT), [_found(severity="warning")]).status == "passed"
    assert _settled(spec(TEXT), []).status == "passed"


def test_an_allowed_error_does_not(spec: Read) -> None:
    result = _settled(spec(ALLOW), [_found()])
    assert result.status == "passed"
    assert result.findings[0].allowed
    assert result.findings[0].reason == "known"
    assert result.unmatched_allows == ()
    assert _settled(spec(ALLOW), [_found(engine="tensorflow")]).status == "failed"


def test_an_allow_that_matches_nothing_is_told(spec: Read) -> None:
    assert _settled(spec(ALLOW), []).unmatched_allows == (
        "line 5: `GC201 torch` matched no finding (known)",
    )


def test_but_not_where_its_engine_was_not_run(spec: Read) -> None:
    only = Layered(override=("reference",))
    assert _settled(spec(ALLOW), [], engines=only).unmatched_allows == ()
    anyone = spec(TEXT + "allow: [{code: GC201, reason: known}]\n")
    assert _settled(anyone, [], engines=only).unmatched_allows == ()
    assert len(_settled(anyone, []).unmatched_allows) == 1
    assert _settled(anyone, [], modes=Layered(override=("forward",))).unmatched_allows == ()
    assert _settled(anyone, [], dtypes=Layered(override=("float16",))).unmatched_allows == ()


def test_an_unused_allow_is_a_finding_at_its_place(spec: Read) -> None:
    (finding,) = _settled(spec(ALLOW), []).findings
    assert (finding.code, finding.severity, finding.span.line) == ("GC908", "warning", 5)
    assert finding.message == "`GC201 torch` matched no finding (known)"


def test_an_allow_is_not_unused_where_an_engine_failed(spec: Read) -> None:
    assert _settled(spec(ALLOW), [_found("GC702")]).unmatched_allows == ()


def test_an_ignored_finding_still_matches_its_allow(spec: Read) -> None:
    assert _settled(spec(ALLOW), [_found()], ignore=("GC2",)).unmatched_allows == ()


def test_codes_are_selected_and_ignored_by_prefix(spec: Read) -> None:
    findings = [_found("GC201"), _found("GC203"), _found("GC302")]

    def codes(**settings: Any) -> list[str]:
        return [f.code for f in _settled(spec(TEXT), findings, **settings).findings]

    assert codes(select=("GC2",)) == ["GC201", "GC203"]
    assert codes(ignore=("GC203",)) == ["GC201", "GC302"]
    assert codes(select=("GC2",), ignore=("GC203",)) == ["GC201"]
    assert _settled(spec(TEXT), findings, select=("GC4",)).status == "passed"


def test_what_is_left_out_stays_with_its_reason(spec: Read) -> None:
    findings = [_found("GC201"), _found("GC203"), _found("GC302")]

    def reasons(**settings: Any) -> dict[str, str]:
        left_out = _settled(spec(TEXT), findings, **settings).suppressed
        return {finding.code: finding.reason for finding in left_out}

    assert reasons() == {}
    assert reasons(ignore=("GC2",)) == {"GC201": "--ignore GC2", "GC203": "--ignore GC2"}
    assert reasons(select=("GC201", "GC203")) == {"GC302": "--select GC201,GC203"}
    assert reasons(select=("GC2",), ignore=("GC203",)) == {
        "GC203": "--ignore GC203",
        "GC302": "--select GC2",
    }


def test_a_baseline_knows_a_finding_as_often_as_it_has_it(spec: Read) -> None:
    one = spec(TEXT)
    found = [_found(), _found(point=1)]
    first, _ = _settled(one, found).findings
    options = RunOptions(baseline={first.fingerprint: 1}, baseline_file="known.json")
    plan = make_plan(one, options, engines())
    known = Counter(options.baseline)
    result = settle(plan, options, (), Found(findings=found), known)
    assert [f.point for f in result.findings] == [1]
    assert [f.reason for f in result.suppressed] == ["baseline known.json"]
    assert result.ignored == {"GC201": 1}
    again = settle(plan, options, (), Found(findings=found), known)
    assert len(again.findings) == 2


def test_a_fingerprint_survives_moved_lines_and_a_renamed_file(tmp_path: Path) -> None:
    """Where the spec has no name, what it checks stands for it."""
    text = "inputs: {x: 2.0}\nmodel: x ** 2\n"

    def fingerprint(file: str, text: str) -> str:
        (tmp_path / file).write_text(text)
        (one,), errors = read(str(tmp_path / file))
        assert not errors
        return _settled(one, [_found()]).findings[0].fingerprint

    assert fingerprint("a.yaml", text) == fingerprint("b.yaml", f"# moved\n\n{text}")
    assert fingerprint("a.yaml", text) != fingerprint("a.yaml", text.replace("2.0", "3.0"))
    named = f"name: mine\n{text}"
    assert fingerprint("a.yaml", named) == fingerprint("b.yaml", named.replace("2.0", "3.0"))
    (tmp_path / "one.py").write_text("")
    (tmp_path / "two.py").write_text("")
    layer = "inputs: {x: 2.0}\nimplementations: {torch: one.py:Net}\n"
    assert fingerprint("a.yaml", layer) == fingerprint("a.yaml", layer.replace("one", "two"))
    assert fingerprint("a.yaml", layer) != fingerprint("a.yaml", layer.replace("Net", "Other"))


def test_fingerprint_is_stable_and_tells_findings_apart(spec: Read) -> None:
    one = spec(TEXT)
    first, again, other = _settled(one, [_found(), _found(message="!"), _found(point=1)]).findings
    assert first.fingerprint == again.fingerprint == "6f3550a360571f4c"
    assert other.fingerprint != first.fingerprint


def test_repeat_is_a_command_line(spec: Read) -> None:
    one = spec(TEXT)
    finding = _found(mode="forward-over-reverse")
    (result,) = _settled(one, [finding], seed=7).findings
    assert result.repeat == (
        f"gradcheck run {one.source.path} --engine torch --dtype float32 --mode reverse,forward "
        "--seed 7"
    )
    (bare,) = _settled(one, [_found(engine=None, dtype=None, mode=None)]).findings
    assert bare.repeat == f"gradcheck run {one.source.path} --seed 0"


def test_what_compares_is_repeated_with_all_that_it_compares(spec: Read) -> None:
    one = spec(TEXT)
    modes = _found(code="GC105", mode="reverse")
    engines = _found(code="GC107", mode="reverse")
    first, second = _settled(
        one, [modes, engines], engines=Layered(override=("torch", "jax"))
    ).findings
    path = one.source.path
    assert first.repeat == (
        f"gradcheck run {path} --engine torch --dtype float32 --mode reverse,forward --seed 0"
    )
    assert second.repeat == (
        f"gradcheck run {path} --engine torch,jax --dtype float32 --mode reverse --seed 0"
    )


def test_limits_of_the_command_line_are_repeated(spec: Read) -> None:
    one = spec(TEXT + "\ntimeout: 5")
    limits = {"timeout": Layered(override=0.25), "power": Layered(override=0.99999999)}
    (found,) = _settled(one, [_found(engine=None)], **limits).findings
    assert found.repeat.endswith("--power 0.99999999 --timeout 0.25 --seed 0")
    (found,) = _settled(one, [_found(engine=None)]).findings
    assert "--timeout" not in found.repeat


def test_output_has_the_name_that_the_formula_gives_it(spec: Read) -> None:
    assert _settled(spec(TEXT), []).output_name == "y"
    assert _settled(spec("inputs: {x: 1.0}\nmodel: x ** 2"), []).output_name == "output"


def test_training_without_an_end_is_no_result() -> None:
    assert training_result(Training("torch", "float32")) is None


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("-dash.yaml", "./-dash.yaml"),
        ("-", "-"),
        ("two words.yaml", "'two words.yaml'"),
        ("it's \udcff.yaml", r"$'it\x27s \xff.yaml'"),
    ],
)
def test_a_file_of_any_name_can_be_repeated(path: str, word: str, spec: Read) -> None:
    one = spec(TEXT)
    one = replace(one, source=replace(one.source, path=path))
    (bare,) = _settled(one, [_found(engine=None, dtype=None, mode=None)]).findings
    assert bare.repeat == f"gradcheck run {word} --seed 0"


@pytest.mark.parametrize("rule", ["some digits", "invisible", "overflow"])
def test_a_loss_that_is_the_compilers_alone_fails_its_check(spec: Read, rule: Rule) -> None:
    """GC108 stands in the place of the finding that would have had to report the loss."""
    passed = Check("torch", "float32", "reverse", "x", "passed", passed_by=(Pass(rule, 3, 1000.0),))
    other = replace(passed, mode="forward", passed_by=())
    plan = make_plan(spec(TEXT), RunOptions(), engines())
    found = Found([passed, other], [_found("GC108", stage="Inductor")])
    result = settle(plan, RunOptions(), (), found)
    assert [one.code for one in result.findings] == ["GC108"]
    assert [one.status for one in result.checks] == ["failed", "passed"]
