"""`gradcheck suite`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gradcheck_cli.cli.option_types import Choice, Integer
from gradcheck_cli.cli.run import listeners_of, reported, typed
from gradcheck_cli.cli.settings import OF_SUITES, Settings, SettingsCommand, options_of
from gradcheck_cli.cli.words import did_you_mean
from gradcheck_cli.domain.dtypes import COMPLEX
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.options import Layered
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.suite import SUITES

if TYPE_CHECKING:
    from gradcheck_cli.cli.execution import Interrupts
    from gradcheck_cli.cli.listeners import Printer
    from gradcheck_cli.domain.options import RunOptions
    from gradcheck_cli.domain.report import Report

SAMPLES = 4
"""Samples of each operation. The first samples in a database are the ordinary ones."""

EPILOG = """torch-ops are the operations of op_db, the database of PyTorch's own tests, with its
samples; jax-ops and tensorflow-ops are public functions, listed in gradcheck. `gradcheck merge`
combines the reports of all shards."""


@dataclass(frozen=True, slots=True)
class _Job:
    """The operations of a suite, the number of samples of each, and the highest order."""

    suite: str
    ops: tuple[str, ...]
    samples: int
    order: int


@click.command(cls=SettingsCommand, epilog=EPILOG)
@click.argument("name", metavar="NAME", type=Choice(tuple(SUITES)))
@click.argument("ops", nargs=-1, metavar="[OP]...")
@click.option("--order", type=Integer(1, 2), default=1, help="2 also checks second derivatives.")
@click.option(
    "--samples",
    type=Integer(min=1),
    default=SAMPLES,
    help=f"Maximum number of samples per operation; default: {SAMPLES}.",
)
@options_of(OF_SUITES)
@click.pass_context
def command(
    context: click.Context, /, name: str, ops: tuple[str, ...], order: int, samples: int, **_: Any
) -> int:
    """Check the operations of a framework at its own sample inputs.

    NAME is torch-ops, jax-ops or tensorflow-ops. OP is the name of an operation, or a pattern:
    'linalg.*'; default: all. --engine torch-compile checks them as compiled. The result is a table
    of operations and their findings, unless --format says otherwise.
    """
    from gradcheck_cli.cli.execution import Interrupts
    from gradcheck_cli.run.workers.launch import prewarm

    if not context.params["cluster"]:
        prewarm()
    with Interrupts() as interrupts:
        job = _Job(name, ops, samples, order)
        return reported(context, partial(_run_checks, job, interrupts), name, usual="suite")


def _run_checks(
    job: _Job,
    interrupts: Interrupts,
    settings: Settings,
    printers: Sequence[Printer],
    illustrated: bool,
) -> Report:
    from gradcheck_cli.cli.execution import Selection, execute
    from gradcheck_cli.cli.shard import Shard
    from gradcheck_cli.run.suite import Suite

    options = replace(settings.run_options(), illustrated=illustrated)
    options = replace(options, engines=Layered(override=_engines(job.suite, options)))
    dtypes = options.dtypes.resolve(None, ())
    with closing(Suite(job.suite, options)) as suite:
        shard = Shard(settings.value("shard", ""))
        names = shard.names(_matching(job.ops, suite.names()))
        is_complex = bool(dtypes) and set(dtypes) <= set(COMPLEX)
        specs = suite.specs(names, job.samples, job.order, is_complex)
        listeners = listeners_of(settings, printers, len(specs))
        part = Selection(shard=shard, suite=suite)
        return execute(specs, options, listeners, [], typed(), interrupts, part)


def _engines(suite: str, options: RunOptions) -> tuple[str, ...]:
    """The engines to run. Raises UsageError for an engine that does not run the suite."""
    known = SUITES[suite]
    named: tuple[str, ...] = options.engines.resolve(None, known[:1])
    if other := next((name for name in named if name not in known), None):
        raise UsageError(
            f"the engine `{other}` does not run {suite}", f"--engine {'|'.join(known)}"
        )
    return named


def _matching(patterns: Collection[str], names: Sequence[str]) -> list[str]:
    """The operations that match the patterns. Raises UsageError for a pattern without a match."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            hint = did_you_mean(pattern, names)
            raise UsageError(f"no operation is called {pattern!r}.{hint}")
    return [name for name in names if not patterns or any(fnmatchcase(name, p) for p in patterns)]
