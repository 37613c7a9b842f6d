"""Folders that are not named by anybody."""

from __future__ import annotations

import sys
from contextlib import chdir
from pathlib import Path

import pytest

from gradcheck_cli.domain.folders import working_folder_is_gone


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be deleted")
def test_it_is_there_until_it_is_deleted(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with chdir(gone):
        assert not working_folder_is_gone()
        gone.rmdir()
        assert working_folder_is_gone()
