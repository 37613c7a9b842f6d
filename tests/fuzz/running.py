"""Runs many specs on persistent workers: thousands of formulas in minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from gradcheck_cli import specfile
from gradcheck_cli.domain.events import Event, Finished
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run import session
from gradcheck_cli.run.workers.pool import Pool


class Runner:
    """Runs specs on persistent workers of `engines`."""

    def __init__(self, engines: Sequence[str], *, only: bool = False) -> None:
        """With `only`, run every spec on these engines; otherwise use them for specs that name
        none."""
        named = Layered(override=tuple(engines)) if only else Layered(fallback=tuple(engines))
        self.options = RunOptions(engines=named)
        self._pool: Pool | None = None
        self._entered = 0

    def __enter__(self) -> Runner:
        """May be entered more than once. The last exit ends the workers."""
        self._entered += 1
        if self._pool is None:
            self._pool = Pool(None, False)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if self._pool is not None and not self._entered:
            self._pool.close()
            self._pool = None

    def results(
        self, texts: Iterable[str], meanwhile: Callable[[int, Spec], None] | None = None
    ) -> list[SpecResult]:
        """One result for each text, which must be one right spec. `meanwhile` is called with
        each number and spec while the workers are busy. Raises AssertionError for a spec with
        mistakes."""

        def read() -> Iterator[Spec]:
            for number, text in enumerate(texts):
                specs, mistakes = specfile.read(f"{number}.yaml", text)
                assert not mistakes, f"{mistakes[0].message}\n{text}"
                yield specs[0]
                if meanwhile is not None:
                    meanwhile(number, specs[0])

        return self.of(read())

    def of(self, specs: Iterable[Spec], timeout: float | None = None) -> list[SpecResult]:
        """One result for each spec. `timeout` is in seconds, for one engine on one spec."""
        options = self.options
        if timeout is not None:
            options = replace(options, timeout=Layered(override=timeout))
        try:
            *_, last = cast("Iterator[Event]", session.run(specs, options, self._pool))
        except BaseException:
            self._pool = Pool(None, False)  # a run that ends badly has ended its workers
            raise
        assert isinstance(last, Finished)
        assert not last.report.interrupted
        return list(last.report.results)
