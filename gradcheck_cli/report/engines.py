"""The engines, as a table for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.engines.devices import lacking
from gradcheck_cli.engines.registry import Registered
from gradcheck_cli.report.style import DIM, Style, labelled, plain, wrapped
from gradcheck_cli.report.table import table_lines

SCHEMA_VERSION = 1
HEADER = ("engine", "version", "modes", "orders", "dtypes", "devices")
_NAMED = "only when named"
_PROSE = (2, 4)  # the columns that may be wrapped: modes and dtypes


def engine_lines(engines: Mapping[str, Registered], style: Style) -> list[Text]:
    """The capabilities of each engine; then notes about some of them, the engines that only run if
    they are named, and the missing ones."""
    here = [entry for entry in engines.values() if entry.engine is not None]
    column = max(len(word) for word in (_NAMED, *engines)) + 2
    lines = table_lines(HEADER, [_row(entry) for entry in here], style, wrap=_PROSE)
    for entry in here:
        assert entry.engine is not None
        if remark := entry.engine.capabilities.remark:
            lines += [Text(), *labelled(entry.name, remark, style, 0, column)]
    named = [entry.name for entry in here if not entry.by_default]
    if named:
        flag = f"--engine {named[0]}"
        lines += [
            Text(),
            *labelled(_NAMED, f"{', '.join(named)} ({flag})", style, 0, 17),
        ]
    for entry in engines.values():
        lines += _missing_packages(entry, style, column)
        if entry.rivals:
            words = f"{entry.target} is used, and not {', '.join(entry.rivals)}"
            lines += [Text(), *labelled(entry.name, words, style, 0, column)]
    return lines


def _row(entry: Registered) -> list[str]:
    assert entry.engine is not None
    can = entry.engine.capabilities
    return [
        entry.name,
        entry.version or "not installed",
        ", ".join(can.modes),
        "1" if max(can.orders) == 1 else f"1 to {max(can.orders)}",
        ", ".join(can.dtypes),
        ", ".join(_device(kind) for kind in can.devices),
    ]


def _device(kind: str) -> str:
    """`no cuda` if this machine has no such device, so that a row fits into 120 columns."""
    return f"no {kind}" if lacking(Placement(kind)) else kind


def _missing_packages(entry: Registered, style: Style, column: int) -> list[Text]:
    """`torch is not installed`, followed by the command that installs it on an unbroken line."""
    if entry.engine is None:
        return [Text(), *labelled(entry.name, f"cannot be used: {entry.fault}", style, 0, column)]
    lines: list[Text] = []
    for what, install in entry.missing:
        said = "is not installed" if install == entry.install else f"needs {what}: there is none"
        lines += [Text(), *map(Text, wrapped(f"{entry.name} {said}", style.width))]
        lines.append(Text("  ").append("install  ", style=DIM).append(plain(install)))
    return lines


def engines_as_json(engines: Mapping[str, Registered]) -> dict[str, Any]:
    """The engines as plain lists and dictionaries. An engine that cannot be used only has a
    `fault`."""
    return {"schema_version": SCHEMA_VERSION, "engines": [_entry(e) for e in engines.values()]}


def _entry(entry: Registered) -> dict[str, Any]:
    if entry.engine is None:
        fault = {"name": entry.name, "installed": False, "fault": entry.fault}
        return {**fault, "not_used": list(entry.rivals)}
    can = entry.engine.capabilities
    return {
        "name": entry.name,
        "installed": entry.installed,
        "version": entry.version,
        "by_default": entry.by_default,
        "modes": list(can.modes),
        "orders": list(can.orders),
        "dtypes": list(can.dtypes),
        "devices": list(can.devices),
        "devices_here": [kind for kind in can.devices if not lacking(Placement(kind))],
        "remark": can.remark,
        "not_used": list(entry.rivals),
        "missing": [{"what": what, "install": install} for what, install in entry.missing],
    }
