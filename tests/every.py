"""Many cases in one test, all of which are tried. A failure names each case that failed.

Ten thousand separate tests would cost more than their calls.
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
    """Call check(case) for every case. Raises an ExceptionGroup of everything that was raised, with
    its case."""
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
    """The cases of a parametrized test: the first ones for `make test`, all for `make test-all`."""
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
    """Turn a test of one row of the op table, its first argument, into one test for each family,
    which tries every row. `name_of` returns the row that a case belongs to."""
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
