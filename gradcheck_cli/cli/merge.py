"""`gradcheck merge`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from gradcheck_cli.cli.configuration import load_configuration
from gradcheck_cli.cli.exits import verdict
from gradcheck_cli.cli.run import end, printers_of
from gradcheck_cli.cli.settings import OF_REPORTS, Settings, SettingsCommand, options_of
from gradcheck_cli.cli.streams import prepare_streams
from gradcheck_cli.domain.events import Finished, SpecFinished


@click.command(cls=SettingsCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@options_of(OF_REPORTS)
@click.pass_context
def command(context: click.Context, /, files: tuple[str, ...], **_: Any) -> int:
    """Combine the JSON reports of all shards of a run into one report, in any format.

    `gradcheck run --shard K/N --format json --output FILE` writes the report of one shard. The exit
    code is that of the whole run.
    """
    from gradcheck_cli.report import merging

    prepare_streams()
    settings = Settings(context, load_configuration())
    report = merging.merged([merging.read_shard(file) for file in files])
    with ExitStack() as stack:
        printers = printers_of(settings, stack)[1]
        for printer in printers:
            for result in report.results:
                printer.hear(SpecFinished(result))
            printer.hear(Finished(report))
        end(printers)
    return verdict(report, report.fail_on, settings.value("exit-zero", False))
