"""Finds the rows of the op table that the kernels of a framework are written in, by reading their
code."""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

from gradcheck_cli.engines.trace.exact_kernels import Kernel

MOVES = "only moves numbers"
ARITHMETIC = "arithmetic"

_OURS = ("gradcheck_cli.engines",)


def stated_in_rows(module: str) -> dict[str, str]:
    """The operations of a module of kernels, by their names in the framework: the rows, separated
    by commas; ARITHMETIC if only operators are used, MOVES if the kernel only moves numbers."""
    kernels = importlib.import_module(module)
    derivatives = getattr(kernels, "DERIVATIVES", {})
    rows = dict.fromkeys([*kernels.DATA_MOVEMENT, *getattr(kernels, "MOVED", ())], MOVES)
    for name, kernel in {**kernels.KERNELS, **getattr(kernels, "CHOSEN", {})}.items():
        if name not in derivatives:
            rows[name] = ", ".join(sorted(rows_of(kernel))) or ARITHMETIC
    return dict(sorted(rows.items()))


def rows_of(kernel: Kernel) -> frozenset[str]:
    """The rows whose names occur in the kernel, or in a function that it calls."""
    import reference_engine  # noqa: F401 - fills the table
    from reference_engine.op import INTERNAL, TABLE

    texts: set[str] = set()
    waiting, seen = [kernel], set()
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for one in _constants_and_names(function):
            if isinstance(one, str):
                texts.add(one)
            elif isinstance(one, types.FunctionType):
                waiting.append(one)
    return frozenset(texts & {*TABLE, *INTERNAL})


def _constants_and_names(function: Any) -> Iterator[Any]:
    """The constants of a function, its closure, and the names that it uses."""
    for cell in function.__closure__ or ():
        yield cell.cell_contents
    for code in _codes(function.__code__):
        yield from (one for one in code.co_consts if one != function.__doc__)
        for name in code.co_names:
            yield from _own_functions(function.__globals__, name, code.co_names)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _own_functions(space: Mapping[str, Any], name: str, others: tuple[str, ...]) -> Iterator[Any]:
    """Our own functions of that name; for a module of ours, the functions that are named with
    it."""
    one = space.get(name)
    if isinstance(one, types.ModuleType) and one.__name__.startswith(_OURS):
        yield from (getattr(one, other) for other in others if hasattr(one, other))
    elif isinstance(one, types.FunctionType) and one.__module__.startswith(_OURS):
        yield one
