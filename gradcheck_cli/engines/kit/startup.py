"""What gradcheck replaces or hides in a framework, to start and run in less time, and the switch
that leaves frameworks as they are.

Each replacement stands in the `startup.py` of its engine, under a name of its own, with what it
gains beside it (`benchmarks/replacements.py` measures all). GRADCHECK_PLAIN_FRAMEWORKS=1 leaves all
of them out, and GRADCHECK_PLAIN_FRAMEWORKS=NAME,... those: verdicts are the same, which CI checks.
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
    """Whether this part of a framework may be replaced or hidden."""
    left_out = os.environ.get(SWITCH, "").split(",")
    return "1" not in left_out and name not in left_out


class StandIn(ModuleType):
    """Stands for a module until something of it is requested, and then hands on to it."""

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
