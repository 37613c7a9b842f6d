"""The values that a derivative reads: which parameters occur in the code of a function.

The tape keeps an argument's array for the reverse pass only if the rule reads it; `g * y` for exp
does not need x. This is read from the code of the rule, because a separate declaration could become
wrong.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

RESULT = -1
"""The position of y among the arguments of a rule, as `reads` of a rule counts them."""


class AllBut:
    """The positions of all arguments and the result, except some."""

    def __init__(self, *left_out: int) -> None:
        self._left_out = left_out

    def __contains__(self, position: object) -> bool:
        return position not in self._left_out


Positions = frozenset[int] | AllBut
EVERYTHING = AllBut()
NOTHING: frozenset[int] = frozenset()


def parameters_read(function: Callable[..., Any]) -> Positions:
    """The positions of the parameters that the function's code mentions.

    A variadic parameter that is mentioned stands for every position after the named ones; of
    anything but a plain Python function, every parameter counts as read.
    """
    if not isinstance(function, FunctionType):
        return EVERYTHING
    code = function.__code__
    names: set[str] = set(code.co_cellvars)  # read by a function inside
    for instruction in dis.get_instructions(code):
        if "LOAD" in instruction.opname and "FAST" in instruction.opname:
            loaded = instruction.argval
            names.update((loaded,) if isinstance(loaded, str) else loaded)
    named = code.co_varnames[: code.co_argcount]
    variadic = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][:1]
    if code.co_flags & 0x04 and variadic[0] in names:  # inspect.CO_VARARGS
        return EVERYTHING
    return frozenset(i for i, name in enumerate(named) if name in names)


def positions_read(functions: Iterable[Callable[..., Any] | None]) -> Positions:
    """The positions that any of the functions, called (g, y, *xs), reads. None reads nothing."""
    read: set[int] = set()
    for function in functions:
        places = NOTHING if function is None else parameters_read(function)
        if isinstance(places, AllBut):
            return EVERYTHING
        read.update(i - 2 for i in places if i)  # the cotangent is no position, y is RESULT
    return frozenset(read)
