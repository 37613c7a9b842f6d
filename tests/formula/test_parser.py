from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck_cli.domain.place import Span
from gradcheck_cli.formula import Argument, parse

from .writing import SHAPES, helps, mistakes, output, program


def test_the_last_statement_is_the_output_by_its_name() -> None:
    node = output("z = x @ W\ny = sin(z)\nloss = sum(y ** 2)")
    assert (node.op, node.name, node.shape, node.kind) == ("sum", "loss", (), "float")


def test_a_bare_expression_is_an_output_without_a_name() -> None:
    node = output("1 / exp(s)")
    assert (node.op, node.name, node.text) == ("divide", None, "1 / exp(s)")


def test_every_node_knows_its_place_and_text() -> None:
    built = program("z = x @ W\nloss = sum(sin(z) ** 2)")
    places = {node.text: node.span for node in built.nodes if node.op != "input"}
    assert places == {
        "x @ W": Span(1, 5, 1, 10),
        "sin(z)": Span(2, 12, 2, 18),
        "2": Span(2, 22, 2, 23),
        "sin(z) ** 2": Span(2, 12, 2, 23),
        "sum(sin(z) ** 2)": Span(2, 8, 2, 24),
    }


def test_every_node_stands_after_its_arguments() -> None:
    built = program("a = x * 2\nb = sin(a) + a\nb - exp(b)")
    assert all(arg < index for index, node in enumerate(built.nodes) for arg in node.args)


def test_an_input_stands_where_it_is_used_first() -> None:
    built = program("y = 2 * s\ny * s")
    assert built.nodes[built.inputs["s"]].span == Span(1, 9, 1, 10)


def test_what_the_output_does_not_need_is_left_out_but_every_input_stays() -> None:
    built = program("unused = exp(x) * 3\ns ** 2")
    assert [node.op for node in built.nodes if node.op != "input"] == ["constant", "power"]
    assert list(built.inputs) == list(SHAPES)


def test_mistakes_of_unused_statements_are_told() -> None:
    assert mistakes("unused = sum(x, axis=9)\ns") == [
        "GC906 1:10-24 sum(x, axis=9): (3, 2): there is no axis 9"
    ]


def test_all_mistakes_are_told_at_once_and_in_order() -> None:
    assert mistakes("a = x + zz\nb = sun(x)\nc = x @ x\nd = x.T\na + b + c + d") == [
        "GC905 1:9-11 unknown name `zz`",
        "GC905 2:5-8 unknown operation `sun`",
        "GC906 3:5-10 x @ x: (3, 2) @ (3, 2): the inner sizes 2 and 3 differ",
        "GC904 4:5-8 `.T`: attributes are not part of the formula language",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "GC904 1:1-2 the formula is empty"),
        ("# only words", "GC904 1:1-2 the formula is empty"),
        ("x > 0", "GC907 1:1-6 the output has bool values, which have no gradient"),
        ("y = n * 2", "GC907 1:5-10 the output has int values, which have no gradient"),
        ("3", "GC907 1:1-2 the output is a constant: there is nothing to differentiate"),
        (
            "n / 2",
            "GC907 1:1-6 the output depends on no floating-point input: there is no gradient",
        ),
        ("s, s", "GC904 1:1-5 a formula has one output, but this is a list"),
        (
            "def f(a):\n    return a",
            "GC904 1:1-10 a formula must end with its output: an expression or an assignment",
        ),
        (
            "s ** 2\ns ** 3",
            "GC904 1:1-7 this value is not used: "
            "only the last statement of a formula is its output",
        ),
    ],
)
def test_an_output_must_be_one_floating_value_of_an_input(text: str, told: str) -> None:
    assert mistakes(text) == [told]


def test_pi_e_and_inf_are_constants_unless_shadowed() -> None:
    values = [node.value for node in program("pi * s + e * s").nodes if node.op == "constant"]
    assert values == [3.141592653589793, 2.718281828459045]
    assert program("where(s < inf, s, 0)")
    shadowed = parse("e + 1", inputs={"e": Argument((2,))})
    assert shadowed.program is not None
    assert shadowed.program.result.shape == (2,)


