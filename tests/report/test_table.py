from gradcheck_cli.report.style import Style
from gradcheck_cli.report.table import table_lines

HEADER = ("name", "words")
ROWS = [("a", "one two three four five six seven eight"), ("bb", "nine")]


def lines(width: int, wrap: tuple[int, ...]) -> list[str]:
    return [line.plain for line in table_lines(HEADER, ROWS, Style(width=width), wrap=wrap)]


def test_columns_are_as_wide_as_they_must_be() -> None:
    assert lines(80, wrap=()) == [
        "name   words",
        "a      one two three four five six seven eight",
        "bb     nine",
    ]


def test_prose_is_wrapped_inside_its_column() -> None:
    assert lines(30, wrap=(1,)) == [
        "name   words",
        "a      one two three four five",
        "       six seven eight",
        "bb     nine",
    ]


def test_a_table_too_wide_is_stacked() -> None:
    assert lines(30, wrap=()) == [
        "a",
        "  words",
        "    one two three four five",
        "    six seven eight",
        "bb",
        "  words  nine",
    ]


def test_a_column_that_can_be_spared_is_left_out_first() -> None:
    rows = [(*row, "more") for row in ROWS]
    shown = table_lines((*HEADER, "spare"), rows, Style(width=46), spare=("spare",))
    assert [line.plain for line in shown] == lines(80, wrap=())


def test_no_word_is_cut() -> None:
    header, rows = ("name", "words"), [("soft_cross_entropy(logits,", "one two three")] * 2
    for width in (24, 34, 44, 80):
        shown = table_lines(header, rows, Style(width=width), wrap=(0, 1))
        words = " ".join(line.plain for line in shown).split()
        assert set(words) <= {"name", "words", "soft_cross_entropy(logits,", "one", "two", "three"}
