"""Many cases in one test, all of which are tried: a failure tells each case that failed.

A test of its own for each of ten thousand calls costs more than the calls do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import pytest

from reference_engine.op import INTERNAL, TABLE

Case = TypeVar("Case")


def every(cases: Iterable[Case], check: Callable[[Case], None]) -> None:
    """check(case) for every case; an ExceptionGroup holds whatever was raised, with its case."""
    failures: list[Exception] = []
    for case in cases:
        try:
            check(case)
        except Exception as error:
            error.add_note(f"case: {case}")
            failures.append(error)
    if failures:
        raise ExceptionGroup("cases that failed", failures)


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """Cases of a parametrized test: `make test` has the first ones, `make test-all` has all."""
    rest = pytest.mark.exhaustive
    return [
        case if number < count else pytest.param(*_arguments(case), marks=rest)
        for number, case in enumerate(cases)
    ]


def _arguments(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)


def by_family(
    rows: Iterable[Case], name_of: Callable[[Case], str] = str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes of a test of one row of the op table, its first argument, a test of each family: one
    item a family, in which every row is tried. `name_of` has the row that a case belongs to."""
    families: dict[str, list[Case]] = {}
    for row in sorted(rows, key=name_of):  # a set has another order in each process
        name = name_of(row)
        found = TABLE.get(name) or INTERNAL[name]
        families.setdefault(found.family, []).append(row)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def of_family(family: str, **fixtures: Any) -> None:
            every(families[family], lambda row: test(row, **fixtures))

        _, *others = inspect.signature(test).parameters.values()
        own = inspect.Parameter("family", inspect.Parameter.KEYWORD_ONLY)
        keywords = [other.replace(kind=inspect.Parameter.KEYWORD_ONLY) for other in others]
        of_family.__signature__ = inspect.Signature([own, *keywords])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("family", families)(of_family)

    return decorate
