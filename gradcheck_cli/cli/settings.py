"""The settings of `run`: one table for flags, GRADCHECK_* variables and [tool.gradcheck] keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from gradcheck_cli.cli.option_types import (
    Choice,
    CodeList,
    Device,
    Engines,
    Integer,
    Listed,
    Number,
    Target,
    Text,
)
from gradcheck_cli.cli.shard import ShardType
from gradcheck_cli.cli.streams import COLOR_CHOICES
from gradcheck_cli.domain.evaluation import Difference
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.report import FORMATS

DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
MODES = ("reverse", "forward")
PREFIX = "GRADCHECK_"
"""The start of the names of environment variables."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `name` is the flag without its dashes. `key` is the name in specs and in
    pyproject.toml, if that differs; both names also name a variable."""

    name: str
    type: click.ParamType[Any]
    help: str
    short: str = ""
    several: bool = False
    switch: bool = False
    negatable: bool = False
    key: str = ""

    @property
    def variables(self) -> list[str]:
        names = [name for name in (self.name, self.key) if name]
        return [PREFIX + name.upper().replace("-", "_") for name in names]

    @property
    def parameter(self) -> str:
        return self.name.replace("-", "_")


_GROUPS: dict[str, tuple[Setting, ...]] = {
    "What is checked": (
        Setting(
            "engine",
            Engines(),
            "Engines to run; default: all installed, except those that `gradcheck engines` marks "
            "`only when named`.",
            several=True,
            key="engines",
        ),
        Setting(
            "dtype",
            Listed(DTYPES),
            "Dtypes; default: float32 and float64. complex64 and complex128 are for layers with "
            "complex inputs.",
            several=True,
            key="dtypes",
        ),
        Setting(
            "mode",
            Listed(MODES),
            "reverse, forward; default: all that an engine supports.",
            several=True,
            key="modes",
        ),
        Setting(
            "device",
            Device(),
            "Device of PyTorch, TensorFlow and JAX: cpu, cuda, or cuda:1 for the second GPU; "
            "default: cpu.",
        ),
        Setting(
            "changed-since",
            Text(metavar="REV"),
            "Check only specs that changed, or whose code changed, since this git revision.",
        ),
        Setting(
            "shard",
            ShardType(),
            "Check only part K/N of the specs; `gradcheck merge` combines the reports.",
        ),
        Setting("seed", Integer(min=0), "Seed of random cotangents; default: 0."),
        Setting(
            "power",
            Number(min=0, max=1, min_open=True, max_open=True),
            "Probability of finding an error in a large gradient; default: 0.999.",
        ),
        Setting(
            "search",
            Number(min=0),
            "Seconds to search the domain of each spec after its points (0: no search); "
            "default: from the spec.",
        ),
        Setting(
            "difference-scheme",
            Choice(("forward", "central")),
            "Scheme of the engine finite-difference; default: central.",
        ),
        Setting(
            "difference-step",
            Number(min=0, min_open=True),
            "Step h of the engine finite-difference; default: the usual step for the dtype and "
            "input.",
        ),
    ),
    "What counts": (
        Setting(
            "select",
            CodeList(),
            "Report only these findings (GC2 selects all GC2xx).",
            several=True,
        ),
        Setting("ignore", CodeList(), "Ignore these findings.", several=True),
        Setting(
            "baseline",
            click.Path(),
            "Count only new findings: those in this file are known (see --write-baseline).",
        ),
        Setting(
            "write-baseline",
            click.Path(),
            "Write the findings of this run to a baseline file, and exit with 0 despite them.",
        ),
        Setting(
            "fail-on",
            Choice(("error", "warning")),
            "Exit with 1 for findings of this severity or worse; default: error.",
        ),
        Setting(
            "exit-zero",
            click.BOOL,
            "Exit with 0 even if there are findings.",
            switch=True,
            negatable=True,
        ),
    ),
    "How it runs": (
        Setting(
            "jobs",
            Integer(min=1),
            "Maximum number of workers per engine; default: as many as processors and memory "
            "allow, if starting them pays off.",
            short="j",
        ),
        Setting(
            "fail-fast",
            click.BOOL,
            "Stop after the first spec that fails.",
            short="x",
            switch=True,
            negatable=True,
        ),
        Setting(
            "cluster",
            Text(metavar="ADDRESS"),
            "Run on the nodes of this Dask scheduler, or with `local` on --jobs nodes on this "
            "machine.",
        ),
        Setting(
            "resume",
            click.Path(),
            "Write each finished spec to this file, and reuse results that are already in it.",
        ),
        Setting(
            "timeout",
            Number(min=0, min_open=True),
            "Time limit in seconds, for one engine and one spec.",
        ),
        Setting(
            "memory",
            Number(min=0, min_open=True),
            "Memory limit in gigabytes, for one engine and one spec.",
        ),
        Setting(
            "no-cache",
            click.BOOL,
            "Run everything, and cache no results (see `gradcheck cache`).",
            switch=True,
        ),
        Setting(
            "no-user-code",
            click.BOOL,
            "Refuse specs with `implementations`: they run the code that they point at.",
            switch=True,
        ),
    ),
    "What is shown": (
        Setting("format", Choice(tuple(FORMATS)), "Format of the results; default: full."),
        Setting("output", click.Path(), "Write results to this file instead of standard output."),
        Setting(
            "report",
            Target(),
            "Also write a report to a file; may be repeated.",
            several=True,
        ),
        Setting(
            "repro",
            click.Path(file_okay=False),
            "For each finding, write a script to this folder that reproduces it with the "
            "framework alone.",
        ),
        Setting("color", Choice(COLOR_CHOICES), "Colours; default: auto (on a terminal)."),
        Setting("quiet", click.BOOL, "Show only failures.", short="q", switch=True),
        Setting(
            "verbose",
            click.BOOL,
            "Show the values of every engine, and by which rules they passed.",
            short="v",
            switch=True,
        ),
        Setting(
            "engine-output",
            click.BOOL,
            "Show the output of the frameworks, on standard error.",
            switch=True,
        ),
    ),
}
"""The settings, by their headings in `--help`."""

SETTINGS: tuple[Setting, ...] = tuple(one for group in _GROUPS.values() for one in group)
OF_REPORTS = tuple(
    one
    for one in SETTINGS
    if one.name == "exit-zero"
    or (one in _GROUPS["What is shown"] and one.name not in ("engine-output", "repro"))
)
"""The settings of a command that writes reports and runs nothing."""

OF_SUITES = tuple(
    one
    for one in SETTINGS
    if one.name not in ("changed-since", "no-cache", "no-user-code", "repro")
    and not one.name.startswith("difference-")
)
"""The settings of a command that checks gradcheck's own layers: all except those about files or
formulas."""


class SettingsCommand(click.Command):
    """A command that has settings (`options_of`). Its help shows them in groups, below the
    command's own options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        headings = {one.parameter: name for name, group in _GROUPS.items() for one in group}
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], **{h: [] for h in _GROUPS}}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                sections[headings.get(option.name or "", "Options")].append(record)
        for heading, records in sections.items():
            if not records:
                continue
            with formatter.section(heading):
                formatter.write_dl(records)


