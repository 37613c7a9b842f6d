"""The block of text of one finding, and of one mistake in a spec."""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.domain.place import Place, Source, Span
from gradcheck_cli.report.blocks import (
    error_block,
    finding_block,
    finding_in_brief,
    finding_place,
    point_words,
    title,
)
from gradcheck_cli.report.style import Style

from . import samples

WIDE = Style(width=100)
RESULT = replace(samples.quadratic(), source=Source("r.yaml", samples.RECIPROCAL))
FINDING = samples.nan_finding("torch")
FRAMES = [
    '  File "layer.py", line 6, in forward',
    "    return 1 / x.exp()",
    "ValueError: no",
    "of any kind",
]


def lines(finding: object, style: Style = WIDE) -> list[str]:
    return [line.plain for line in finding_block([finding], RESULT, style)]  # type: ignore[list-item]


def test_a_mistake_in_a_configuration_has_no_code() -> None:
    assert title("GC201", "error") == "error[GC201] nan-gradient"
    assert title("", "error") == "error"


def test_the_finger_points_at_the_users_code_then_at_the_cause_then_at_the_spec() -> None:
    bare = replace(FINDING, cause=None, place=None)
    assert finding_place(bare, RESULT) == (RESULT.source, FINDING.span)
    caused = replace(bare, cause=samples.overflow_cause("torch", ""))
    assert finding_place(caused, RESULT) == (RESULT.source, Span(6, 12, 6, 18))
    layer = Source("layer.py", "def f(x):\n    return x\n")
    there = Place(layer, Span(2, 5, 2, 13), "return x")
    assert finding_place(replace(caused, place=there), RESULT) == (layer, there.span)


def test_a_point_is_known_by_its_number_or_where_a_search_found_it_by_its_values() -> None:
    assert point_words(replace(FINDING, point=2)) == "points[2]"
    assert point_words(replace(FINDING, point=2, at=("x=90", "y=1"))) == "x=90 y=1"


def test_a_single_frame_at_the_line_that_is_shown_is_left_out() -> None:
    raised = replace(FINDING, cause=None, message="ValueError: no", detail="\n".join(FRAMES))
    elsewhere = "\n".join(lines(raised))
    assert 'File "layer.py", line 6' in elsewhere
    assert elsewhere.index("of any kind") < elsewhere.index('File "layer.py"')
    layer = Source("layer.py", "\n" * 5 + "    return 1 / x.exp()\n")
    there = replace(raised, place=Place(layer, Span(6, 5, 6, 23), "return 1 / x.exp()"))
    assert 'File "layer.py"' not in "\n".join(lines(there))
    assert "of any kind" in "\n".join(lines(there))


def test_a_long_detail_has_its_end_and_all_of_it_with_v() -> None:
    many = replace(FINDING, cause=None, detail="\n".join(f"line {i}" for i in range(20)))
    short = [line for line in lines(many) if "line" in line]
    assert "12 lines before" in short[0]
    assert [line.split()[-1] for line in short[1:]] == [str(i) for i in range(12, 20)]
    everything = lines(many, Style(width=100, verbose=True))
    assert sum(line.strip().startswith("line ") for line in everything) == 20


def test_a_finding_in_brief_breaks_no_code() -> None:
    (group,) = ([replace(FINDING, severity="note", allowed=True, reason="it is known")],)
    for width in (40, 120):
        first, *rest = (line.plain for line in finding_in_brief(group, RESULT, Style(width=width)))
        assert first.startswith("      note[GC201] nan-gradient")
        assert all(line.startswith("        ") for line in rest)
        assert "(accepted: it is known)" in " ".join(" ".join([first, *rest]).split())


def test_a_mistake_of_a_spec_has_its_key_and_its_help() -> None:
    error = replace(samples.spec_error(), key="inputs.x", help="write a number")
    shown = [line.plain.split() for line in error_block(error, WIDE)]
    assert ["key", "inputs.x"] in shown
    assert ["help", "write", "a", "number"] in shown
