"""A cache for values that depend on a program alone, shared by dtypes, modes and checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from gradcheck_cli.domain.program import Program

P = ParamSpec("P")
T = TypeVar("T")

PROGRAMS = 64  # kept for each function: the programs of one spec and of a few checks before


def cached_by_program(
    function: Callable[Concatenate[Program, P], T],
) -> Callable[Concatenate[Program, P], T]:
    """Cache the function by the identity of the program. All callers get the same object and must
    not change it."""
    known: dict[object, tuple[Program, T]] = {}

    @wraps(function)
    def found(program: Program, /, *more: P.args, **named: P.kwargs) -> T:
        key = id(program), more, *named.items()
        before = known.get(key)
        if before is not None:  # the cache keeps the program alive, so its id stays its own
            return before[1]
        if len(known) >= PROGRAMS:
            del known[next(iter(known))]
        made = function(program, *more, **named)
        known[key] = program, made
        return made

    return found
