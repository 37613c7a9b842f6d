"""Specs as pytest items: one item for each spec. All items of a session share their workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from gradcheck_cli.cli.configuration import load_configuration
from gradcheck_cli.cli.execution import read_specs
from gradcheck_cli.cli.exits import PASSED, verdict
from gradcheck_cli.cli.run import command
from gradcheck_cli.cli.settings import Settings
from gradcheck_cli.domain.errors import GradcheckError, UsageError
from gradcheck_cli.domain.events import Finished
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import Report, SpecError
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.session import run
from gradcheck_cli.run.workers.pool import Pool
from gradcheck_cli.testing.report import NotRight, headline, mistakes_screen, screen


class Runner:
    """Runs the specs of a session, with the settings of `gradcheck run` and workers that stay from
    item to item."""

    def __init__(self, folder: Path, arguments: Sequence[str] = ()) -> None:
        """`arguments` are those of `gradcheck run`. Environment variables apply, too."""
        context = command.make_context("gradcheck run", [*arguments, "-"])
        self.settings = Settings(context, load_configuration(folder))
        self.options: RunOptions = self.settings.run_options()
        self._pool: Pool | None = None

    def report(self, spec: Spec) -> Report:
        """The report of one spec. Raises UsageError as a run does, and KeyboardInterrupt if it was
        interrupted."""
        if self._pool is None:
            self._pool = Pool(self.options.jobs, self.options.show_framework_output)
        *_, last = run([spec], self.options, self._pool)
        assert isinstance(last, Finished)
        if last.report.interrupted:
            raise KeyboardInterrupt
        return last.report

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


_RUNNER = pytest.StashKey[Runner]()


def runner(config: pytest.Config, arguments: Sequence[str] = ()) -> Runner:
    """The runner of this session. The first request creates it with `arguments`."""
    if _RUNNER not in config.stash:
        config.stash[_RUNNER] = Runner(config.rootpath, arguments)
    return config.stash[_RUNNER]


def close(config: pytest.Config) -> None:
    """Ends the workers, if there are any."""
    if _RUNNER in config.stash:
        config.stash[_RUNNER].close()


def items_of(file: pytest.File, arguments: Sequence[str]) -> Iterator[pytest.Item]:
    """The specs of a file, and one item for its mistakes. `arguments` are those of `gradcheck run`.
    Raises CollectError if the settings are wrong."""
    try:
        mine = runner(file.config, arguments)
    except (GradcheckError, click.ClickException) as error:
        raise file.CollectError(_settings_message(error)) from error
    errors: list[SpecError] = []
    user_code = not mine.settings.value("no-user-code", False)
    path = os.path.relpath(file.path)
    options = mine.options
    for spec in read_specs(
        [path], errors, options.seed, options.device, options.engines, user_code=user_code
    ):
        yield SpecItem.from_parent(file, name=spec.name, spec=spec)
    if errors:
        yield MistakesItem.from_parent(file, name="mistakes", mistakes=errors)


def _settings_message(error: Exception) -> str:
    """The message of `gradcheck run` about a mistake in its settings."""
    words = error.format_message() if isinstance(error, click.ClickException) else str(error)
    help = getattr(error, "help", "")
    mistakes = getattr(error, "mistakes", ())
    parts = [words, f"help: {help}" if help else "", mistakes_screen(mistakes) if mistakes else ""]
    return "\n".join(part for part in parts if part)


class _Item(pytest.Item):
    line = 1

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        return self.path, self.line - 1, self.name


class SpecItem(_Item):
    """A spec. It passes if `gradcheck run` would exit with 0."""

    def __init__(self, *, spec: Spec, **more: Any) -> None:
        super().__init__(**more)
        self.spec = spec
        self.line = spec.span.line

    def runtest(self) -> None:
        mine = runner(self.config)
        try:
            report = mine.report(self.spec)
        except UsageError as error:  # an engine that is not there
            raise NotRight(_settings_message(error)) from error
        settings = mine.settings
        code = verdict(report, settings.value("fail-on", "error"), settings.value("exit-zero"))
        if code != PASSED:
            raise NotRight(f"{headline(report)}\n\n{screen(report)}")


class MistakesItem(_Item):
    """The mistakes of a file, as an error before anything runs."""

    def __init__(self, *, mistakes: list[SpecError], **more: Any) -> None:
        super().__init__(**more)
        self.mistakes = tuple(mistakes)
        first = next((mistake.span for mistake in mistakes if mistake.span), None)
        self.line = first.line if first else 1

    def setup(self) -> None:
        raise NotRight(mistakes_screen(self.mistakes))

    def runtest(self) -> None:
        """Never reached: `setup` raises."""
