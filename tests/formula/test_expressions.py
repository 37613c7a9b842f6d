from __future__ import annotations

import pytest

from .writing import helps, mistakes, ops, output, program


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("s + v", "add"),
        ("s - v", "subtract"),
        ("s * v", "multiply"),
        ("s / v", "divide"),
        ("s ** v", "power"),
        ("x @ W", "matmul"),
        ("-s", "negative"),
    ],
)
def test_operators_are_rows_of_the_table(text: str, op: str) -> None:
    assert ops(text) == [op]


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("s < v", "less"),
        ("s <= v", "less_equal"),
        ("s > v", "greater"),
        ("s >= v", "greater_equal"),
        ("s == v", "equal"),
        ("s != v", "not_equal"),
        ("mask & mask", "logical_and"),
        ("mask | mask", "logical_or"),
        ("~mask", "logical_not"),
    ],
)
def test_comparisons_and_logic_are_rows_of_the_table(text: str, op: str) -> None:
    assert ops(f"where({text}, v[0], 0.0)")[0] == op


def test_python_decides_what_binds_first() -> None:
    built = program("-s ** 2")
    assert [node.text for node in built.nodes if node.op in ("power", "negative")] == [
        "s ** 2",
        "-s ** 2",
    ]


def test_constants_are_folded_in_pythons_numbers() -> None:
    built = program("s ** (1 / 3) + (2 * 3 - 7 // 2) * s")
    assert [node.value for node in built.nodes if node.op == "constant"] == [1 / 3, 3]


def test_a_number_is_a_constant_of_its_own_kind() -> None:
    kinds = {n.text: n.kind for n in program("2 * s + 0.5").nodes if n.op == "constant"}
    assert kinds == {"2": "int", "0.5": "float"}


def test_an_integer_beyond_64_bits_is_a_floating_number() -> None:
    (node,) = (n for n in program("s * 10 ** 30").nodes if n.op == "constant")
    assert (node.value, node.kind) == (1e30, "float")


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        ("0", (2,)),
        ("-1", (2,)),
        ("0, 1", ()),
        ("1:", (2, 2)),
        ("::-1", (3, 2)),
        ("..., 0", (3,)),
        (":, None", (3, 1, 2)),
        ("None, ..., 1:", (1, 3, 1)),
        ("i, 2 * i - 2", ()),
    ],
)
def test_indices_are_integers_slices_none_and_ellipsis(index: str, shape: tuple[int, ...]) -> None:
    assert output(f"x[{index}]", i=1).shape == shape


def test_an_index_is_a_tuple_of_its_parts() -> None:
    assert output("x[1:, -1]").keywords == {"index": (slice(1, None, None), -1)}


@pytest.mark.parametrize(
    ("text", "told", "help"),
    [
        ("x[s]", "GC904 1:3-4 an index must be known before the run", "integers, slices, None"),
        ("x[x > 0]", "GC904 1:3-8 a mask cannot be an index", "where(condition, a, b)"),
        ("x[0.5]", "GC904 1:3-6 0.5 is not an index: indices are integers", ""),
        ("0 < s < 1", "GC904 1:1-10 a chain of comparisons", "write (a < b) & (b < c)"),
        ("s > 0 and s < 1", "GC904 1:1-16 `and` and `or` are not", "(a < b) & (b < c)"),
        ("not mask", "GC904 1:1-9 `not` is not part", "write ~(a < b)"),
        ("s is s", "GC904 1:1-7 the comparisons are < <= > >= == and !=", ""),
        ("x & mask", "GC904 1:1-2 & combines comparisons", "brackets are needed"),
        ("~s", "GC904 1:1-3 ~ negates comparisons, but this is a number", "write -x"),
        ("-(s > 0)", "GC906 1:1-9 -(s > 0): (): - works on numbers", "~ negates a comparison"),
        ("s ^ 2", "GC904 1:1-6 `^` is not part", "a power is written x ** 2"),
        ("s // 2", "GC904 1:1-7 `//` works on constants only", "no gradient"),
        ("s % 2", "GC904 1:1-6 `%` works on constants only", "no useful gradient"),
        ("s if s > 0 else 0", "GC904 1:1-18 `a if c else b`", "where(c, a, b)"),
        ("lambda a: a", "GC904 1:1-12 `lambda` is not part", "def f(x): return"),
        ("[a for a in x]", "GC904 1:1-15 comprehensions", "whole arrays"),
        ("{1: s}", "GC904 1:1-7 dictionaries", ""),
        ("f'{s}'", "GC904 1:1-7 strings are not part of a formula", ""),
        ("s + 'a'", "GC904 1:5-8 a string is used where a number is needed", "for a keyword"),
        ("sum('a')", "GC904 1:5-8 a string is used where a number is needed", "for a keyword"),
        ("s + 1j", "GC904 1:5-7 complex numbers", ""),
        ("s * 1e999", "GC904 1:5-10 the number is larger", "write inf"),
        ("s + None", "GC904 1:5-9 None is used where a number is needed", ""),
        ("s + [1, 2]", "GC904 1:5-11 a list is used where one value is needed", "stack([a, b])"),
        ("stack([*s, 1])", "GC904 1:8-10 * takes the entries of a list, and this is one value", ""),
        ("sin + 1", "GC905 1:1-4 `sin` is an operation, not a value", "call it: sin(x)"),
        ("(y := s)", "GC904 1:2-8 `:=` is not part", "on its own line"),
        ("n ** -1 * s", "GC906 1:1-8 a power of integers needs", "x ** -1.0"),
        ("s[0]", "GC906 1:1-5 s[0]: (): a single number has no such entry", ""),
    ],
)
def test_what_is_not_the_language_says_what_to_write(text: str, told: str, help: str) -> None:
    (found,) = mistakes(text)
    assert found.startswith(told)
    assert help in helps(text)[0]


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("x.T", "write transpose(x)"),
        ("np.pi * s", "write pi"),
        ("x.shape", "shapes are fixed: write the number"),
        ("x[:, np.newaxis]", "write None"),
    ],
)
def test_attributes_say_what_to_write(text: str, help: str) -> None:
    assert helps(text) == [help]


def test_a_mistake_is_told_once_and_silences_what_is_made_of_it() -> None:
    assert mistakes("a = x @ x\nb = sin(a) + a\nc = b @ W\nc[7]") == [
        "GC906 1:5-10 x @ x: (3, 2) @ (3, 2): the inner sizes 2 and 3 differ"
    ]


def test_a_sum_of_two_thousand_terms_is_not_deep() -> None:
    built = program("+".join(["s"] * 2000))
    assert sum(node.op == "add" for node in built.nodes) == 1999
    assert max(len(node.text) for node in built.nodes) <= 203
