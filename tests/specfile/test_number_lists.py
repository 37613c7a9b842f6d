from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck_cli.specfile.number_lists import find_lists
from gradcheck_cli.specfile.yaml_tree import documents
from gradcheck_cli.specfile.yaml_values import Mapping, Scalar, Sequence, Tree, plain

from .writing import mistakes

_NUMBERS = st.recursive(
    st.sampled_from(
        ["1", "-2.5", "1e-3", "+.5", ".inf", "-.inf", "inf", "true", "0x1F", "no", "a"]
    ),
    lambda inner: st.lists(inner, max_size=4).flatmap(
        lambda items: st.sampled_from([", ", ",", " ,\n    ", ", # note\n    "]).map(
            lambda between: f"[{between.join(items)}]"
        )
    ),
    max_leaves=12,
)


def shape(tree: Tree) -> object:
    """Every place and value of a tree."""
    if isinstance(tree, Scalar):
        return (tree.start, tree.end, tree.value, tree.text)
    if isinstance(tree, Sequence):
        return (tree.start, tree.end, [shape(item) for item in tree.items])
    assert isinstance(tree, Mapping)
    return {key: shape(value) for key, value in tree.values.items()}


@given(_NUMBERS, _NUMBERS)
def test_lists_are_what_the_parser_makes_of_them(first: str, second: str) -> None:
    text = f"k: {first}\nm:\n  n: {second}\n"
    quick = documents(text)
    slow = documents(text.replace(": [", ":  ["))  # two spaces: the parser reads all of it
    assert [plain(d.root) for d in quick if d.root] == [plain(d.root) for d in slow if d.root]
    for document in quick:
        for place, end, value, written in _scalars(shape(document.root) if document.root else {}):
            assert (text[place:end], value is None) == (written, written in ("", "~"))


def _scalars(found: object) -> list[tuple[int, int, object, str]]:
    if isinstance(found, dict):
        return [scalar for value in found.values() for scalar in _scalars(value)]
    if isinstance(found, tuple) and len(found) == 3:
        return [scalar for value in found[2] for scalar in _scalars(value)]
    return [found] if isinstance(found, tuple) else []


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, two]",
        "a: [1, 'x']",
        "a: [1, {b: 2}]",
        "a: [1,, 2]",
        "a: [1 2]",
        "a: [[1] [2]]",
        "a: [1",
        "a: [~]",
        "x # a: [1]",
    ],
)
def test_other_lists_are_left_to_the_parser(text: str) -> None:
    assert find_lists(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        "a: |\n  b: [1, 2]\nc: [3]",
        "a: 'x: [1, 2]'\nc: [3]",
        'a: "x: [1, 2]"\nc: [3]',
        'a: "\n  - [1, 2]"\nc: [3]',
        "a: x\n  - [1, 2]\nc: [3]",
    ],
)
def test_a_list_inside_a_text_stays_text(text: str) -> None:
    (document,) = documents(text)
    assert document.root is not None
    found = plain(document.root)
    assert "[1, 2]" in found["a"]
    assert found["c"] == [3]


def test_places_in_a_list_are_exact() -> None:
    assert mistakes("inputs:\n  x: [[1, 2],\n      [3]]\nmodel: sum(x)") == [
        "GC903 3:7-10 inputs.x[1]: a ragged list: 1 entries here, but 2 in the first one"
    ]


def test_a_hundred_thousand_numbers_are_read_in_a_moment() -> None:
    text = f"x: [{', '.join(['1.5'] * 100_000)}]"
    start = time.perf_counter()
    (document,) = documents(text)
    assert time.perf_counter() - start < 5  # the parser alone takes ten times as long
    assert isinstance(document.root, Mapping)
