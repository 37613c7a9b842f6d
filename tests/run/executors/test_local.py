"""The executor of this machine by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import EngineReady
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.executors.local import Local

Read = Callable[[str], Spec]
Made = Callable[[str], Local]


@pytest.fixture
def made() -> Iterator[Made]:
    found: list[Local] = []

    def make(engine: str) -> Local:
        found.append(Local(RunOptions(engines=Layered(override=(engine,)))))
        return found[-1]

    yield make
    for one in found:
        one.kill()


def _results(executor: Local, count: int) -> dict[int, SpecResult]:
    found: dict[int, SpecResult] = {}
    while len(found) < count:
        message = executor.next()
        if not isinstance(message, EngineReady):
            found[message.number] = message.result
    return found


def test_each_spec_is_examined_under_its_number(spec: Read, made: Made) -> None:
    executor = made("reference")
    executor.start()
    for number in (7, 3):
        executor.submit(number, spec(f"name: s{number}\ninputs: {{x: 2.0}}\nmodel: x ** 2\n"))
    found = _results(executor, 2)
    assert {number: result.spec for number, result in found.items()} == {7: "s7", 3: "s3"}
    assert list(executor.engines()) == ["reference"]
    assert all(executor.engines().values())
    executor.close()


def test_an_unknown_engine_is_an_error_before_any_spec(made: Made) -> None:
    with pytest.raises(UsageError, match="unknown engine `nosuch`"):
        made("nosuch").start()
