"""`gradcheck schema`."""

from __future__ import annotations

import json
import sys

import click


@click.command()
@click.argument("what", type=click.Choice(("spec", "report")), default="spec")
def command(what: str) -> None:
    """Print the JSON Schema of a spec file, or of the report that `--format json` writes."""
    if what == "report":
        from gradcheck_cli.report.schema import report_schema

        schema = report_schema()
    else:
        from gradcheck_cli import specfile

        schema = specfile.schema()
    json.dump(schema, sys.stdout, indent=2)
    sys.stdout.write("\n")
