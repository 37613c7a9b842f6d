from __future__ import annotations

from gradcheck_cli.domain.place import Span
from gradcheck_cli.formula import Argument, parse

from .writing import mistakes, program


def test_columns_count_characters_not_bytes() -> None:
    assert mistakes("σ = s * 2  # é\nσ + é + zz") == [
        "GC905 2:5-6 unknown name `é`",
        "GC905 2:9-11 unknown name `zz`",
    ]


def test_a_place_maps_every_span() -> None:
    def place(start: int, end: int) -> Span:
        return Span(100, 1000 + start, 100, 1000 + end)

    parsed = parse("y = sin(s)\ny * zz", place, inputs={"s": Argument(())})
    assert [error.span for error in parsed.errors] == [Span(100, 1015, 100, 1017)]


def test_a_fragment_of_several_lines_is_told_on_one() -> None:
    built = program("sum(\n    s\n    * 2\n)")
    node = built.result
    assert (node.text, node.span) == ("sum( s * 2 )", Span(1, 1, 4, 2))
