"""The types of command options: lists of names, choices, numbers, devices, finding codes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from gradcheck_cli.cli.words import did_you_mean
from gradcheck_cli.domain.engines import SHIPPED
from gradcheck_cli.domain.placement import DEVICES, is_device
from gradcheck_cli.report import FORMATS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Listed(click.ParamType[tuple[str, ...]]):
    """Names separated by commas. An option of this type may also be given several times."""

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

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the last name of the list."""
        from click.shell_completion import CompletionItem

        before, comma, begun = incomplete.rpartition(",")
        names = (name for name in self.completions() if name.startswith(begun))
        return [CompletionItem(before + comma + name) for name in names]

    def completions(self) -> Iterable[str]:
        """The names that the shell completes."""
        return self.choices


class Engines(Listed):
    """Names of engines. Any name is accepted, because plug-ins have other names."""

    def completions(self) -> Iterable[str]:
        return SHIPPED


class Text(click.types.StringParamType):
    """Any text."""

    def __init__(self, metavar: str) -> None:
        self.metavar = metavar

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.metavar


class Integer(click.IntRange):
    """An integer in a range."""

    name = "integer"


class Number(click.FloatRange):
    """A number in a range."""

    name = "number"


class Choice(click.Choice[str]):
    """One of a few names. An error suggests the nearest name."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        known = super().get_invalid_choice_message(value, ctx)
        return known + did_you_mean(str(value), self.choices)


class Target(Listed):
    """FORMAT=FILE. The shell completes the formats."""

    def __init__(self) -> None:
        super().__init__(metavar="FORMAT=FILE")

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = {name: row for name, row in FORMATS.items() if name.startswith(incomplete)}
        return [CompletionItem(f"{name}=", help=purpose) for name, (_, purpose) in found.items()]


class Device(click.ParamType[str]):
    """A device, as under the key `device` of a spec."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_device(str(value)):
            self.fail(f"{value!r} is not a device: {DEVICES}", param, ctx)
        return str(value)


class CodeList(Listed):
    """Finding codes, their beginnings (GC2) or their names (nan-gradient)."""

    def __init__(self) -> None:
        super().__init__(metavar="CODE,...")

    def completions(self) -> Iterable[str]:
        from gradcheck_cli.domain.codes import CODES

        return CODES

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
                self.fail(f"no finding code begins with {word!r}.{hint}", param, ctx)
            codes.append(code)
        return tuple(codes)
