"""The cache of compiled programs, with a compiler that takes no time."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from gradcheck_cli.engines.base import COMPILER
from gradcheck_cli.engines.eigen import compiling
from gradcheck_cli.engines.eigen.compiling import cache_folder, compiled
from gradcheck_cli.engines.eigen.diagnostics import CompileError
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.kit import patience
from gradcheck_cli.engines.registry import engines

FAKE = """#!/bin/sh
echo once >> "{log}"
while [ "$1" != "-o" ]; do shift; done
cat "$3" > "$2"
grep -q nonsense "$3" && {{ echo "$3:7:3: error: 'nonsense' was not declared" >&2; exit 1; }}
exit 0
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for every call of a compiler that copies its source."""
    log = tmp_path / "log"
    log.touch()
    fake = tmp_path / "fake-c++"
    fake.write_text(FAKE.format(log=log))
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return log


def times(log: Path) -> int:
    return len(log.read_text().splitlines())


def made() -> list[str]:
    """The folders in which something is being compiled, or was."""
    return sorted(folder.name for folder in cache_folder().glob("new-*"))


def test_the_same_text_is_compiled_once(calls: Path) -> None:
    first = compiled("int a;")
    again = compiled("int a;")
    assert (first.library, again.seconds) == (again.library, 0.0)
    assert first.seconds > 0
    assert compiled("int b;").library != first.library
    assert times(calls) == 2


def test_another_compiler_or_header_is_another_program(
    calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled("int a;")
    monkeypatch.setattr(compiling, "FLAGS", (*compiling.FLAGS, "-O2"))
    compiled("int a;")
    assert times(calls) == 2


@pytest.mark.parametrize("what", ["program.so", "sha256"])
def test_what_is_broken_is_compiled_anew(what: str, calls: Path) -> None:
    library = compiled("int a;").library
    whole = library.read_bytes()
    (library.parent / what).write_bytes(b"\xffhalf")
    again = compiled("int a;")
    assert again.library.read_bytes() == whole
    (library.parent / what).unlink()
    assert compiled("int a;").library.read_bytes() == whole
    assert times(calls) == 3


def test_of_several_at_a_time_one_compiles_and_the_others_wait(calls: Path) -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(compiled("int a;").library.read_bytes()))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [b"int a;"] * 6
    assert times(calls) == 1
    assert made() == []


def test_only_what_has_state_of_its_own_is_loaded_from_a_copy(
    calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling.ctypes, "CDLL", Path)
    found = compiled("int a;")
    assert found.load() == found.library
    assert found.load(anew=True) != found.library


def test_no_place_for_a_cache_is_no_obstacle(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = compiled("int a;")
    assert found.library.read_bytes() == b"int a;"
    monkeypatch.setattr(compiling.ctypes, "CDLL", lambda path: Path(path).read_bytes())
    assert found.load() == b"int a;"
    assert not found.library.parent.exists()  # nobody else would delete it


def test_an_error_is_the_first_one_with_its_line(calls: Path) -> None:
    with pytest.raises(CompileError, match="'nonsense' was not declared") as caught:
        compiled("nonsense")
    assert caught.value.line == 7
    assert made() == []
    assert [one for one in cache_folder().iterdir() if one.is_dir()] == []


def test_the_variable_says_which_compiler_and_may_have_arguments(
    calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compiled("int a;").library
    monkeypatch.setenv("CXX", f"{os.environ['CXX']} -O3")
    assert compiled("int a;").library != first
    for nonsense in ("no-such-compiler -O3", 'c++ "'):
        monkeypatch.setenv("CXX", nonsense)
        with pytest.raises(EngineFault, match=r"\(\$CXX is `.*`\), but there is none"):
            compiled("int a;")
        told = f"a C++ compiler ($CXX is `{nonsense}`)"
        assert (told, COMPILER.install) in engines()["eigen"].missing


def test_what_an_ended_process_left_is_swept_away(calls: Path) -> None:
    for name in ("new-aa-left", "new-zz-alive", "new-old"):
        (cache_folder() / name).mkdir(parents=True)
    with (cache_folder() / "lock-zz").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        compiled("int a;")
        assert made() == ["new-zz-alive"]
    compiled("int b;")
    assert made() == []


def test_without_locks_only_what_is_old_is_swept_away(
    calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "fcntl", None)
    for name in ("new-aa-old", "new-bb-young"):
        (cache_folder() / name).mkdir(parents=True)
    os.utime(cache_folder() / "new-aa-old", (0, 0))
    compiled("int a;")
    assert made() == ["new-bb-young"]


def test_the_clock_stands_while_a_compiler_works(
    calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []
    monkeypatch.setattr(patience, "tell", told.append)
    compiled("int a;")
    assert told == [True, False]
    compiled("int a;")
    assert told == [True, False]
    with pytest.raises(CompileError):
        compiled("nonsense")
    assert told == [True, False, True, False]


def test_no_compiler_is_told_with_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(EngineFault, match=r"apt install g\+\+"):
        compiled("int a;")
    assert ("a C++ compiler", COMPILER.install) in engines()["eigen"].missing
