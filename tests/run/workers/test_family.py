"""The processes that come from a worker, with what Linux says and without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradcheck_cli.run.workers import family, memory

OWN = 2**24  # bytes that each process has for itself; Python takes about as many
CHILD = f"""
import os, time
own = b"x" * {OWN}
print(os.getpid(), flush=True)
time.sleep(3600)
"""
NESTED = f"""
import subprocess, sys, time
own = b"x" * {OWN}
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
time.sleep(3600)
"""


@pytest.fixture
def nested() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process that has a child, and the child's number, which the child says when it is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", NESTED], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    yield process, int(process.stdout.readline())
    family.end(process)
    process.stdout.close()


Nested = tuple[subprocess.Popen[bytes], int]


def test_descendants_are_found(nested: Nested) -> None:
    process, child = nested
    assert family.descendants(process.pid) == [child]
    assert child in family.descendants(os.getpid())


def test_a_kernel_that_keeps_no_list_of_children(
    nested: Nested, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(family, "_children", lambda pid: None)
    process, child = nested
    assert family.descendants(process.pid) == [child]


@pytest.mark.parametrize("made", [(), ("proc",), ("proc/self",)], ids=["absent", "empty", "bare"])
def test_without_proc(
    made: tuple[str, ...],
    nested: Nested,
    monkeypatch: pytest.MonkeyPatch,
    ends: Callable[[int], bool],
    tmp_path: Path,
) -> None:
    """As on macOS, or in a container that mounts nothing there: `ps` tells, and there is less to
    know of memory."""
    for name in made:
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(family, "PROC", tmp_path / "proc")
    process, child = nested
    assert family.descendants(process.pid) == [child]
    assert memory.held_bytes(process.pid) is None
    family.end(process, "no such mark")
    assert ends(child)


@pytest.mark.parametrize("kernel_lists_children", [True, False])
def test_a_proc_that_may_not_be_listed(
    kernel_lists_children: bool,
    nested: Nested,
    monkeypatch: pytest.MonkeyPatch,
    ends: Callable[[int], bool],
) -> None:
    """Sandboxes close the folder itself, and leave the processes in it readable."""
    listed = os.listdir

    def listdir(path: os.PathLike[str]) -> list[str]:
        if path == family.PROC:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "listdir", listdir)
    if not kernel_lists_children:
        monkeypatch.setattr(family, "_children", lambda pid: None)
    process, child = nested
    assert family.descendants(process.pid) == [child]
    assert memory.held_bytes(process.pid)
    family.end(process, "no such mark")
    assert ends(child)


def test_all_of_them_end(nested: Nested, ends: Callable[[int], bool]) -> None:
    process, child = nested
    family.end(process)
    assert ends(child)
    family.end(process)  # once more is no mistake


def test_memory_is_that_of_all(nested: Nested) -> None:
    process, child = nested
    held, alone = memory.held_bytes(process.pid), memory.resident(process.pid)
    assert held is not None
    assert alone is not None
    own = memory.resident(child)
    assert own is not None
    assert 2 * OWN < held < alone + own  # what they share counts once
    assert held <= memory.held_at_most(process.pid)
