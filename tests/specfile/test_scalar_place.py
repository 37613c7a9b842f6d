from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gradcheck_cli.specfile.scalar_place import ScalarPlace
from gradcheck_cli.specfile.text import Lines
from gradcheck_cli.specfile.yaml_tree import documents
from gradcheck_cli.specfile.yaml_values import Mapping, Scalar

_LINE = st.text(alphabet="ab*'+# é\"\\:", max_size=8)
_TEXTS = st.lists(_LINE, min_size=1, max_size=5)


def check(yaml: str) -> None:
    """Every character of the scalar under `k` that is no white space is found in the file."""
    (document,) = documents(yaml)
    if not isinstance(document.root, Mapping) or "k" not in document.root.values:
        return
    scalar = document.root.values["k"]
    if not isinstance(scalar, Scalar):
        return
    lines = yaml.splitlines()
    place = ScalarPlace(scalar, yaml, Lines(yaml))
    for index, character in enumerate(scalar.text):
        span = place(index, index + 1)
        stretch = lines[span.line - 1][span.column - 1 : span.end_column - 1]
        if not character.isspace():
            assert stretch in (character, "''", f"\\x{ord(character):02x}", f"\\{character}")


@given(_TEXTS, st.sampled_from(["|", "|-", "|+", ">", ">-", "|2", "| # note"]))
def test_blocks(lines: list[str], header: str) -> None:
    check(f"k: {header}\n" + "".join(f"  {line}\n" for line in lines) + "z: 1\n")


@given(_TEXTS)
def test_plain_and_single_quoted(lines: list[str]) -> None:
    text = "\n  ".join(lines)
    check(f"k: {text}\nz: 1\n")
    check("k: '" + text.replace("'", "''") + "'\nz: 1\n")


@given(_TEXTS, st.booleans())
def test_double_quoted(lines: list[str], spelt: bool) -> None:
    def escaped(character: str) -> str:
        if character in '"\\':
            return f"\\{character}"
        return f"\\x{ord(character):02x}" if spelt and character in "ab" else character

    check('k: "' + "\n  ".join("".join(map(escaped, line)) for line in lines) + '"\nz: 1\n')


def test_a_stretch_of_several_characters_and_of_none() -> None:
    yaml = "k: 'a ''+'' b'"
    (document,) = documents(yaml)
    assert isinstance(document.root, Mapping)
    scalar = document.root.values["k"]
    assert isinstance(scalar, Scalar)
    place = ScalarPlace(scalar, yaml, Lines(yaml))
    assert scalar.text == "a '+' b"
    spans = [place(0, 1), place(2, 5), place(6, 7), place(7, 7), place(99, 99)]
    assert [(s.column, s.end_column) for s in spans] == [
        (5, 6),
        (7, 12),
        (13, 14),
        (14, 15),
        (14, 15),
    ]


def places(escaped: str) -> list[tuple[str, str]]:
    """Each character of a double-quoted scalar, and where it stands in the file."""
    yaml = f'k: "{escaped}"\n'
    (document,) = documents(yaml)
    assert isinstance(document.root, Mapping)
    scalar = document.root.values["k"]
    assert isinstance(scalar, Scalar)
    spans = [ScalarPlace(scalar, yaml, Lines(yaml))(i, i + 1) for i in range(len(scalar.text))]
    return [
        (character, yaml[span.column - 1 : span.end_column - 1])
        for character, span in zip(scalar.text, spans, strict=True)
    ]


def test_two_escaped_halves_are_one_character_and_a_half_alone_is_marked() -> None:
    high, low = "\\ud83d", "\\ude00"
    assert places(f"{high}{low}a") == [("\U0001f600", f"{high}{low}"), ("a", "a")]
    for half in (high, low):
        assert places(f"{half}a") == [("\ufffd", half), ("a", "a")]
        assert places(half) == [("\ufffd", half)]
    assert places(f"{high} {low}")[::2] == [("\ufffd", high), ("\ufffd", low)]
    assert places(f"{high}{high}{low}") == [("\ufffd", high), ("\U0001f600", f"{high}{low}")]
