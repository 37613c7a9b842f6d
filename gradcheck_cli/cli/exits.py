"""Exit codes, all of them.

0  every check passed
1  at least one finding at or above `--fail-on`
2  usage, configuration or spec error, or a named engine is missing
3  internal error
4  a search left something undecided
5  nothing was checked
130  interrupted (SIGINT); 143 after SIGTERM, 129 after SIGHUP
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gradcheck_cli.cli.signals import INTERRUPTED, SIGNALLED, install, restore, stop
from gradcheck_cli.cli.streams import Unwritable, silence, talk
from gradcheck_cli.domain.codes import Families
from gradcheck_cli.domain.errors import (
    GradcheckError,
    Interrupted,
    Stopped,
    UsageError,
    interruption,
)
from gradcheck_cli.domain.folders import working_folder_is_gone
from gradcheck_cli.version import VERSION

if TYPE_CHECKING:
    from gradcheck_cli.domain.report import Report

PASSED = 0
FOUND = 1
USAGE = UsageError.exit_code
INTERNAL = GradcheckError.exit_code
UNDECIDED = 4
NOTHING_CHECKED = 5

ISSUE_HINT = "This is a bug in gradcheck. Please report it with the lines above and these:"


def verdict(report: Report, fail_on: str = "error", exit_zero: bool = False) -> int:
    """The exit code of a report. `exit_zero` forgives findings and nothing else."""
    if report.interrupted:
        return SIGNALLED + report.signal
    # A formula next to a layer may prove to be a mistake once the layer is known.
    findings = (finding for result in report.results for finding in result.findings)
    codes = {finding.code for finding in findings if finding.severity == "error"}
    if report.errors or any(code.startswith(Families.SPEC) for code in codes):
        return USAGE
    if any(result.fails_on(fail_on) for result in report.results):
        return PASSED if exit_zero else FOUND
    if not any(result.checks or result.trainings for result in report.results):
        return PASSED if report.unchanged or report.elsewhere else NOTHING_CHECKED
    return PASSED


def guarded(app: click.Command, arguments: list[str]) -> int:
    """Run the command line, and turn whatever happens into an exit code and, after an error or a
    signal, a short message on standard error."""
    before = install(stop)
    try:
        return _exit_code_of(app, arguments)
    except KeyboardInterrupt as error:  # a second signal, during the message about the first
        return _code_of(error)
    finally:
        restore(before)


def _exit_code_of(app: click.Command, arguments: list[str]) -> int:
    try:
        result = app.main(list(arguments), "gradcheck", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else PASSED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"try `{context.command_path} --help`" if context else ""
        _print_error(error.format_message(), hint)
        return USAGE
    except (KeyboardInterrupt, click.Abort) as error:  # click aborts on KeyboardInterrupt
        return _interrupted(interruption(error))
    except Unwritable as error:
        silence(sys.stdout)
        _print_error(str(error))
        return error.exit_code
    except GradcheckError as error:
        _print_error(str(error), getattr(error, "help", ""))
        if mistakes := getattr(error, "mistakes", ()):  # of a configuration
            from gradcheck_cli.cli.one_file import show_mistakes

            show_mistakes(mistakes)
        return error.exit_code
    except BrokenPipeError:
        return _unread()
    except SystemExit as end:  # of click: a broken pipe, or the end of a completion
        return _unread() if isinstance(end.__context__, BrokenPipeError) else _status(end)
    except Exception as error:
        if (stopped := interruption(error)) is not None:
            return _interrupted(stopped)
        if isinstance(error, FileNotFoundError) and working_folder_is_gone():
            _print_error("the working folder was deleted", "change to another folder")
            return USAGE
        _internal(error, arguments)
        return INTERNAL


def _interrupted(stopped: KeyboardInterrupt | None) -> int:
    talk(INTERRUPTED, "bold red")
    return _code_of(stopped)


def _code_of(stopped: KeyboardInterrupt | None) -> int:
    return SIGNALLED + stopped.signal if isinstance(stopped, Stopped) else Interrupted.exit_code


def _unread() -> int:
    """The reader (`head`, a pager) has gone: there is nobody to print to."""
    silence(sys.stdout)
    return PASSED


def _status(end: SystemExit) -> int:
    return end.code if isinstance(end.code, int) else PASSED


def _print_error(message: str, help: str = "") -> None:
    talk(f"error: {message}", "bold red")
    if help:
        talk(f"help: {help}")


def _internal(error: Exception, arguments: list[str]) -> None:
    import platform
    import shlex
    import traceback

    if {"-v", "--verbose"} & set(arguments):
        talk("".join(traceback.format_exception(error)).rstrip())
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        _print_error(
            f"{type(error).__name__}: {error} ({last.name}, {last.filename}:{last.lineno})"
        )
    loaded = ("click", "numpy", "pydantic", "rich", "scipy")
    versions = ", ".join(f"{name} {_version(name)}" for name in loaded)
    lines = (
        ISSUE_HINT,
        f"  gradcheck {VERSION}, Python {platform.python_version()}, {platform.platform()}",
        f"  {versions}",
        f"  gradcheck {shlex.join(arguments)}",
    )
    talk("\n".join(lines))


def _version(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "is missing"
