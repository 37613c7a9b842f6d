import io
from dataclasses import replace

import pytest

from gradcheck_cli.domain.codes import CODES
from gradcheck_cli.domain.place import Place, Source, Span
from gradcheck_cli.domain.report import Pass, Report, SpecResult
from gradcheck_cli.report import open_writer
from gradcheck_cli.report.style import Style

from . import samples


def screen(report: Report, width: int = 120, **style: bool) -> str:
    stream = io.StringIO()
    writer = open_writer("full", stream, Style(width=width, **style))
    for result in report.results:
        writer.spec(result)
    writer.finish(report)
    return stream.getvalue()


def only(result: SpecResult, width: int = 120, **style: bool) -> str:
    return screen(samples.report(result), width, **style)


def test_a_pass_is_one_line_with_its_numbers() -> None:
    first, last = only(samples.quadratic()).splitlines()
    assert first == (
        "ok    quadratic  worst error 0 ulp  "
        "reference, torch, tensorflow; float32, float64; reverse"
    )
    assert last == "1 spec: 1 passed; 3.21 s"


def passed(*passes: Pass, worst: float | None = None) -> SpecResult:
    right = samples.quadratic()
    checks = [replace(check, max_ulps=worst, passed_by=passes) for check in right.checks]
    return replace(right, checks=tuple(checks))


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (passed(worst=2.5), "worst error 2.5 ulp  "),
        (passed(Pass("few digits", 1, 40.0), worst=40.0), "worst error 4.8e-06 relative  "),
        # what is no error is not shown as one of 1e16 ulp
        (passed(Pass("zero", 3, 1.1e16), worst=1.1e16), "ok quadratic passed by rule: zero  "),
        (
            passed(Pass("few digits", 1, 6.0), Pass("flushed", 3, 7.1e44), worst=None),
            "worst error 7.2e-07 relative; passed by rule: flushed  ",
        ),
        (passed(Pass("rounding", 1, 2.0**22), worst=2.0**22), "worst error 0.5 relative  "),
        (passed(Pass("kink", 1, 8e6), worst=0.0), "worst error 0 ulp  "),
    ],
)
def test_the_worst_error_is_one_that_means_something(result: SpecResult, said: str) -> None:
    shown = " ".join(only(result).split())
    assert " ".join(said.split()) in shown


def test_verbose_says_by_which_rule_numbers_passed() -> None:
    shown = only(passed(Pass("zero", 3, 1.1e16), Pass("kink", 1, None)), verbose=True)
    assert "torch float32 reverse x passed by rule" in shown
    assert "zero: a rounding residue of terms that cancel to zero (3 entries, worst: all" in shown
    assert "kink: between the one-sided derivatives of a kink (1 entry)" in shown


def test_a_trained_spec_shows_its_parameters_to_the_last_digit() -> None:
    assert "w = 1.745076887727999, b = 0.5794645661516962" in only(samples.trained(), verbose=True)


def test_a_failure_looks_like_the_picture() -> None:
    assert only(samples.reciprocal_exp()).split("\n\n")[1].splitlines() == [
        "error[GC201] nan-gradient  reciprocal_exp  torch, tensorflow float32 reverse",
        "  --> specs/reciprocal_exp.yaml:6:12",
        "    |",
        "  6 | model: 1 / exp(x)",
        "    |            ^^^^^^ overflows float32: exp(100) = 2.69e+43 > 3.40e+38",
        "  entry   computed   truth (confirmed)   finite difference         error",
        "  x       nan        -3.72007598e-44     -3.72007598e-44 ± 4e-53   -",
        "  why   forward: exp(100) = inf, 1/inf = 0; backward: 0 * inf = nan",
        "  cause overflow; with only `exp(x)` exact, the gradient is right: 0.4 ulp "
        "(torch aten.exp.default, tensorflow Exp)",
        "  help  gradcheck explain GC201",
        "  rerun gradcheck run reciprocal_exp.yaml --engine torch --dtype float32 --seed 0",
    ]


