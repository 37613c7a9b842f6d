"""Reads the entry points `gradcheck.engines`, where engines are registered. Imports the standard
library only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

GROUP = "gradcheck.engines"
REFERENCE = "gradcheck_cli.engines.reference.engine:ReferenceEngine"


@cache
def claims() -> Mapping[str, tuple[str, ...]]:
    """Every "module:Class" by its registered name, ours first. The scan takes as long as a small
    run."""
    from importlib import metadata

    found: dict[str, dict[str, None]] = {}
    for point in metadata.entry_points(group=GROUP):
        found.setdefault(point.name, {})[point.value] = None
    return {
        name: tuple(sorted(values, key=lambda value: not value.startswith("gradcheck_cli.")))
        for name, values in found.items()
    }


@cache
def targets() -> Mapping[str, str]:
    """The target that is used for each name."""
    return {name: values[0] for name, values in claims().items()}
