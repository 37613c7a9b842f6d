"""`gradcheck run`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import click

from gradcheck_cli.cli.settings import Settings, settings_options
from gradcheck_cli.cli.streams import is_terminal, prepare_streams, style_for, talk
from gradcheck_cli.cli.words import did_you_mean
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.report import FORMATS

EPILOG = """Every setting has a variable (--fail-on: GRADCHECK_FAIL_ON) and a key in
[tool.gradcheck] of the nearest pyproject.toml (fail-on). The command line beats the environment,
that beats the spec, that beats the configuration. Exit codes: 0 all passed, 1 findings, 2 usage or
spec error, 3 internal error, 5 nothing checked, 130 interrupted (SIGTERM: 143)."""


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@settings_options
@click.pass_context
def command(context: click.Context, /, paths: tuple[str, ...], **_: Any) -> int:
    """Check the gradients of specs: files, folders, globs or - (standard input)."""
    from gradcheck_cli.run.launch import prewarm, prewarm_named

    prewarm()  # the reference engine's process starts while this one is still importing
    if context.params["device"] in (None, "cpu"):
        prewarm_named(name for names in context.params["engine"] for name in names)
    from gradcheck_cli.cli.configuration import load_configuration
    from gradcheck_cli.cli.exits import verdict

    prepare_streams()
    settings = Settings(context, load_configuration(Path.cwd()))
    with ExitStack() as stack:
        listeners = _listeners(settings, stack)
        report = _checked(paths, settings, listeners)
    code = verdict(report, settings.value("fail-on", "error"), settings.value("exit-zero", False))
    if not (report.results or report.errors):
        talk(f"nothing was checked: no spec in {', '.join(paths)}")
    return code


def _checked(paths: Sequence[str], settings: Settings, listeners: Sequence[Any]) -> Any:
    from gradcheck_cli import specfile
    from gradcheck_cli.cli.execution import execute, read_specs

    files, unreadable = specfile.expand(paths)
    errors = list(unreadable)
    told = f"gradcheck {shlex.join(sys.argv[1:])}"
    options = settings.run_options()
    user_code = not settings.value("no-user-code", False)
    specs = read_specs(files, errors, options.seed, options.device, user_code=user_code)
    return execute(specs, options, listeners, errors, told)


def _listeners(settings: Settings, stack: ExitStack) -> list[Any]:
    """The report that was asked for and further ones; on a terminal, the progress line around."""
    from gradcheck_cli.cli.listeners import Printer, Progress
    from gradcheck_cli.report import open_writer

    quiet, verbose = settings.verbosity()
    color = settings.value("color")
    output = settings.value("output", "-")
    targets = [(settings.value("format", "full"), output)]
    targets += [_format_and_file(text) for text in settings.value("report", ())]
    listeners: list[Any] = []
    for name, file in targets:
        stream = sys.stdout if file == "-" else _opened(file, stack)
        style = style_for(stream, color, verbose=verbose, quiet=quiet)
        listeners.append(Printer(open_writer(name, stream, style), stream))
    if is_terminal(sys.stderr) and not quiet:
        return [Progress(listeners, sys.stderr)]
    return listeners


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


def _opened(file: str, stack: ExitStack) -> TextIO:
    try:
        return stack.enter_context(open(file, "w", encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error
