"""`gradcheck`: its commands, each imported when it is called."""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

import click

from gradcheck_cli.cli.exits import guarded
from gradcheck_cli.cli.streams import open_closed_streams, word_failures
from gradcheck_cli.cli.words import did_you_mean
from gradcheck_cli.domain.synonyms import nearest
from gradcheck_cli.version import VERSION

# name: (module, line in `gradcheck --help`). The function of a command is called `command`.
COMMANDS = {
    "run": ("run", "Check the gradients of specs."),
    "layer": ("layer", "Check the gradients of a layer without a spec."),
    "suite": ("suite", "Check the operations of a framework at sample inputs."),
    "search": (
        "search",
        "Find inputs in a domain where a gradient breaks, or prove that there are none.",
    ),
    "merge": ("merge", "Combine the shards of a run into one report."),
    "init": ("init", "Write a first spec, and a file for CI."),
    "validate": ("validate", "Read specs and their formulas without running them."),
    "derive": ("derive", "Differentiate a formula by computer algebra, step by step."),
    "graph": ("graph", "Show the computation graph of a formula, or of a layer."),
    "curve": ("curve", "Plot the error of finite differences against their step."),
    "lift": ("lift", "Write a layer as a formula, in a spec."),
    "reduce": ("reduce", "Shrink the formula or layer of a finding."),
    "explain": ("explain", "Show what a finding code means and what to do."),
    "ops": ("ops", "List the operations of the formula language."),
    "engines": ("engines", "List the engines, their capabilities and how to install them."),
    "config": ("config", "Show which settings differ from their defaults, and what sets them."),
    "cache": ("cache", "Show where results are cached, or clear them."),
    "schema": ("schema", "Print the JSON Schema of a spec or of the JSON report."),
    "self-test": ("self_test", "Run planted bugs and check that each is found."),
}

ELSEWHERE = {
    "check": "`gradcheck run` checks specs, `gradcheck layer` a layer.",
    "test": "`gradcheck run` checks specs; `gradcheck self-test` tests gradcheck.",
    "list": "`gradcheck ops`, `gradcheck engines` and `gradcheck explain` print lists.",
    "rule": "`gradcheck explain CODE` shows what a finding code means.",
    "version": "`gradcheck --version` shows it.",
    "help": "`gradcheck --help` and `gradcheck COMMAND --help` show it.",
}
"""Commands of other tools, and what to use here instead."""

EPILOG = """\b
First steps:
  gradcheck init && gradcheck run
  echo '{inputs: {x: 100}, model: 1 / exp(x)}' | gradcheck run -
  gradcheck explain GC201
Completion, in .bashrc, .zshrc or config.fish:
  eval "$(_GRADCHECK_COMPLETE=bash_source gradcheck)"
  eval "$(_GRADCHECK_COMPLETE=zsh_source gradcheck)"
  _GRADCHECK_COMPLETE=fish_source gradcheck | source
"""


class LazyGroup(click.Group):
    """Knows its commands by name and imports only the one that is requested."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"gradcheck_cli.cli.{COMMANDS[cmd_name][0]}")
        return module.command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        unknown = args and not args[0].startswith("-") and args[0] not in COMMANDS
        if unknown and not ctx.resilient_parsing:  # not during completion
            choices = [*COMMANDS, *ELSEWHERE]
            lead = ELSEWHERE.get(nearest(args[0], choices) or "")
            hint = f" {lead}" if lead else did_you_mean(args[0], choices)
            raise click.UsageError(f"there is no command `{args[0]}`.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@click.version_option(VERSION, "-V", "--version", message="gradcheck %(version)s")
def app() -> None:
    """Verify gradients, entry by entry: right, wrong, unstable or undefined, and why."""


def main() -> NoReturn:
    """Run the command line and exit."""
    open_closed_streams()
    word_failures()
    sys.exit(guarded(app, sys.argv[1:]))
