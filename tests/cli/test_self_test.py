from dataclasses import replace
from pathlib import Path

import pytest

from gradcheck_cli.cli.self_test import FOLDERS, Outcome, compare_outcomes, planted
from gradcheck_cli.domain.codes import CODES
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.place import Source
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.engines import registry
from tests.report import samples

from .calling import call_here

UNDERFLOW = "# expect: GC302\ndtypes: [float32]\nengines: [reference]\ninputs: {x: 60}\n"


def result(*codes: tuple[str, str]) -> SpecResult:
    findings = tuple(
        replace(samples.nan_finding("torch"), code=code, severity=severity)  # type: ignore[arg-type]
        for code, severity in codes
    )
    return replace(samples.quadratic(), source=Source("p/a.yaml", ""), findings=findings)


def outcome(expected: str, *results: SpecResult) -> Outcome:
    (one,) = compare_outcomes({"p/a.yaml": expected}, samples.report(*results))
    return one


@pytest.mark.parametrize(
    ("expected", "found", "right"),
    [
        ("GC201", [("GC201", "error")], True),
        ("GC201", [("GC201", "error"), ("GC401", "note")], True),
        ("GC201", [("GC201", "error"), ("GC303", "warning")], False),
        ("GC201", [("GC202", "error")], False),
        ("GC201", [], False),
        ("GC401", [("GC401", "note")], True),
        ("GC401", [("GC401", "note"), ("GC502", "note")], False),
        ("GC401", [("GC401", "note"), ("GC101", "error")], False),
        ("GC705", [("GC705", "error")], True),
    ],
)
def test_exactly_the_expected_code(
    expected: str, found: list[tuple[str, str]], right: bool
) -> None:
    assert outcome(expected, result(*found)).right is right


def test_a_plant_that_was_not_run_is_neither_right_nor_wrong() -> None:
    assert outcome("GC201").right is None


def test_mistakes_of_a_spec_count_as_found() -> None:
    error = replace(samples.spec_error(), path="p/a.yaml")
    (one,) = compare_outcomes({"p/a.yaml": "GC905"}, samples.report(errors=(error,)))
    assert one.right is True


NO_PLANT = {"GC701", "GC702", "GC706", "GC901", "GC902", "GC903"}
"""Layers that raise or end their process, a bug of gradcheck itself, and unreadable files."""


def test_every_code_has_a_plant_and_every_plant_its_code() -> None:
    folder = next(folder for folder in FOLDERS if folder.is_dir())
    plants = planted(folder)
    assert set(plants.values()) == CODES.keys() - NO_PLANT
    assert all(Path(path).stem.startswith(code) for path, code in plants.items())


def test_a_plant_without_its_comment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("model: x\n", "utf-8")
    with pytest.raises(UsageError, match="expect: CODE"):
        planted(tmp_path)


def test_a_bug_that_is_not_found_fails_the_test(tmp_path: Path) -> None:
    (tmp_path / "found.yaml").write_text(UNDERFLOW + "model: 1 / exp(x)\n", "utf-8")
    (tmp_path / "lost.yaml").write_text(UNDERFLOW + "model: exp(-x)\n", "utf-8")
    screen = call_here("self-test", ".", cwd=tmp_path)
    assert screen.code == 1
    marks = {line.split()[-1]: line.split()[0] for line in screen.out.splitlines()[1:]}
    assert marks == {"found.yaml": "ok", "lost.yaml": "WRONG"}


def test_a_plant_needs_the_engine_of_its_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "layers.py").write_text("def double(x):\n    return 2 * x\n", "utf-8")
    (tmp_path / "a.yaml").write_text(
        "# expect: GC603\ninputs: {x: 1.0}\nimplementations: {torch: layers.py:double}\n", "utf-8"
    )
    others = {name: found for name, found in registry.engines().items() if name != "torch"}
    monkeypatch.setattr(registry, "engines", lambda: others)
    output = call_here("self-test", str(tmp_path), cwd=tmp_path).out
    assert "not run" in output
    assert "the engine that it needs is not installed" in " ".join(output.split())
