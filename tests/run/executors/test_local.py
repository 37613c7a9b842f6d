"""The executor of this machine by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import EngineReady
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.executors.local import Local
from gradcheck_cli.run.workers.pool import Pool

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


def test_layers_need_no_truth_of_a_formula(
    spec: Read, made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[str] = []
    own = Pool.start

    def start(pool: Pool, engine: str, *args: Any) -> None:
        started.append(engine)
        own(pool, engine, *args)

    monkeypatch.setattr(Pool, "start", start)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layers.py").write_text("def square(x):\n    return x * x\n", "utf-8")
    executor = made("numpy")
    executor.start()
    text = "name: square\ninputs: {x: 2.0}\nimplementations: {numpy: layers.py:square}\n"
    executor.submit(0, spec(text))
    _results(executor, 1)
    assert set(started) == {"numpy"}
    executor.close()


def test_an_unknown_engine_is_an_error_before_any_spec(made: Made) -> None:
    with pytest.raises(UsageError, match="unknown engine `nosuch`"):
        made("nosuch").start()
