"""Values that follow from a program alone, computed once and shared by dtypes, modes and checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from gradcheck_cli.domain.program import Program

P = ParamSpec("P")
T = TypeVar("T")

PROGRAMS = 64  # that are kept for each function: those of one spec, and of a few checks before


def kept(
    function: Callable[Concatenate[Program, P], T],
) -> Callable[Concatenate[Program, P], T]:
    """The function, which gives the same object for the very same program. Whoever calls it does
    not write to that."""
    known: dict[object, tuple[Program, T]] = {}

    @wraps(function)
    def found(program: Program, /, *more: P.args, **named: P.kwargs) -> T:
        key = id(program), more, *named.items()
        before = known.get(key)
        if before is not None:  # the program lives as long as it is here, so no other has its id
            return before[1]
        if len(known) >= PROGRAMS:
            del known[next(iter(known))]
        made = function(program, *more, **named)
        known[key] = program, made
        return made

    return found
