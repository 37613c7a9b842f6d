"""Engines are found through entry points, and a broken one breaks nothing."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from gradcheck_cli.domain.engines import SHIPPED
from gradcheck_cli.engines import entry_points, registry
from gradcheck_cli.engines.registry import Registered
from gradcheck_cli.report.engines import engine_lines
from gradcheck_cli.report.style import Style

ROOT = Path(__file__).parents[2]
PYPROJECT = ROOT / "pyproject.toml"


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
        "other = strange_engine:Zebra\n"
        "thing = strange_engine:Thing\n"
        "backward = strange_engine:Backward\n"
        "module = strange_engine\n"
        "torch = strange_engine:Zebra\n"
    )
    (tmp_path / "strange_engine.py").write_text(
        "from gradcheck_cli.engines.base import Capabilities\n"
        "from gradcheck_cli.engines.reference.engine import ReferenceEngine\n"
        "class Zebra(ReferenceEngine):\n"
        "    capabilities = Capabilities('zebra', ('no-such-dist', 'strange-engines'), 'pip x')\n"
        "class Absent(ReferenceEngine):\n"
        "    capabilities = Capabilities('absent', ('no-such-dist',), 'pip install it')\n"
        "class Backward(ReferenceEngine):\n"
        "    capabilities = Capabilities('backward', (), 'pip x', modes=('backward',))\n"
        "class Thing:\n"
        "    capabilities = {}\n"
    )
    (tmp_path / "bang_on_import.py").write_text("raise OSError('libbang.so is missing')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("strange_engine", "bang_on_import"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for kept in (entry_points.claims, entry_points.targets, registry.engines):
        kept.cache_clear()
    yield registry.engines()
    for kept in (entry_points.claims, entry_points.targets, registry.engines):
        kept.cache_clear()


def test_an_engine_of_ours_has_a_name_in_the_list_an_entry_point_and_tests() -> None:
    with PYPROJECT.open("rb") as stream:
        points = tomllib.load(stream)["project"]["entry-points"][entry_points.GROUP]
    assert set(points) == set(SHIPPED)
    modules = [point.partition(":")[0].split(".") for point in points.values()]
    assert all(module[:2] == ["gradcheck_cli", "engines"] for module in modules)
    places = {ROOT.joinpath("tests", *module[1:-1]) for module in modules}
    assert [str(place) for place in places if not any(place.glob("test_*.py"))] == []


def test_ours_come_first(engines: Mapping[str, Registered]) -> None:
    assert list(engines)[:3] == ["reference", "torch", "tensorflow"]
    strange = ["absent", "backward", "bang", "broken", "module", "other", "thing", "zebra"]
    assert list(engines)[-8:] == strange


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


def test_what_is_no_engine_of_its_name_is_told(engines: Mapping[str, Registered]) -> None:
    assert engines["thing"].fault.startswith(
        "it is not a gradcheck_cli.engines.base.Engine: it lacks"
    )
    assert engines["module"].fault == "its entry point names no class: module:Class"
    assert engines["backward"].fault == (
        "its capabilities name the mode `backward`; there are reverse, forward"
    )
    fault = "its capabilities call it `zebra`, but its entry point `other`"
    assert engines["other"].fault == fault


def test_a_name_of_ours_stays_ours(engines: Mapping[str, Registered]) -> None:
    torch = engines["torch"]
    assert torch.target == "gradcheck_cli.engines.torch.engine:TorchEngine"
    assert torch.rivals == ("strange_engine:Zebra",)
    shown = [line.plain for line in engine_lines({"torch": torch}, Style(width=120))]
    assert (
        "torch            gradcheck_cli.engines.torch.engine:TorchEngine is used, and not "
        + ("strange_engine:Zebra")
        in shown
    )
