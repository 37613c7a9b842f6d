import pytest
from rich.cells import cell_len

from gradcheck_cli.domain.place import COMMAND_LINE, Source, Span
from gradcheck_cli.report.style import Style
from gradcheck_cli.report.window import window


def shown(text: str, span: Span | None, detail: str = "here", width: int = 120) -> list[str]:
    lines = window("a.yaml", Source("a.yaml", text), span, detail, "", Style(width=width))
    return [line.plain for line in lines]


def test_the_caret_stands_below_the_span() -> None:
    assert shown("model: 1 / exp(x)\n", Span(1, 12, 1, 18)) == [
        "  --> a.yaml:1:12",
        "    |",
        "  1 | model: 1 / exp(x)",
        "    |            ^^^^^^ here",
    ]


@pytest.mark.parametrize(
    ("line", "column", "marked"),
    [("\tmodel: y", 9, "y"), ("名前: y", 5, "y"), ("x: \x1b[31mred", 5, "[")],
)
def test_the_caret_is_right_behind_tabs_wide_signs_and_escapes(
    line: str, column: int, marked: str
) -> None:
    _, _, source, caret = shown(line, Span(1, column, 1, column + 1))
    before = source[: source.rindex(marked)] if marked == "y" else source[: source.index(marked)]
    assert cell_len(before) == caret.index("^")
    assert "\x1b" not in source


def test_a_span_over_several_lines_is_marked_to_the_end_of_the_first() -> None:
    *_, caret = shown("abc\ndef\n", Span(1, 2, 2, 2))
    assert caret == "    |  ^^ here"


def test_a_long_line_is_cut_around_the_caret() -> None:
    text = "model: " + "x + " * 50 + "boom(x)" + " + x" * 50
    start = text.index("boom") + 1
    lines = shown(text, Span(1, start, 1, start + 7), width=60)
    assert all(len(line) <= 60 for line in lines)
    assert "boom(x)" in lines[2]
    assert lines[2].index("boom") == lines[3].index("^")


def test_a_long_detail_goes_below_the_caret_and_is_wrapped() -> None:
    lines = shown("model: f(x)", Span(1, 8, 1, 12), detail="words " * 20, width=40)
    assert lines[3] == "    |        ^^^^"
    assert all(line.startswith("    | words") and len(line) <= 40 for line in lines[4:])


def test_without_a_place_there_is_only_the_arrow_and_the_words() -> None:
    assert shown("", None, "no such file") == ["  --> a.yaml", "      no such file"]


def test_an_empty_file_has_no_window() -> None:
    assert shown("", Span(1, 1, 1, 1), "is empty") == ["  --> a.yaml:1:1", "      is empty"]


def test_a_command_line_shows_what_was_typed_and_not_the_spec_that_it_makes() -> None:
    source = Source(COMMAND_LINE, 'torch: {target: "layers.py:Gone", args: [3]}\n')
    lines = window(COMMAND_LINE, source, Span(1, 17, 1, 33), "gone", "", Style(width=120))
    assert [line.plain for line in lines] == [
        "  --> command line",
        "    |",
        "    | layers.py:Gone",
        "    | ^^^^^^^^^^^^^^ gone",
    ]
