"""What a key depends on."""

from collections.abc import Callable
from pathlib import Path

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Finding, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.contents import Contents, lasts


def test_a_key_is_of_the_text_the_file_and_what_changes_results() -> None:
    plain = Contents(RunOptions()).key("a.yaml", b"model: x")
    assert Contents(RunOptions(jobs=2, resume="journal")).key("a.yaml", b"model: x") == plain
    others = [
        Contents(RunOptions(seed=1)).key("a.yaml", b"model: x"),
        Contents(RunOptions()).key("b.yaml", b"model: x"),
        Contents(RunOptions()).key("a.yaml", b"model: y"),
    ]
    assert len({plain, *others}) == 4


def test_code_counts_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "layers.py"
    file.write_text("one")
    before = Contents(RunOptions()).of_files([str(file)])
    file.write_text("two")
    assert Contents(RunOptions()).of_files([str(file)]) != before


def test_a_crash_and_a_result_that_changes_do_not_last(spec: Callable[[str], Spec]) -> None:
    one = spec("inputs: {x: 1.0}\nmodel: x ** 2\n")

    def lasting(code: str) -> bool:
        finding = Finding(code, "error", "", Span(1, 1, 1, 1))
        return lasts(one, SpecResult("a", one.source, "failed", findings=(finding,)))

    assert lasting(Codes.WRONG_GRADIENT)
    assert not lasting(Codes.NONDETERMINISTIC)
