"""The driver: inputs are drawn again by their number, findings are written with their command."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz.driver import Finding, Processes, drawn, fuzz, shrunk


class Odd:
    """Finds every odd number."""

    name = "odd"

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def __enter__(self) -> Odd:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        for index in indices:
            self.counted["seen"] += 1
            if index % 2:
                yield Finding(index, "is odd", f"{index}\n", ".txt")


def test_a_finding_has_a_file_and_the_command_that_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = io.StringIO()
    figures = fuzz(Odd(), 7, [range(3), range(3, 4)], out)
    assert (figures.inputs, len(figures.findings)) == (4, 2)
    assert Path(".fuzz/odd-7-3.txt").read_text("utf-8") == "3\n"
    assert "python -m tests.fuzz odd --seed 7 --only 3" in out.getvalue()
    assert "4 inputs" in str(figures)
    assert "4 seen" in str(figures)


def test_several_processes_check_each_input_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Processes(2) as processes:
        for count in (11, 3, 0):
            figures = processes.fuzz(Odd, 7, range(count))
            assert figures.inputs == figures.counted["seen"] == count
            found = sorted(finding.index for finding in figures.findings)
            assert found == list(range(1, count, 2))


@pytest.mark.parametrize(("only", "code"), [(2, 0), (3, 1)])
def test_the_exit_code_says_whether_there_was_a_finding(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    only: int,
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "FUZZERS", {"odd": (Odd, 10)})
    assert command.main(["odd", "--seed", "7", "--only", str(only)]) == code
    assert f"1 inputs, {code} findings" in capsys.readouterr().out


def test_inputs_do_not_depend_on_what_was_drawn_before() -> None:
    again = [drawn(1, "odd", 5).random() for _ in range(2)]
    assert again[0] == again[1]
    assert drawn(1, "odd", 6).random() != again[0]
    assert drawn(1, "even", 5).random() != again[0]


def test_shrinking_keeps_what_fails() -> None:
    def smaller(text: str) -> Iterator[str]:
        return (text[:k] + text[k + 1 :] for k in range(len(text)))

    assert shrunk("abcxdef", smaller, lambda text: "x" in text) == "x"
    assert "x" in shrunk("abcxdef", smaller, lambda text: "x" in text, attempts=2)