def options_of(
    settings: Sequence[Setting] = SETTINGS,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a command with an option for each of these settings; default: all of them."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for setting in reversed(settings):
            function = _option(setting)(function)
        return function

    return decorate


def _option(setting: Setting) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    flag = f"--{setting.name}" + (f"/--no-{setting.name}" if setting.negatable else "")
    names = [setting.parameter, *([f"-{setting.short}"] if setting.short else []), flag]
    if setting.negatable and setting.short:
        names = [setting.parameter, f"-{setting.short}/ ", flag]
    extra: dict[str, Any] = (
        {"is_flag": True, "default": None}
        if setting.switch
        else {"type": setting.type, "multiple": setting.several}
    )
    return click.option(*names, envvar=setting.variables, help=setting.help, **extra)


_LOOSER = {"exit-zero": ("fail-on", "select"), "ignore": ("select",)}
"""Settings of a configuration that are ignored if one of these flags is given, because they would
hide the findings that the flag requests."""


class Settings:
    """Every setting of a call, from the command line, the environment and the configuration."""

    def __init__(self, context: click.Context, configuration: Mapping[str, Any]) -> None:
        self._given: dict[str, Any] = {}
        self._typed: set[str] = set()
        for setting in SETTINGS:
            source = context.get_parameter_source(setting.parameter)
            if source not in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT):
                continue
            value = context.params[setting.parameter]
            if setting.several:
                value = tuple(name for names in value for name in names)
            self._given[setting.name] = value
            if source is ParameterSource.COMMANDLINE:
                self._typed.add(setting.name)
        self._configured = {
            name: value
            for name, value in configuration.items()
            if self._given.keys().isdisjoint(_LOOSER.get(name, ()))
        }

    def layered(self, name: str) -> Layered[Any]:
        return Layered(override=self._given.get(name), fallback=self._configured.get(name))

    def value(self, name: str, default: Any = None) -> Any:
        """The value of a setting that is not a key of a spec."""
        return self.layered(name).resolve(None, default)

    def changed(self) -> Iterator[tuple[Setting, Any, str]]:
        """Each setting that was set, with its value and the flag or variable that sets it ("" for
        the configuration)."""
        for setting in SETTINGS:
            value = self.value(setting.name)
            if setting.name in self._typed:
                yield setting, value, f"--{setting.name}"
            elif setting.name in self._given:
                yield setting, value, next(filter(os.environ.get, setting.variables))
            elif value is not None:
                yield setting, value, ""

    def verbosity(self) -> tuple[bool, bool]:
        """(quiet, verbose). A flag that was typed overrides the other one set elsewhere."""
        if {"quiet", "verbose"} <= self._typed:
            raise click.UsageError("--quiet and --verbose exclude each other.")
        quiet, verbose = bool(self.value("quiet")), bool(self.value("verbose"))
        if quiet and verbose:
            return "quiet" in self._typed, "verbose" in self._typed or "quiet" not in self._typed
        return quiet, verbose

    def run_options(self) -> RunOptions:
        """The options of a run. Raises UsageError if the baseline cannot be read."""
        baseline = self.value("baseline", "")
        if baseline:
            from gradcheck_cli.cli.baseline import read_baseline
        return RunOptions(
            engines=self.layered("engine"),
            dtypes=self.layered("dtype"),
            modes=self.layered("mode"),
            timeout=self.layered("timeout"),
            memory=self.layered("memory"),
            power=self.layered("power"),
            search=self.layered("search"),
            device=self.layered("device"),
            difference=Difference(
                self.value("difference-scheme", "central"), self.value("difference-step")
            ),
            seed=self.value("seed", 0),
            jobs=self.value("jobs"),
            fail_fast=self.value("fail-fast", False),
            select=self.value("select", ()),
            ignore=self.value("ignore", ()),
            fail_on=self.value("fail-on", "error"),
            baseline=read_baseline(baseline) if baseline else {},
            baseline_file=baseline,
            cluster=self.value("cluster", ""),
            resume=self.value("resume", ""),
            show_framework_output=self.value("engine-output", False),
        )