def test_constants_of_the_spec_are_numbers_of_the_formula() -> None:
    built = program("k * s", k=3)
    assert [node.value for node in built.nodes if node.op == "constant"] == [3]


def test_an_input_of_unknown_shape_silences_what_is_made_of_it_and_nothing_else() -> None:
    parsed = parse("y = lost @ x\nsum(y) + sun(x)", inputs={"x": Argument((2,)), "lost": None})
    assert parsed.program is None
    assert [error.message for error in parsed.errors] == ["unknown operation `sun`"]
    alone = parse("sum(lost)", inputs={"lost": None})
    assert (alone.program, alone.errors) == (None, ())


def test_a_near_name_is_offered() -> None:
    assert helps("maks + s") == ["did you mean `mask`?"]
    assert helps("zzz") == ["visible here: x, W, v, s, mask, n"]


_SIGNS = "( ) [ ] , + - * / ** @ < == & | ~ % = += : := ; # \\ 0 1 2.5 1e400 None ... 'a' 1j"
_NAMES = "x W s mask n g f sin sum stack where reshape max pi é True axis= shape= .T .sum() np."
_KEYWORDS = "and not in lambda if else __import__ await yield import"
_LINES = ["\t", "\n", "\n    ", "def f(a):\n    return ", "@custom_gradient(f)\n"]
_LOOP = "for i in range(3):\n    "
_WORDS = st.sampled_from([*f"{_SIGNS} {_NAMES} {_KEYWORDS}".split(), *_LINES, _LOOP])


@settings(max_examples=400, deadline=None)
@given(st.lists(_WORDS, max_size=25).map(" ".join) | st.text(max_size=40))
def test_no_text_raises_and_every_mistake_has_a_place_in_it(text: str) -> None:
    parsed = parse(text, inputs=SHAPES)
    assert (parsed.program is None) == bool(parsed.errors)
    lines = text.split("\n")
    for error in parsed.errors:
        assert 1 <= error.span.line <= len(lines)
        assert 1 <= error.span.column <= len(lines[error.span.line - 1]) + 1
        assert (error.span.end_line, error.span.end_column) > (error.span.line, error.span.column)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s +", "GC904 1:4-5 not valid syntax"),
        ("y = (s", "GC904 1:5-6 not valid syntax: '(' was never closed"),
        ("y = s)", "GC904 1:6-7 not valid syntax: unmatched ')'"),
        ("y = s\n  z = s", "GC904 2:3-4 not valid syntax: unexpected indent"),
        ("s s", "GC904 1:3-4 not valid syntax"),
        ("y = 'a", "GC904 1:5-6 not valid syntax: unterminated string literal"),
        ("s = 012", "GC904 1:5-6 not valid syntax: leading zeros"),
    ],
)
def test_syntax_errors_have_the_place_and_words_of_python(text: str, told: str) -> None:
    (found,) = mistakes(text)
    assert found.startswith(told)


def test_a_choice_says_where() -> None:
    assert helps("s if s") == ["a choice between values is written where(condition, a, b)"]


@pytest.mark.parametrize("character", ["\x00", "\x0c", "\r", "\x1b", "\u2028", "\ud800"])
def test_control_characters_are_no_part_of_a_formula(character: str) -> None:
    assert mistakes(f"s + {character} 1") == [
        f"GC904 1:5-6 the formula contains the control character U+{ord(character):04X}"
    ]


def test_pythons_advice_on_style_is_not_heard() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mistakes("s is 1") == ["GC904 1:1-7 the comparisons are < <= > >= == and !="]


def test_an_endless_number_is_told_in_words() -> None:
    (told,) = mistakes("s * " + "9" * 5000)
    assert told.endswith("not valid syntax: a number has too many digits")
