from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.specfile import read
from gradcheck_cli.specfile.text import MAX_BYTES, Lines, decode

from .writing import told


def mistake(path: Path) -> str:
    """The only mistake of a file."""
    specs, (error,) = read(str(path))
    assert specs == []
    assert error.path == str(path)
    return told(error)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert (
        mistake(tmp_path / "none.yaml") == "GC901 - the file cannot be read: there is no such file"
    )


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert mistake(tmp_path) == "GC901 - the file cannot be read: it is a folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    assert mistake(path) == "GC901 - the file cannot be read: permission denied"


def test_a_huge_file_is_refused_by_its_size_alone(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.truncate(50_000_000_000)  # sparse: no such memory, and no time to read it
    assert mistake(path) == "GC901 - the file is larger than 1 MB, the limit for a spec"


def test_an_endless_file_is_refused(tmp_path: Path) -> None:
    assert mistake(Path("/dev/zero")).startswith("GC901 - the file is larger than 1 MB")


def test_a_pipe_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("inputs: {x: 2}\nmodel: x ** 2\n",))
    writer.start()
    specs, errors = read(str(path))
    writer.join()
    assert (len(specs), errors) == (1, [])


def test_text_that_was_given_has_the_same_limit() -> None:
    _, (error,) = read("a.yaml", "#" * (MAX_BYTES + 1))
    assert told(error) == "GC901 - the text is larger than 1 MB"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a: \xff", "GC901 1:4-5 the file is not UTF-8 text: byte 0xff"),
        ("é: 1\nb: ".encode() + b"\xe9!", "GC901 2:4-5 the file is not UTF-8 text: byte 0xe9"),
        ("a: 1".encode("utf-16"), "GC901 - the file is UTF-16, not UTF-8"),
        (b"a: 1\nb: \x00", "GC901 2:4-5 a NUL byte in the file: it is not a text file"),
        (b"\x89PNG\r\n", "GC901 1:1-2 the file is not UTF-8 text: byte 0x89"),
        (b"", "GC902 1:1-2 the file is empty"),
    ],
)
def test_bytes_that_are_no_text(tmp_path: Path, data: bytes, expected: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(data)
    assert mistake(path) == expected


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    source = decode("a.yaml", b"\xef\xbb\xbfname: a")
    assert isinstance(source, Source)
    assert source.text == "name: a"


@given(st.text(alphabet="ab\n\r\u2028é", max_size=30), st.data())
def test_lines_and_columns_are_those_of_the_source(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, max(0, len(text) - 1)))
    span = Lines(text).span(start, start + 1)
    if text and text[start] in "abé":
        assert Source("a", text).line(span.line)[span.column - 1] == text[start]
        assert (span.end_line, span.end_column) == (span.line, span.column + 1)


def test_the_place_after_the_last_character() -> None:
    assert Lines("ab").span(2, 3) == Span(1, 3, 1, 4)
    assert Lines("ab\n").span(2, 3) == Span(1, 3, 1, 4)
    assert Lines("").span(0, 1) == Span(1, 1, 1, 2)


def test_reading_a_spec_imports_no_framework_and_no_pydantic_models() -> None:
    code = (
        "import sys; from gradcheck_cli.specfile import read; "
        "specs, errors = read('a', 'inputs: {x: 2}\\nmodel: x ** 2'); assert specs and not errors; "
        "print(*(m for m in ('torch', 'tensorflow', 'scipy', 'rich', 'click', 'pydantic.main')"
        " if m in sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []
