"""A search has so much processor time, and ends by the clock on a machine that has none for it."""

import time

import pytest

from gradcheck_cli.domain.search import KINDS, WAIT
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.searching import Searching

from .searched import domain_in, spec_of


class Clocks:
    """The processor time of this process, and the clock on the wall."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.work = self.wall = 100.0
        patch.setattr(time, "process_time", lambda: self.work)
        patch.setattr(time, "monotonic", lambda: self.wall)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_time_in_which_others_work_does_not_count(clocks: Clocks) -> None:
    budget = Budget(10.0)
    clocks.wall += 12.0
    clocks.work += 2.0
    assert not budget.is_spent
    clocks.work += 8.0
    assert budget.is_spent


def test_nobody_waits_without_end(clocks: Clocks) -> None:
    budget = Budget(10.0)
    clocks.wall += 10.0 * WAIT
    assert budget.is_spent


def test_a_part_is_not_longer_than_the_rest(clocks: Clocks) -> None:
    budget = Budget(10.0)
    clocks.work += 9.0
    assert budget.part(5.0).left == 1.0
    assert budget.part(0.5).left == 0.5


def test_the_clock_may_leave_less(clocks: Clocks) -> None:
    budget = Budget(10.0, 12.0)
    clocks.wall += 9.0
    clocks.work += 3.0
    assert budget.left == 3.0
    assert budget.part(2.0).left == 2.0
    clocks.wall += 2.0
    assert budget.part(2.0).left == 1.0
    assert budget.part(2.0).wait == 1.0


def test_all_parts_of_a_search_end_in_time_on_a_busy_machine(clocks: Clocks) -> None:
    """What is looked for, regions, simpler witnesses and fixes share the time by the clock."""
    spec = spec_of("{x: {value: 1, domain: [0.5, 2]}}", "exp(x)")
    searching = Searching(spec, "reference", domain_in(spec), KINDS, 10.0, 0)
    clocks.wall += 10.0 * WAIT
    assert all(searching.until(part) <= 0 for part in (0.5, 1.0))
    assert searching._budget.is_spent


@pytest.mark.parametrize("took", [0.5, 2.0, 4.0])
def test_no_step_begins_that_may_end_too_late(clocks: Clocks, took: float) -> None:
    """As long as the longest one before, on a machine that is busy with other things."""
    budget = Budget(10.0)
    while not budget.is_spent:
        clocks.wall += took
        clocks.work += took / 100
    assert 0 < budget.wait <= took


def test_one_long_step_does_not_end_a_search(clocks: Clocks) -> None:
    budget = Budget(10.0)
    clocks.wall += 11.0
    clocks.work += 1.0
    assert not budget.is_spent


def test_a_search_for_a_fix_ends_when_its_budget_does(clocks: Clocks) -> None:
    """However long the engine took to begin."""
    spec = spec_of("{x: {value: 1, domain: [0.5, 2]}}", "exp(x)")
    searching = Searching(spec, "reference", domain_in(spec), KINDS, 10.0, 0, wait=6.0)
    clocks.wall += 5.0
    searching._start()
    assert searching.start_took == 5.0
    assert searching.until(0.1) == searching.until(1.0) == 1.0
    clocks.wall += 1.0
    assert searching._budget.is_spent
