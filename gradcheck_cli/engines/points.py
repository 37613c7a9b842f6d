"""Where engines are registered: the entry points `gradcheck.engines`. Imports the standard library
only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

GROUP = "gradcheck.engines"
REFERENCE = "gradcheck_cli.engines.reference:ReferenceEngine"


@cache
def targets() -> Mapping[str, str]:
    """ "module:Class" by the engine's name. The scan takes as long as a small run."""
    from importlib import metadata

    return {point.name: point.value for point in metadata.entry_points(group=GROUP)}
