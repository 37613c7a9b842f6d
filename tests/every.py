"""Many cases in one test, all of which are tried: a failure tells each case that failed.

A test of its own for each of ten thousand calls costs more than the calls do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

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
