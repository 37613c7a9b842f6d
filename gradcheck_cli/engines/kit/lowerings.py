"""How a framework computes each operation, in tables that can be read without importing the
framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from gradcheck_cli.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a framework cannot compute an operation: it has no function for it, and none can be
    composed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """A call of the framework that has other names for the row's keywords.

    call   its dotted name below the framework
    names  the framework's name of a keyword; one that is not here keeps its name
    also   keywords that the row does not have
    part   which of several results is meant: an attribute
    """

    call: str
    names: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)
    part: str | None = None

    def keywords(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The framework's keywords for those of the row."""
        return {**{self.names.get(name, name): value for name, value in given.items()}, **self.also}


@dataclass(frozen=True, slots=True)
class Composed:
    """A function that receives the rows of its own table as a namespace (`xp.log`), then the
    arrays, then every keyword of the row by name."""

    function: Callable[..., Any]


Words = str | Renamed | Composed | Callable[..., Any]
"""A dotted name below the framework ("special.erf"), or a function that takes the framework, then
the arrays, then every keyword of the row by name."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The terms of a loss, of which the `reduction` of the row takes the table's own mean or sum.

    terms   takes the keywords of the row without `reduction`
    """

    terms: Words


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


Lowering = Words | Loss | Limited | Missing

Table = Mapping[str, Lowering]


def same_names(module: str, names: str) -> dict[str, str]:
    """Operations that are functions of a module of the framework (empty: of the framework itself),
    and are called like their rows."""
    prefix = f"{module}." if module else ""
    return {name: prefix + name for name in names.split()}


def had(table: Table) -> frozenset[str]:
    """The operations that are not missing."""
    return frozenset(op for op, lowering in table.items() if not isinstance(lowering, Missing))


def reasons(table: Table) -> dict[str, str]:
    """Why operations are missing, or their limitations."""
    return {op: found.reason for op, found in table.items() if isinstance(found, Missing | Limited)}


def bound(table: Table, framework: Any) -> dict[str, Callable[..., Any] | Missing]:
    """The table with functions in place of names. Raises AttributeError for a name that the
    framework lacks."""
    rows = SimpleNamespace()
    calls = {op: _bind(lowering, framework, rows) for op, lowering in table.items()}
    vars(rows).update(calls)
    return calls


def _bind(
    lowering: Lowering, framework: Any, rows: SimpleNamespace
) -> Callable[..., Any] | Missing:
    match lowering:
        case Missing():
            return lowering
        case Limited():
            return _call(lowering.call, framework, rows)
        case Loss():
            return partial(_loss, rows, _call(lowering.terms, framework, rows))
        case _:
            return _call(lowering, framework, rows)


def _call(words: Words, framework: Any, rows: SimpleNamespace) -> Callable[..., Any]:
    match words:
        case str():
            return attrgetter(words)(framework)
        case Renamed():
            return partial(_renamed, words, attrgetter(words.call)(framework))
        case Composed():
            return partial(words.function, rows)
        case _:
            return partial(words, framework)


def _renamed(words: Renamed, call: Callable[..., Any], *arrays: Any, **keywords: Any) -> Any:
    result = call(*arrays, **words.keywords(keywords))
    return result if words.part is None else getattr(result, words.part)


def _loss(
    rows: SimpleNamespace, terms: Callable[..., Any], *arrays: Any, reduction: str, **keywords: Any
) -> Any:
    found = terms(*arrays, **keywords)
    return found if reduction == "none" else getattr(rows, reduction)(found)
