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
    here = [found for found in engines.values() if found.engine is not None]
    column = max(len(word) for word in (_NAMED, *engines)) + 2
    lines = table_lines(HEADER, [_row(found) for found in here], style, wrap=_PROSE)
    for found in here:
        assert found.engine is not None
        if remark := found.engine.capabilities.remark:
            lines += [Text(), *labelled(found.name, remark, style, 0, column)]
    named = [found.name for found in here if not found.by_default]
    if named:
        flag = f"--engine {named[0]}"
        lines += [
            Text(),
            *labelled(_NAMED, f"{', '.join(named)} ({flag})", style, 0, 17),
        ]
    for found in engines.values():
        lines += _missing_packages(found, style, column)
        if found.rivals:
            words = f"{found.target} is used, and not {', '.join(found.rivals)}"
            lines += [Text(), *labelled(found.name, words, style, 0, column)]
    return lines


def _row(found: Registered) -> list[str]:
    assert found.engine is not None
    can = found.engine.capabilities
    return [
        found.name,
        found.version or "not installed",
        ", ".join(can.modes),
        "1" if max(can.orders) == 1 else f"1 to {max(can.orders)}",
        ", ".join(can.dtypes),
        ", ".join(_device(kind) for kind in can.devices),
    ]


def _device(kind: str) -> str:
    """`no cuda` if this machine has no such device, so that a row fits into 120 columns."""
    return f"no {kind}" if lacking(Placement(kind)) else kind


def _missing_packages(found: Registered, style: Style, column: int) -> list[Text]:
    """`torch is not installed`, followed by the command that installs it on an unbroken line."""
    if found.engine is None:
        return [Text(), *labelled(found.name, f"cannot be used: {found.fault}", style, 0, column)]
    lines: list[Text] = []
    for what, install in found.missing:
        said = "is not installed" if install == found.install else f"needs {what}: there is none"
        lines += [Text(), *map(Text, wrapped(f"{found.name} {said}", style.width))]
        lines.append(Text("  ").append("install  ", style=DIM).append(plain(install)))
    return lines


def engines_as_json(engines: Mapping[str, Registered]) -> dict[str, Any]:
    """The engines as plain lists and dictionaries. An engine that cannot be used only has a
    `fault`."""
    return {"schema_version": SCHEMA_VERSION, "engines": [_entry(e) for e in engines.values()]}


def _entry(found: Registered) -> dict[str, Any]:
    if found.engine is None:
        fault = {"name": found.name, "installed": False, "fault": found.fault}
        return {**fault, "not_used": list(found.rivals)}
    can = found.engine.capabilities
    return {
        "name": found.name,
        "installed": found.installed,
        "version": found.version,
        "by_default": found.by_default,
        "modes": list(can.modes),
        "orders": list(can.orders),
        "dtypes": list(can.dtypes),
        "devices": list(can.devices),
        "devices_here": [kind for kind in can.devices if not lacking(Placement(kind))],
        "remark": can.remark,
        "not_used": list(found.rivals),
        "missing": [{"what": what, "install": install} for what, install in found.missing],
    }
