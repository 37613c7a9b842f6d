"""The working folder, which another program may have deleted."""

from __future__ import annotations

import sys
from contextlib import chdir
from pathlib import Path

import pytest

from gradcheck_cli.domain.working_folder import was_deleted


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be deleted")
def test_it_is_there_until_it_is_deleted(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with chdir(gone):
        assert not was_deleted()
        gone.rmdir()
        assert was_deleted()
