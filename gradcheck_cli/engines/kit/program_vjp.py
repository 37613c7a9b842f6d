"""The vjp of a function by one compiled program for value and gradients, as in a training step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcheck_cli.domain.dtypes import are_equal

Pulled = tuple[list[Any], Any, list[Any], dict[int, Any]]
"""The targets, the rest, the gradients, and the cotangents of marked arrays by number."""


class ProgramVJP:
    """Implements `derivatives.VJPFunction`. `run` takes the cotangents, one for each target. A
    function is differentiated where its value is wanted, so the first run has both, and nothing is
    compiled for the value alone. `first` are the cotangents of that run."""

    def __init__(self, run: Callable[[list[Any]], Pulled], first: Sequence[Any]) -> None:
        self._run = run
        self._asked = list(first)
        self._found = run(self._asked)

    @property
    def values(self) -> tuple[list[Any], Any]:
        """The targets and the rest."""
        return self._found[:2]

    def __call__(self, cotangents: Sequence[Any], again: bool = False) -> list[Any]:
        return self.with_marked(cotangents)[0]

    def with_marked(self, cotangents: Sequence[Any]) -> tuple[list[Any], dict[int, Any]]:
        if not all(map(are_equal, cotangents, self._asked)):
            self._asked = list(cotangents)
            self._found = self._run(self._asked)
        return self._found[2], self._found[3]
