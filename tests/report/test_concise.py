import io

from gradcheck_cli.report import open_writer
from gradcheck_cli.report.style import Style
from gradcheck_cli.report.summary import summary_line

from . import samples


def test_one_line_a_finding() -> None:
    stream = io.StringIO()
    writer = open_writer("concise", stream, Style(width=120))
    report = samples.everything()
    for result in report.results:
        writer.spec(result)
    writer.finish(report)
    lines = stream.getvalue().splitlines()
    findings = sum(len(result.findings) for result in report.results)
    assert len(lines) == findings + len(report.errors) + 1
    assert lines[0] == (
        "specs/reciprocal_exp.yaml:6:12: error[GC201] nan-gradient torch float32 reverse x "
        "the gradient is nan, and the truth is a number "
        "(cause: overflow, exp)"
    )
    assert lines[2] == (
        "specs/dense.yaml:6:10: error[GC101] wrong-gradient reference float64 reverse W[0,0] "
        "the gradient is wrong in every precision"
    )
    assert lines[-2] == (
        "specs/bad.yaml:2:8: error[GC905] unknown-name unknown operation `epx` "
        "(help: did you mean `exp`?)"
    )
    assert lines[-1] == summary_line(report).plain


def test_quiet_leaves_notes_out() -> None:
    stream = io.StringIO()
    writer = open_writer("concise", stream, Style(width=120, quiet=True))
    writer.spec(samples.relu_kink())
    assert stream.getvalue() == ""
