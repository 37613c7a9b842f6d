"""Calls of a layer beside its point, where it may have no value. An exception that the point does
not cause is raised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.tracebacks import as_failure, raise_if_internal

Answer = TypeVar("Answer")

ONCE = "in one call, but not in the next one with the same numbers"
HERE = "in a later call at the given point, where it ran before"


class RaisedLater(EngineFault):
    """The layer raises in some calls for a reason other than the point. The message says in which
    calls."""

    def __init__(self, error: Exception, which: str) -> None:
        failure = as_failure(error)
        super().__init__(f"{failure.message} ({which})")
        self.kind, self.detail, self.place = failure.kind, failure.detail, failure.place


def try_call(there: Callable[[], Answer], here: Callable[[], object]) -> Answer | None:
    """The result of the call `there`, beside the layer's point; None if the layer refuses that
    point. It does if it raises there twice, while the same call at its own point (`here`) runs.

    Raises RaisedLater, and exceptions of gradcheck's own code.
    """
    try:
        return there()
    except Exception as error:
        raise_if_internal(error)
        first = error
    try:
        there()
    except Exception:
        pass  # as before: the layer's own point decides
    else:
        raise RaisedLater(first, ONCE) from first
    try:
        here()
    except Exception as error:
        raise RaisedLater(error, HERE) from error
    return None


def moved_inside(subject: Subject, values: Values) -> Values:
    """The values beside the subject's own, with each move that leaves the domain taken the other
    way."""
    leaves = {leaf.name: leaf for leaf in subject.leaves}
    return {n: leaves[n].inside(v) if n in leaves else v for n, v in values.items()}


def is_inside(subject: Subject, values: Values) -> bool:
    """Check whether all values are in their domains."""
    return _in_domain(subject, [values])[0]


def _in_domain(subject: Subject, many: Sequence[Values]) -> list[bool]:
    bounded = {leaf.name: leaf for leaf in subject.leaves if leaf.is_bounded}
    if not bounded:
        return [True] * len(many)
    return [all(bounded[n].holds(v) for n, v in at.items() if n in bounded) for at in many]


def values_of(subject: Subject, many: Sequence[Values], count: int) -> Array:
    """The flattened outputs at several points, (k, count); nan at points outside the domain, where
    the layer is not called, and at points that the layer refuses. Raises what `try_call` raises."""
    inside = _in_domain(subject, many)
    if all(inside):
        return _values_of(subject, many, count)
    allowed = [values for values, holds in zip(many, inside, strict=True) if holds]
    found = iter(_values_of(subject, allowed, count) if allowed else ())
    nowhere = np.full(count, np.nan)
    return np.stack([next(found) if holds else nowhere for holds in inside])


def _values_of(subject: Subject, many: Sequence[Values], count: int) -> Array:
    try:
        return subject.several(many)
    except Exception as error:
        raise_if_internal(error)
        first = error
    here = partial(subject.value, {})
    found = [try_call(partial(subject.value, values), here) for values in many]
    if all(value is not None for value in found):
        raise RaisedLater(first, ONCE) from first
    return np.stack([np.full(count, np.nan) if value is None else value for value in found])
