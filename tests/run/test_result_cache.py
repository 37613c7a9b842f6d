"""An entry is found by the content of what it depends on, and read without trust."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.place import Source
from gradcheck_cli.domain.report import UNUSABLE, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.result_cache import ResultCache, clear, usable
from gradcheck_cli.specfile import read
from tests.report import samples

TEXT = "inputs: {x: 2.0}\nmodel: x ** 2\n"


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Spec]:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(TEXT)
    found, errors = read("a.yaml")
    assert not errors
    return found


def result(**fields: object) -> SpecResult:
    """One with everything in it that a result may have."""
    found = replace(samples.reciprocal_exp(), source=Source("a.yaml", TEXT))
    return replace(found, **fields)  # type: ignore[arg-type]


def cache(options: RunOptions | None = None) -> ResultCache:
    return ResultCache(options or RunOptions(), Path("cache"))


def kept(specs: Sequence[Spec], found: SpecResult) -> ResultCache:
    one = cache()
    assert one.recall("a.yaml", TEXT.encode()) is None
    one.keep(specs, [found], {"torch": "2", "unused": "1"})
    return one


def test_what_was_kept_comes_back_whole(specs: list[Spec]) -> None:
    suppressed = (replace(samples.nan_finding("torch"), reason="--ignore GC201"),)
    whole = result(suppressed=suppressed, notes=("a note",), unmatched_allows=("one",))
    kept(specs, whole)
    known = cache().recall("a.yaml", TEXT.encode())
    assert known is not None
    assert repr(known.results) == repr((replace(whole, cached=True),))  # nan equals no nan
    assert (dict(known.engines), known.layers, known.code) == ({"torch": "2"}, False, ())


@pytest.mark.parametrize("path", ["b.yaml", "a.yaml"])
def test_another_file_or_text_is_not_known(path: str, specs: list[Spec]) -> None:
    kept(specs, result())
    text = TEXT if path != "a.yaml" else TEXT + "# more\n"
    assert cache().recall(path, text.encode()) is None


def test_another_version_or_setting_is_not_known(
    specs: list[Spec], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(specs, result())
    assert cache(RunOptions(seed=1)).recall("a.yaml", TEXT.encode()) is None
    assert cache(RunOptions(jobs=1)).recall("a.yaml", TEXT.encode()) is not None
    Path("site").mkdir()
    Path("site/torch-3.dist-info").mkdir()
    monkeypatch.syspath_prepend("site")
    assert cache().recall("a.yaml", TEXT.encode()) is None


def test_an_entry_that_was_damaged_is_not_known(specs: list[Spec]) -> None:
    kept(specs, result())
    (entry,) = Path("cache").iterdir()
    whole = entry.read_bytes()
    for damaged in (b"", whole[:-40], b"\x00" * 200, whole.replace(b"failed", b"foiled")):
        entry.write_bytes(damaged)
        assert cache().recall("a.yaml", TEXT.encode()) is None
    kept(specs, result())
    assert cache().recall("a.yaml", TEXT.encode()) is not None
    assert list(Path("cache").iterdir()) == [entry]


@pytest.mark.parametrize("code", [Codes.ENGINE_TIMED_OUT, Codes.INTERNAL, Codes.NONDETERMINISTIC])
def test_what_another_run_may_not_find_is_not_kept(code: str, specs: list[Spec]) -> None:
    finding = replace(samples.nan_finding("torch"), code=code)
    kept(specs, result(findings=(finding,)))
    assert not Path("cache").exists()
    kept(specs, result(findings=(), suppressed=(finding,)))
    assert not Path("cache").exists()


def test_what_no_run_has_met_for_a_month_is_removed(specs: list[Spec]) -> None:
    one = kept(specs, result())
    (entry,) = Path("cache").iterdir()
    one.forget_old()
    assert entry.exists()
    os.utime(entry, (0, 0))
    assert cache().recall("a.yaml", TEXT.encode()) is not None  # it is met now
    one.forget_old()
    assert entry.exists()
    os.utime(entry, (0, 0))
    one.forget_old()
    assert not entry.exists()


def test_clear_counts(specs: list[Spec]) -> None:
    kept(specs, result())
    assert (clear(Path("cache")), clear(Path("cache")), clear(Path("gone"))) == (1, 0, 0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (RunOptions(), True),
        (RunOptions(device=Layered(override="cpu", fallback="cuda")), True),
        (RunOptions(device=Layered(fallback="cuda")), False),
        (RunOptions(show_framework_output=True), False),
        (RunOptions(illustrated=True), False),
        (RunOptions(cluster="local"), True),
        (RunOptions(cluster="tcp://head:8786"), False),
    ],
)
def test_where_it_is_used(options: RunOptions, expected: bool) -> None:
    assert usable(options) is expected


def test_a_note_about_the_whole_run_is_not_kept(specs: list[Spec]) -> None:
    kept(specs, result(notes=(f"the engine `own` {UNUSABLE}: no such module",)))
    assert not Path("cache").exists()
