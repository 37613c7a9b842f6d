"""Pages and docstrings name files and modules that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gradcheck_cli"
PAGES = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/internals.md", "docs/search.md"]
ROOMS = {path.name for path in PACKAGE.iterdir() if path.is_dir()} | {"reference_engine"}


MODULES = {path.name for place in (PACKAGE, ROOT / "reference_engine") for path in place.rglob("*")}


def missing_files(text: str) -> Iterator[str]:
    """The files of code that a text names which are not there: a path below the repository or the
    package, a pattern of such paths, or the name alone. A word in capitals stands for a name."""
    for name in re.findall(r"`([\w/*.]+\.(?:py|hpp))`", text):
        pattern = re.sub(r"\b[A-Z]+\b(?=\.py)", "*", name)
        if name in MODULES or any(next(place.glob(pattern), None) for place in (ROOT, PACKAGE)):
            continue
        yield name


def missing_modules(text: str) -> Iterator[str]:
    """The dotted names in a text that begin with a room of ours, and lead to no module of it."""
    for name in re.findall(r"`((?:[a-z_]\w*\.)+\w+)`", text):
        room, *rest = name.split(".")
        if room not in ROOMS:
            continue
        place = ROOT / room if room == "reference_engine" else PACKAGE / room
        while rest and (place / rest[0]).is_dir():
            place /= rest.pop(0)
        if rest and not (place / f"{rest[0]}.py").is_file():
            yield name


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_files_that_exist(page: str) -> None:
    assert list(missing_files((ROOT / page).read_text("utf-8"))) == []


def test_modules_name_files_and_modules_that_exist() -> None:
    missing = {
        path.relative_to(ROOT).as_posix(): [*missing_modules(text), *missing_files(text)]
        for path in sorted([*PACKAGE.rglob("*.py"), *(ROOT / "reference_engine").rglob("*.py")])
        for text in [path.read_text("utf-8")]
    }
    assert {path: names for path, names in missing.items() if names} == {}


def test_what_is_missing_is_named() -> None:
    text = "`engines/gone.py`, `engines/base.py`, `thresholds.py`, `gone.py`, `report/NAME.py`"
    assert list(missing_files(text)) == ["engines/gone.py", "gone.py"]
    text = "`engines.base.Engine`, `engines.kit`, `engines.gone.Engine`, `numpy.linalg.norm`"
    assert list(missing_modules(text)) == ["engines.gone.Engine"]