def test_what_an_output_that_is_no_number_spoils_with_it_is_one_line() -> None:
    """But not where somebody accepts the output alone, or another operation is to blame."""
    result = samples.reciprocal_exp()
    gradient = result.findings[0]
    output = replace(gradient, code="GC203", input=None, entries=())
    title = "\nerror[GC201] nan-gradient"
    assert title not in only(replace(result, findings=(output, gradient)))
    assert "      error[GC201] nan-gradient" in only(replace(result, findings=(output, gradient)))
    other = replace(gradient, cause=replace(gradient.cause, op="log"))
    accepted = replace(output, allowed=True, reason="known")
    for findings in ((output, other), (accepted, gradient)):
        assert title in only(replace(result, findings=findings))


def test_a_pattern_is_named() -> None:
    assert "  hint  pattern: wrong sign\n" in only(samples.wrong_sign())


def test_a_note_is_short_and_the_spec_passes() -> None:
    text = only(samples.relu_kink())
    assert text.startswith("ok    relu_at_zero")
    assert "note[GC401] kink" in text
    assert "rerun" not in text
    assert "entry" not in text


def test_a_mistake_in_a_spec_has_the_same_shape() -> None:
    text = screen(samples.report(errors=(samples.spec_error(),)))
    assert text.splitlines()[:7] == [
        "error[GC905] unknown-name",
        "  --> specs/bad.yaml:2:8",
        "    |",
        "  2 | model: epx(x)",
        "    |        ^^^ unknown operation `epx`",
        "  key   model",
        "  help  did you mean `exp`?",
    ]
    assert text.splitlines()[-1] == "0 specs: 0 passed; 1 mistake in spec files; 3.21 s"


def test_verbose_shows_each_engine_and_each_finding() -> None:
    text = screen(samples.everything(), verbose=True)
    for engine in samples.ENGINES:
        assert f"{engine} float32 reverse\n        z = 11, dz/dx = 8\n" in text
        assert f"error[GC101] wrong-gradient  dense  {engine} float64 reverse" in text
    assert "seed 0" in text


def test_quiet_shows_failures_only() -> None:
    text = screen(samples.everything(), quiet=True)
    assert "quadratic" not in text
    assert "relu_at_zero" not in text
    assert "GC201" in text
    assert text.rstrip().endswith("3.21 s")


def test_an_allowed_finding_gives_its_reason() -> None:
    finding = replace(samples.nan_finding("torch"), allowed=True, reason="we never get there")
    result = replace(samples.reciprocal_exp(), status="passed", findings=(finding,))
    assert "  allow accepted: we never get there\n" in only(result, verbose=True)
    text = only(result)
    assert "error[GC201] nan-gradient" in text
    assert "(accepted: we never get there)" in text
    assert len(text.splitlines()) < 6
    assert text.splitlines()[-1] == "1 spec: 1 passed; 1 allowed; 3.21 s"


def test_warnings_alone_are_marked() -> None:
    finding = replace(samples.nan_finding("torch"), code="GC501", severity="warning")
    result = replace(samples.quadratic(), findings=(finding,))
    assert only(result).startswith("warn  quadratic")


def test_an_interrupted_run_says_so() -> None:
    report = replace(samples.report(samples.quadratic()), interrupted=True)
    assert screen(report).splitlines()[-1] == "1 spec: 1 passed; interrupted; 3.21 s"


def test_colour_is_there_only_when_asked_for() -> None:
    assert "\x1b[" not in screen(samples.everything())
    assert "\x1b[1;31merror[GC201]" in screen(samples.everything(), color=True)


def test_nothing_that_a_user_writes_is_read_as_markup_or_steers_the_terminal() -> None:
    source = replace(samples.quadratic().source, path="specs/[bold]:smile:\x1b[2J.yaml")
    result = replace(samples.reciprocal_exp(), spec="w[i] [red]x[/red]\x1b[31m", source=source)
    text = only(result)
    assert "w[i] [red]x[/red]\\x1b[31m" in text
    assert "[bold]:smile:\\x1b[2J.yaml" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_lines_keep_to_the_screen(width: int) -> None:
    # the closing line is left to the terminal, and what is to be copied is in one piece
    lines = screen(samples.everything(), width).splitlines()[:-1]
    commands = [line for line in lines if line.startswith("  rerun gradcheck run ")]
    assert [line for line in lines if len(line) > width and line not in commands] == []


