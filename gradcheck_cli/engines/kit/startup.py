"""Replacements of parts of a framework that make it start and run faster, and the switch that
disables them.

Each replacement is in the `startup.py` of its engine, under its own name, with its measured gain
(`benchmarks/replacements.py` measures all). GRADCHECK_PLAIN_FRAMEWORKS=1 disables all of them, and
GRADCHECK_PLAIN_FRAMEWORKS=NAME,... these. Verdicts do not depend on them, which CI checks.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

SWITCH = "GRADCHECK_PLAIN_FRAMEWORKS"


def replaces(name: str) -> bool:
    """Whether this part of a framework may be replaced."""
    left_out = os.environ.get(SWITCH, "").split(",")
    return "1" not in left_out and name not in left_out


class StandIn(ModuleType):
    """Stands for a module until an attribute of it is used, and imports it then."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real(), name)

    def __dir__(self) -> Iterable[str]:
        return dir(self.real())

    def real(self) -> ModuleType:
        self.leave()
        return importlib.import_module(self.__name__)

    def leave(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
