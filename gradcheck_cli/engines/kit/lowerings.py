"""Each operation in a framework's own words, in tables that can be read without the framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any


@dataclass(frozen=True, slots=True)
class Missing:
    """The framework has nothing for an operation, nor can it be composed of what it has; why."""

    reason: str


Words = str | Callable[..., Any]
"""A dotted name below the framework ("special.erf"), or a function that takes the framework, then
the arrays, then every keyword of the row by name."""


@dataclass(frozen=True, slots=True)
class Limited:
    """What a user of the framework would call, and in what it falls short of the row; why.

    constants     the format of its constants, where that is not the arguments' own
    second        the format whose digits its second derivatives have, where that is a coarser one
    reverse_only  its derivative has no derivative: neither forward mode nor second order
    """

    call: Words
    reason: str
    constants: str | None = None
    second: str | None = None
    reverse_only: bool = False


Lowering = Words | Limited | Missing

Table = Mapping[str, Lowering]


def had(table: Table) -> frozenset[str]:
    """The operations that are not missing."""
    return frozenset(op for op, lowering in table.items() if not isinstance(lowering, Missing))


def reasons(table: Table) -> dict[str, str]:
    """Why operations are missing, or in what they fall short."""
    return {op: found.reason for op, found in table.items() if isinstance(found, Missing | Limited)}


def bound(table: Table, framework: Any) -> dict[str, Callable[..., Any] | Missing]:
    """The table with the framework in its place. Raises AttributeError for a name that it lacks."""
    return {op: _bind(lowering, framework) for op, lowering in table.items()}


def _bind(lowering: Lowering, framework: Any) -> Callable[..., Any] | Missing:
    if isinstance(lowering, Missing):
        return lowering
    if isinstance(lowering, Limited):
        lowering = lowering.call
    if isinstance(lowering, str):
        call: Callable[..., Any] = attrgetter(lowering)(framework)
        return call
    return partial(lowering, framework)
