"""Engines are found through entry points, and a broken one breaks nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gradcheck_cli.engines import points, registry
from gradcheck_cli.engines.registry import Registered


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Registered]:
    """The registry, with a strange distribution on the path."""
    info = tmp_path / "strange_engines-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-engines\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gradcheck.engines]\n"
        "zebra = strange_engine:Zebra\n"
        "absent = strange_engine:Absent\n"
        "broken = strange_engine:NoSuchClass\n"
        "bang = bang_on_import:Engine\n"
    )
    (tmp_path / "strange_engine.py").write_text(
        "from gradcheck_cli.engines.base import Capabilities\n"
        "class Zebra:\n"
        "    capabilities = Capabilities('zebra', ('no-such-dist', 'strange-engines'), 'pip x')\n"
        "class Absent:\n"
        "    capabilities = Capabilities('absent', ('no-such-dist',), 'pip install it')\n"
    )
    (tmp_path / "bang_on_import.py").write_text("raise OSError('libbang.so is missing')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("strange_engine", "bang_on_import"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for kept in (points.targets, registry.engines):
        kept.cache_clear()
    yield registry.engines()
    for kept in (points.targets, registry.engines):
        kept.cache_clear()


def test_ours_come_first(engines: Mapping[str, Registered]) -> None:
    assert list(engines)[:3] == ["reference", "torch", "tensorflow"]
    assert list(engines)[-4:] == ["absent", "bang", "broken", "zebra"]


def test_version_is_that_of_the_first_distribution_found(
    engines: Mapping[str, Registered],
) -> None:
    assert engines["zebra"].installed
    assert engines["zebra"].version == "1.0"


def test_missing_framework_has_its_install_line(engines: Mapping[str, Registered]) -> None:
    assert not engines["absent"].installed
    assert engines["absent"].install == "pip install it"
    assert engines["torch"].install == "pip install 'gradcheck-cli[torch]'"


def test_broken_entry_points_are_told_and_nothing_else_suffers(
    engines: Mapping[str, Registered],
) -> None:
    assert "NoSuchClass" in engines["broken"].fault
    assert engines["bang"].fault == "OSError: libbang.so is missing"
    assert engines["bang"].engine is None
    assert engines["reference"].installed
