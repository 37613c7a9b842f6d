from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck_cli.specfile import yaml_tree
from gradcheck_cli.specfile.yaml_tree import documents, find_lists
from gradcheck_cli.specfile.yaml_values import Mapping, Scalar, Sequence, Tree, as_python

from .writing import helps, mistakes

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


def values(text: str) -> object:
    """The plain value of a text with one document and nothing wrong."""
    (document,) = documents(text)
    assert document.problems == []
    assert document.root is not None
    return as_python(document.root)


def test_aliases_repeat_a_value() -> None:
    assert values("a: &a [1, 2]\nb: *a\nc: {d: *a}") == {
        "a": [1, 2],
        "b": [1, 2],
        "c": {"d": [1, 2]},
    }


def test_duplicate_keys_tell_both_places() -> None:
    text = "inputs: {x: 1, x: 2}\nmodel: x ** 2\nmodel: x"
    assert mistakes(text) == [
        "GC902 1:16-17 duplicate key `x`",
        "GC902 3:1-6 duplicate key `model`",
    ]
    assert helps(text) == [
        "its first occurrence is on line 1, column 10",
        "its first occurrence is on line 2, column 1",
    ]


@pytest.mark.parametrize(
    ("text", "told", "help"),
    [
        ("a: b: c", "GC902 1:5-6 not valid YAML: mapping values", "`model: |`"),
        ("a:\n\t- 1", "GC902 2:1-2 not valid YAML", "YAML does not indent by tabs: use spaces"),
        ("model: @f", "GC902 1:8-9 not valid YAML", "a formula that begins with `@` needs a block"),
        ("model: *x", "GC902 1:8-10 the alias `*x` has no finished", "needs a block"),
        ("a: &a [*a]", "GC902 1:8-10 the alias `*a` has no finished anchor", ""),
        ("a: [1, 2", "GC902 1:9-10 not valid YAML", "a bracket is opened and never closed"),
        ('a: "x', "GC902 1:6-7 not valid YAML", "a quote is opened and never closed"),
        ("inputs: 1\n model: 2", "GC902 2:7-8 not valid YAML", "`: `"),
        ('a: "\\UFFFFFFFF"', "GC902 1:1-2 not valid YAML", ""),
        ("%YAML 1.1\n---\na: no", "GC902 2:1-2 a spec is YAML 1.2", "remove the %YAML line"),
    ],
)
def test_broken_yaml_has_its_place_and_a_hint(text: str, told: str, help: str) -> None:
    (found,) = mistakes(text)
    assert found.startswith(told)
    assert help in helps(text)[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: !!python/object/apply:os.system [ls]", "the tag `!!python/object/apply:os.system`"),
        ("a: !!int 3", "the tag `!!int` is not allowed"),
        ("a: !mine x", "the tag `!mine` is not allowed"),
        ("a: &b {k: 1}\nc: {<<: *b}", "merge keys (`<<`) are not part of YAML 1.2"),
        ("1: x", "a key must be a word, not `1`"),
        ("true: x", "a key must be a word, not `true`"),
        ("? [1]\n: x", "a key must be a word, not a list or a mapping"),
        (": x", "a key must be a word, not empty"),
    ],
)
def test_what_yaml_has_and_a_spec_has_not(text: str, told: str) -> None:
    (document,) = documents(text)
    (problem,) = document.problems
    assert problem.message.startswith(told)


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BOMB, "aliases repeat more than 10000 values: refused"),
        ("k: &k {x: [" + "1, " * 3000 + "1]}\n" + "a: [*k, *k, *k, *k]", "aliases repeat more"),
        ("a: " + "[" * 10_000, "nested more than 50 levels deep"),
        ("a: " + "[" * 10_000 + "]" * 10_000, "nested more than 50 levels deep"),
        ("{a: " * 5_000, "nested more than 50 levels deep"),
        ("- " * 5_000, "nested more than 50 levels deep"),
        ("".join(f"k{i}: x\n" for i in range(90_000)), "the file has more than 20000 keys"),
        ("---\na: 1\n" * 50_000, "the file has more than 20000 keys"),
    ],
    ids=["laughs", "big alias", "open", "closed", "mappings", "dashes", "keys", "documents"],
)
def test_no_file_can_blow_up(text: str, told: str) -> None:
    assert documents(text)[-1].problems[0].message.startswith(told)


def test_the_two_halves_of_an_escaped_character_are_one() -> None:
    assert values('"\\ud83d\\ude00": ["\\ufffd\\ud83d\\ude00"]') == {"😀": ["\ufffd😀"]}


@pytest.mark.parametrize("text", ['"\\ud800": 1', '"\\ud800": |', '? "\\ude00\\ud83d"\n: 1'])
def test_half_a_character_is_a_mistake_with_its_place(text: str) -> None:
    start, end = text.index('"') + 1, text.rindex('"') + 2
    assert f"GC902 1:{start}-{end} an escape is half a character" in mistakes(text)


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
    assert [as_python(d.root) for d in quick if d.root] == [
        as_python(d.root) for d in slow if d.root
    ]
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
    found = as_python(document.root)
    assert "[1, 2]" in found["a"]
    assert found["c"] == [3]


def test_places_in_a_list_are_exact() -> None:
    assert mistakes("inputs:\n  x: [[1, 2],\n      [3]]\nmodel: sum(x)") == [
        "GC903 3:7-10 inputs.x[1]: a ragged list: 1 entries here, but 2 in the first one"
    ]


def test_a_hundred_thousand_numbers_are_one_scalar_for_the_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes ten times as long for numbers."""
    parsed, without = [], yaml_tree._without_lists

    def watched(text: str, lists: dict[int, Sequence]) -> str:
        parsed.append(without(text, lists))
        return parsed[-1]

    monkeypatch.setattr(yaml_tree, "_without_lists", watched)
    (document,) = documents(f"x: [{', '.join(['1.5'] * 100_000)}]")
    assert isinstance(document.root, Mapping)
    assert [text.count('"') for text in parsed] == [2]  # one scalar for it
