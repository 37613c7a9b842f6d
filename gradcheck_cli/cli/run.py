"""`gradcheck run`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from gradcheck_cli.cli.outputs import STANDARD, Output, check_targets
from gradcheck_cli.cli.settings import Settings, SettingsCommand, options_of
from gradcheck_cli.cli.streams import is_terminal, prepare_streams, style_for, talk
from gradcheck_cli.cli.words import did_you_mean, skipped_words
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.options import Layered
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.report import FORMATS, ILLUSTRATED

if TYPE_CHECKING:
    from gradcheck_cli.cli.changed import Changes
    from gradcheck_cli.cli.execution import Interrupts, Listener, Selection
    from gradcheck_cli.cli.listeners import Printer
    from gradcheck_cli.cli.recalling import Recall
    from gradcheck_cli.cli.shard import Shard
    from gradcheck_cli.domain.options import RunOptions
    from gradcheck_cli.domain.report import Report, SpecError
    from gradcheck_cli.domain.spec import Spec

    Check: TypeAlias = Callable[[Settings, Sequence[Printer], bool], Report]

_FORMULA = b"model"  # the key of a spec

EPILOG = """Every setting has an environment variable (--fail-on: GRADCHECK_FAIL_ON) and a key
in [tool.gradcheck] of the nearest pyproject.toml (fail-on). The command line overrides the
environment, which overrides the spec, which overrides the configuration. Exit codes: 0 all passed,
1 findings, 2 usage or spec error, 3 internal error, 5 nothing checked, 130 interrupted (SIGTERM:
143)."""


@click.command(cls=SettingsCommand, epilog=EPILOG)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@click.option("--watch", is_flag=True, help="Run again whenever a file of the project changes.")
@click.option(
    "--at",
    multiple=True,
    metavar="NAME=VALUE",
    help="Check at this value of an input instead of the spec's points; may be repeated.",
)
@options_of()
@click.pass_context
def command(
    context: click.Context, /, paths: tuple[str, ...], watch: bool, at: tuple[str, ...], **_: Any
) -> int:
    """Check the gradients of specs: files, folders, globs or - (standard input).

    Without PATH: all specs in and below the working folder, which are files named *.gradcheck.yaml
    and YAML files with a key `model` or `implementations`.
    """
    from gradcheck_cli.cli.execution import Interrupts

    job = Job(paths or (os.curdir,), at=at)

    def once() -> int:
        with Interrupts() as interrupts:
            return run(context, job, interrupts)

    if not watch:
        return once()
    from gradcheck_cli.cli import watching

    return watching.watch(once, job.paths)


@dataclass(frozen=True, slots=True)
class Job:
    """What a command runs: the specs of `paths`, or of `text`, which replaces the file `paths[0]`.
    `engines` are the engines that the command names; `called` is the command line that repeats it
    (Spec); `at` is the point (RunOptions)."""

    paths: Sequence[str]
    text: str | None = None
    engines: tuple[str, ...] = ()
    called: str = ""
    at: tuple[str, ...] = ()


def run(context: click.Context, job: Job, interrupts: Interrupts) -> int:
    """Run a job with the settings of a command that has `options_of`. Returns the exit
    code."""
    from gradcheck_cli.run.workers.launch import prewarm, prewarm_named

    if not context.params["cluster"]:  # whose nodes have workers of their own
        if _may_have_formulas(job):  # the reference engine starts while this process imports
            prewarm()
        if context.params["device"] in (None, "cpu"):
            named = (name for names in context.params["engine"] for name in names)
            prewarm_named((*job.engines, *named))
    return reported(context, partial(_run_checks, job, interrupts), ", ".join(job.paths))


def _may_have_formulas(job: Job) -> bool:
    """Whether a spec may have a formula, whose truth the reference engine computes. Of a folder
    nothing is known before it is searched."""
    if job.text is not None:
        return _FORMULA.decode() in job.text
    files = (Path(path) for path in job.paths)
    return any(not path.is_file() or _FORMULA in path.read_bytes() for path in files)


def reported(context: click.Context, check: Check, what: str, usual: str = "full") -> int:
    """Check `what` with the settings of a command that has `options_of`, and report in the
    `usual` format unless another is requested. Returns the exit code."""
    from gradcheck_cli.cli.configuration import load_configuration
    from gradcheck_cli.cli.exits import verdict

    prepare_streams()
    wary = bool(context.params.get("no_user_code"))  # the configuration comes with that code
    settings = Settings(context, load_configuration(trusted=not wary))
    with ExitStack() as stack:
        targets, printers = printers_of(settings, stack, usual)
        drawn = any(name in ILLUSTRATED for name, _ in targets)
        report = check(settings, printers, drawn)
        end(printers)
    left_out = report.unchanged or report.elsewhere
    if not (report.results or report.errors or report.interrupted or left_out):
        talk(f"nothing was checked: no spec in {what}; `gradcheck init` writes a first one")
    code = verdict(report, report.fail_on, settings.value("exit-zero", False))
    return _with_baseline(code, report, settings)


def end(printers: Sequence[Printer]) -> None:
    """Move all reports to their places. Raises UsageError."""
    for printer in printers:
        printer.end()
    failures = [printer.failure for printer in printers if printer.failure]
    if failures:
        raise UsageError("; ".join(failures))


def _with_baseline(code: int, report: Report, settings: Settings) -> int:
    """Write a baseline, or report which of its findings are gone. Returns the exit code."""
    from gradcheck_cli.cli.exits import FOUND, PASSED

    new, known = settings.value("write-baseline"), settings.value("baseline")
    whole = code in (PASSED, FOUND)
    if new and not whole:
        talk(f"{new} was not written: a baseline is of a whole run, without mistakes")
    if not whole or not (new or known):
        return code
    from gradcheck_cli.cli.baseline import unmet, write_baseline

    if new:
        write_baseline(new, report)
        return PASSED
    partly = report.unchanged or report.elsewhere or settings.value("fail-fast", False)
    if count := unmet(known, report, whole=not partly):
        are = "is" if count == 1 else "are"
        update = f"--write-baseline {known} updates it"
        talk(f"baseline {known}: {count} of its findings {are} gone; {update}")
    return code


def _run_checks(
    job: Job,
    interrupts: Interrupts,
    settings: Settings,
    printers: Sequence[Printer],
    illustrated: bool,
) -> Report:
    from gradcheck_cli import specfile
    from gradcheck_cli.cli.execution import Selection, execute, read_specs
    from gradcheck_cli.cli.repro import Scripts
    from gradcheck_cli.cli.shard import Shard

    texts = {} if job.text is None else {job.paths[0]: job.text}
    files, unreadable, skipped = specfile.expand(job.paths) if not texts else ([*texts], [], 0)
    shard = Shard(settings.value("shard", ""))
    every = len(files)
    outputs = [printer.output for printer in printers]
    check_targets(outputs, files)
    errors = list(unreadable)
    user_code = not settings.value("no-user-code", False)
    options = _options(job, settings, illustrated=illustrated)
    changes = _changes(settings)
    folder = settings.value("repro", "")
    scripts = Scripts(folder, options.seed) if folder else None
    known = not (texts or changes or scripts)  # results alone do not make a script
    recall = _recall(options, files, errors, settings, shard) if known else None
    if recall is not None:
        files, options = recall.files, recall.options
    specs = read_specs(
        files, errors, options.seed, options.device, options.engines, texts, user_code=user_code
    )
    part = Selection(recall, changes, shard)
    specs = _of_run(specs, part, job)
    heard: Sequence[Listener] = printers
    if scripts is not None:
        specs = scripts.record(specs)
        heard = [*printers, scripts]
    listeners = listeners_of(settings, heard, every)
    read: list[str] = recall.code if recall else []
    specs = _noting_files(specs, read)
    report = execute(specs, options, listeners, errors, typed(), interrupts, part)
    check_targets(outputs, read)
    if scripts is not None:
        scripts.end()
    if recall is not None:
        recall.close()
    if skipped and not settings.verbosity()[0]:
        talk(skipped_words(skipped))
    return report


def _of_run(specs: Iterator[Spec], part: Selection, job: Job) -> Iterator[Spec]:
    """The specs among those that are read that this run checks, as its command requires them."""
    if job.at:
        from gradcheck_cli.specfile.points import specs_at_point

        specs = specs_at_point(specs, job.at)
    if part.shard is not None and part.shard.name:
        specs = part.shard.part_of(specs)
    if part.changes is not None:
        specs = part.changes.concerned(specs)
    if job.called:
        specs = (replace(spec, called=job.called) for spec in specs)
    return specs


def typed() -> str:
    """This command as it was typed."""
    return f"gradcheck {shlex.join(sys.argv[1:])}"


def listeners_of(
    settings: Settings, listeners: Sequence[Listener], files: int
) -> Sequence[Listener]:
    """The listeners, with a progress line if standard error is a terminal."""
    from gradcheck_cli.cli.listeners import Progress

    quiet, _ = settings.verbosity()
    if is_terminal(sys.stderr) and not quiet:
        return [Progress(listeners, sys.stderr, files)]
    return listeners


def _options(job: Job, settings: Settings, *, illustrated: bool) -> RunOptions:
    options = replace(settings.run_options(), at=job.at, illustrated=illustrated)
    return replace(options, engines=Layered(override=job.engines)) if job.engines else options


def _changes(settings: Settings) -> Changes | None:
    """The changes to which the run is limited, or None."""
    revision = settings.value("changed-since")
    if not revision:
        return None
    from gradcheck_cli.cli.changed import Changes

    return Changes(revision)


def _recall(
    options: RunOptions,
    files: Sequence[str],
    errors: Sequence[SpecError],
    settings: Settings,
    shard: Shard,
) -> Recall | None:
    """The results of earlier runs, or None if they must not be used."""
    if settings.value("no-cache", False):
        return None
    from gradcheck_cli.cli.recalling import Recall
    from gradcheck_cli.run.result_cache import usable

    user_code = not settings.value("no-user-code", False)
    if not usable(options):
        return None
    return Recall(options, files, errors, shard, user_code=user_code)


def _noting_files(specs: Iterable[Spec], read: list[str]) -> Iterator[Spec]:
    """The specs. The files of their layers are added to `read`."""
    for spec in specs:
        read += (file for layer in spec.implementations for file in layer.files)
        yield spec


def printers_of(
    settings: Settings, stack: ExitStack, usual: str = "full"
) -> tuple[list[tuple[str, str]], list[Printer]]:
    """The requested reports by format and file, and their printers. In a GitHub action, a summary
    of the step is added."""
    main = settings.value("format", usual), settings.value("output", STANDARD)
    targets = [main, *map(_format_and_file, settings.value("report", ()))]
    from gradcheck_cli.cli.listeners import Printer
    from gradcheck_cli.report import open_writer

    quiet, verbose = settings.verbosity()
    color = settings.value("color")
    step = os.environ.get("GITHUB_STEP_SUMMARY")
    summaries = [("markdown", step)] if step and any(n == "github" for n, _ in targets) else []
    printers = []
    for name, file in [*targets, *summaries]:
        output = stack.enter_context(Output(file, append=file == step))
        style = style_for(output.stream, color, verbose=verbose, quiet=quiet)
        printers.append(Printer(open_writer(name, output.stream, style), output))
    return targets, printers


def _format_and_file(text: str) -> tuple[str, str]:
    name, separator, file = text.partition("=")
    if name not in FORMATS:
        hint = did_you_mean(name, FORMATS)
        raise UsageError(f"--report: {name!r} is not one of {', '.join(FORMATS)}.{hint}")
    if not separator or not file or file == "-":
        raise UsageError(
            f"--report: {text!r} names no file", "write FORMAT=FILE, for example json=report.json"
        )
    return name, file