@pytest.mark.parametrize("code", CODES)
def test_a_heading_in_a_narrow_window_is_there_once(code: str) -> None:
    finding = replace(samples.nan_finding("torch"), code=code, severity="note", cause=None)
    text = only(replace(samples.quadratic(), findings=(finding,)), width=30)
    assert text.count(f"note[{code}] {CODES[code].name}") == 1
    assert text.count("note[") == 1


def test_the_words_of_an_exception_keep_to_the_screen() -> None:
    detail = "  File 'layers.py', line 3\n" + "missing arguments of the constructor " * 5
    finding = replace(samples.nan_finding("torch"), code="GC701", detail=detail, cause=None)
    lines = only(replace(samples.quadratic(), findings=(finding,)), width=60).splitlines()
    assert "          File 'layers.py', line 3" in lines
    assert max(map(len, (line for line in lines if "arguments" in line))) <= 60
    assert sum(line.count("arguments") for line in lines) == 5


FRAME = '  File "/home/me/e.py", line 3, in f\n'
CODE = "    raise ValueError(2)\n    ^^^^^\n"
SAID = "ValueError: 2\n"


@pytest.mark.parametrize(
    ("detail", "left"),
    [
        (FRAME + CODE + SAID, []),
        (FRAME + SAID, []),
        (FRAME + CODE + SAID + "what to do\n", ["what to do"]),
        ((FRAME + CODE) * 2 + SAID + "what to do\n", ["what", *["line 3, in f", "raise", "^"] * 2]),
        (FRAME * 9 + SAID + "and\n" * 9, ["1 lines", *["and"] * 8, "1 lines", *["line 3"] * 8]),
        (FRAME.replace("line 3", "line 4") + CODE + SAID, ["line 4, in f", "raise", "^"]),
        (FRAME.replace("/e.py", "/g.py") + CODE + SAID, ["g.py", "raise", "^"]),
        ((FRAME + CODE) * 2 + SAID, ["line 3, in f", "raise", "^"] * 2),
        ("Fatal Python error: Aborted\n" + FRAME.replace(", in", " in"), ["Fatal"]),
    ],
)
def test_a_traceback_repeats_nothing_that_the_window_shows(detail: str, left: list[str]) -> None:
    line = "    raise ValueError(2)"
    finding = replace(
        samples.nan_finding("torch"),
        code="GC701",
        message=SAID.strip(),
        detail=detail,
        cause=None,
        entries=(),
        place=Place(Source("e.py", line, 3), Span(3, 5, 3, 24), line.strip()),
    )
    above, said, below = only(replace(samples.quadratic(), findings=(finding,))).partition(SAID)
    assert "e.py:3:5" in above
    assert said
    assert SAID not in below
    inside = below.partition("  help")[0].splitlines()
    assert len(inside) == len(left)
    assert all(word in row for word, row in zip(left, inside, strict=True))


@pytest.mark.parametrize("width", [80, 120])
def test_a_green_log_of_fifty_specs_is_short(width: int) -> None:
    checks = [
        replace(check, engine=engine, mode=mode)
        for check in samples.checks()
        for engine in ("reference", "torch", "tensorflow", "jax")
        for mode in ("reverse", "forward")
    ]
    note = "torch: forward mode was left out: it has no jvp"
    right = replace(samples.quadratic(), checks=tuple(checks), notes=(note,))
    specs = (replace(right, spec=f"a_layer_with_a_long_name_{number}") for number in range(50))
    text = screen(samples.report(*specs), width)
    assert len(text.splitlines()) <= 55
    assert text.count(note) == 1


def test_an_ascii_stream_gets_ascii_signs() -> None:
    assert screen(samples.everything(), unicode=False).isascii()
