"""The settings of `run`: one table for flags, GRADCHECK_* variables and [tool.gradcheck] keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gradcheck_cli.cli.streams import COLOR_CHOICES
from gradcheck_cli.cli.words import did_you_mean
from gradcheck_cli.domain.difference import Difference
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.placement import DEVICES, is_device
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.report import FORMATS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

DTYPES = ("float16", "bfloat16", "float32", "float64")
MODES = ("reverse", "forward")


class Listed(click.ParamType[tuple[str, ...]]):
    """Names separated by commas; an option of this type may be given several times, too."""

    name = "name,..."
    envvar_list_splitter = ","

    def __init__(self, choices: tuple[str, ...] = (), metavar: str = "NAME,...") -> None:
        self.choices = choices
        self.metavar = metavar

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.metavar

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(part.strip() for part in str(value).split(",") if part.strip())
        for name in names:
            if self.choices and name not in self.choices:
                hint = did_you_mean(name, self.choices)
                known = ", ".join(self.choices)
                self.fail(f"{name!r} is not one of {known}.{hint}", param, ctx)
        return names


class Choice(click.Choice[str]):
    """One of a few names; a wrong one is answered with the nearest."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        known = super().get_invalid_choice_message(value, ctx)
        return known + did_you_mean(str(value), self.choices)


class Target(Listed):
    """FORMAT=FILE; the shell completes the formats."""

    def __init__(self) -> None:
        super().__init__(metavar="FORMAT=FILE")

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(f"{name}=") for name in FORMATS if name.startswith(incomplete)]


class Device(click.ParamType[str]):
    """What a spec may state under `device`."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_device(str(value)):
            self.fail(f"{value!r} is not a device: {DEVICES}", param, ctx)
        return str(value)


class CodeList(Listed):
    """Finding codes, their beginnings (GC2) or their names (nan-gradient)."""

    def __init__(self) -> None:
        super().__init__(metavar="CODE,...")

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        from gradcheck_cli.domain.codes import CODES

        by_name = {row.name: code for code, row in CODES.items()}
        codes = []
        for word in super().convert(value, param, ctx):
            code = by_name.get(word.lower(), word.upper())
            if not any(known.startswith(code) for known in CODES):
                hint = did_you_mean(word, [*CODES, *by_name])
                self.fail(f"{word!r} begins no known finding code.{hint}", param, ctx)
            codes.append(code)
        return tuple(codes)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `name` is the flag without its dashes. `key` is what specs and pyproject.toml
    call it, where the flag's name is another: that is a key there, too."""

    name: str
    type: click.ParamType[Any]
    help: str
    short: str = ""
    several: bool = False
    switch: bool = False
    negatable: bool = False
    key: str = ""

    @property
    def variable(self) -> str:
        return "GRADCHECK_" + self.name.upper().replace("-", "_")

    @property
    def parameter(self) -> str:
        return self.name.replace("-", "_")


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "engine",
        Listed(),
        "Engines to check; default: all installed but those that `gradcheck engines` lists as "
        "only when named.",
        several=True,
        key="engines",
    ),
    Setting(
        "dtype",
        Listed(DTYPES),
        "Dtypes; default: float32 and float64.",
        several=True,
        key="dtypes",
    ),
    Setting(
        "mode",
        Listed(MODES),
        "reverse, forward; default: all that an engine has.",
        several=True,
        key="modes",
    ),
    Setting(
        "select", CodeList(), "Report these findings only (GC2 is all of GC2xx).", several=True
    ),
    Setting("ignore", CodeList(), "Leave these findings out.", several=True),
    Setting("format", Choice(tuple(FORMATS)), "Format of the results; default: full."),
    Setting("output", click.Path(), "Write results to this file, not to standard output."),
    Setting(
        "report",
        Target(),
        "Write a report to a file as well; may be repeated.",
        several=True,
    ),
    Setting("seed", click.IntRange(min=0), "Seed of random cotangents; default: 0."),
    Setting("jobs", click.IntRange(min=1), "Most engines that run in parallel.", short="j"),
    Setting(
        "fail-fast",
        click.BOOL,
        "Stop after the first spec that fails.",
        short="x",
        switch=True,
        negatable=True,
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
    Setting(
        "timeout",
        click.FloatRange(min=0, min_open=True),
        "Time limit in seconds, for one engine and one spec.",
    ),
    Setting(
        "memory",
        click.FloatRange(min=0, min_open=True),
        "Memory limit in gigabytes, for one engine and one spec.",
    ),
    Setting(
        "no-user-code",
        click.BOOL,
        "Refuse specs with `implementations`: they run the code that they point at.",
        switch=True,
    ),
    Setting(
        "difference-scheme",
        Choice(("forward", "central")),
        "Scheme of the engine finite-difference; default: central.",
    ),
    Setting(
        "difference-step",
        click.FloatRange(min=0, min_open=True),
        "Step h of that difference; default: usual for the dtype and input.",
    ),
    Setting(
        "power",
        click.FloatRange(min=0, max=1, min_open=True, max_open=True),
        "Probability of finding an error in a large gradient; default: 0.999.",
    ),
    Setting(
        "device",
        Device(),
        "Where PyTorch, TensorFlow and JAX compute: cpu, cuda, or cuda:1 for the second; default: "
        "cpu.",
    ),
    Setting("color", Choice(COLOR_CHOICES), "Colours; default: auto, on a terminal."),
    Setting("quiet", click.BOOL, "Show failures only.", short="q", switch=True),
    Setting("verbose", click.BOOL, "Show every value of every engine.", short="v", switch=True),
    Setting(
        "engine-output",
        click.BOOL,
        "Show what the frameworks print, on standard error.",
        switch=True,
    ),
)


def settings_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a command with an option for every setting."""
    for setting in reversed(SETTINGS):
        function = _option(setting)(function)
    return function


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
    return click.option(*names, envvar=setting.variable, help=setting.help, **extra)


_LOOSER = {"exit-zero": ("fail-on", "select"), "ignore": ("select",)}
"""Settings of a configuration that do not count where one of these is given: it asks for findings
which they would take back."""


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
        """A setting that no spec can state."""
        return self.layered(name).resolve(None, default)

    def verbosity(self) -> tuple[bool, bool]:
        """(quiet, verbose): the one that was typed beats the other one set elsewhere."""
        if {"quiet", "verbose"} <= self._typed:
            raise click.UsageError("--quiet and --verbose exclude each other.")
        quiet, verbose = bool(self.value("quiet")), bool(self.value("verbose"))
        if quiet and verbose:
            return "quiet" in self._typed, "verbose" in self._typed or "quiet" not in self._typed
        return quiet, verbose

    def run_options(self) -> RunOptions:
        return RunOptions(
            engines=self.layered("engine"),
            dtypes=self.layered("dtype"),
            modes=self.layered("mode"),
            timeout=self.layered("timeout"),
            memory=self.layered("memory"),
            power=self.layered("power"),
            device=self.layered("device"),
            difference=Difference(
                self.value("difference-scheme", "central"), self.value("difference-step")
            ),
            seed=self.value("seed", 0),
            jobs=self.value("jobs"),
            fail_fast=self.value("fail-fast", False),
            select=self.value("select", ()),
            ignore=self.value("ignore", ()),
            show_framework_output=self.value("engine-output", False),
        )
