"""[tool.gradcheck] of the nearest pyproject.toml."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gradcheck_cli.cli.settings import SETTINGS, Setting
from gradcheck_cli.cli.words import did_you_mean
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.folders import working_folder_is_gone
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.report import SpecError

_BY_KEY = {key: setting for setting in SETTINGS for key in (setting.key, setting.name) if key}


class ConfigurationError(UsageError):
    """The configuration has mistakes. `mistakes` has all of them, each with its place."""

    def __init__(self, mistakes: list[SpecError]) -> None:
        super().__init__(f"invalid configuration in {mistakes[0].path}")
        self.mistakes = tuple(mistakes)


_FILES = ("output", "report", "write-baseline")
_GATE = ("baseline", "exit-zero", "fail-on", "ignore", "select")
"""Settings that decide which findings count. A run that must not run user code ignores them, and
also _FILES, in a configuration that came with that code."""


def load_configuration(folder: Path | None = None, *, trusted: bool = True) -> dict[str, Any]:
    """The settings of the nearest pyproject.toml at or above `folder` (None: the working folder);
    empty if there is none.

    If the file is not `trusted`, the settings of _FILES and _GATE are left out. Raises
    ConfigurationError for invalid TOML, an unknown key, a value of the wrong type, or an output
    file outside the configuration's own folder.
    """
    path = configuration_file(folder)
    if path is None:
        return {}
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            [SpecError("", shown_path(path), f"cannot be read: {error}")]
        ) from error
    if "gradcheck" not in text:
        return {}
    source = Source(shown_path(path), text)
    values = _parsed(source)
    if not trusted:
        return {key: value for key, value in values.items() if key not in (*_FILES, *_GATE)}
    mistakes = [_mistake(source, key, _outside_words(path, key)) for key in _outward(path, values)]
    if mistakes:
        raise ConfigurationError(mistakes)
    return values


def _outward(path: Path, values: Mapping[str, Any]) -> list[str]:
    """The keys that name a file outside the configuration's folder."""
    targets = {name: [values[name]] for name in ("output", "write-baseline") if name in values}
    targets["report"] = [text.partition("=")[2] for text in values.get("report", ())]
    inside = path.parent.resolve()
    return [
        key
        for key, files in targets.items()
        if any(f and f != "-" and not Path(f).resolve().is_relative_to(inside) for f in files)
    ]


def _outside_words(path: Path, key: str) -> str:
    return (
        f"`{key}` names a file outside {path.parent.resolve()}, the folder of this "
        f"configuration: only --{key} and GRADCHECK_{key.upper()} may do so"
    )


def configuration_file(folder: Path | None = None) -> Path | None:
    """The nearest pyproject.toml at or above `folder` (None: the working folder)."""
    return next((place for place in _candidates(folder) if place.is_file()), None)


def _candidates(folder: Path | None) -> list[Path]:
    if folder is None and working_folder_is_gone():  # its parents are unknown too
        return []
    folder = folder or Path.cwd()
    return [place / "pyproject.toml" for place in (folder, *folder.parents)]


def shown_path(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _parsed(source: Source) -> dict[str, Any]:
    import tomllib  # only projects with a configuration need it

    try:
        tool = tomllib.loads(source.text).get("tool", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError([_toml_mistake(source, str(error))]) from error
    except RecursionError as error:
        mistake = SpecError("", source.path, "its lists or tables are nested too deeply to be read")
        raise ConfigurationError([mistake]) from error
    table = tool.get("gradcheck", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise ConfigurationError([SpecError("", source.path, "tool.gradcheck must be a table")])
    values: dict[str, Any] = {}
    mistakes: list[SpecError] = []
    for key, value in table.items():
        try:
            if key not in _BY_KEY:
                raise click.BadParameter(
                    f"there is no setting `{key}`.{did_you_mean(key, _BY_KEY)}"
                )
            setting = _BY_KEY[key]
            if setting.name in values:
                raise click.BadParameter(f"`{setting.key}` is set twice, once as `{key}`")
            values[setting.name] = _converted(setting, key, value)
        except click.BadParameter as error:
            mistakes.append(_mistake(source, key, error.message))
    if mistakes:
        raise ConfigurationError(mistakes)
    return values


def _converted(setting: Setting, key: str, value: Any) -> Any:
    """The value under `key`, converted for the setting. Raises click.BadParameter."""
    if setting.several:
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, str) for part in parts):
            raise click.BadParameter(f"`{key}` must be a string or a list of strings")
        converted = (setting.type.convert(part, None, None) for part in parts)
        return tuple(name for names in converted for name in names)
    if type(value) not in _toml_types(setting):
        wanted = _expected_type(setting)
        raise click.BadParameter(f"`{key}` must be {wanted}, not {_type_words(value)}")
    return setting.type.convert(value, None, None)


def _toml_types(setting: Setting) -> tuple[type, ...]:
    if setting.switch:
        return (bool,)
    if isinstance(setting.type, click.FloatRange):
        return (int, float)
    return (int,) if isinstance(setting.type, click.IntRange) else (str,)


def _expected_type(setting: Setting) -> str:
    if setting.switch:
        return "true or false"
    if isinstance(setting.type, click.FloatRange):
        return "a number"
    if isinstance(setting.type, click.IntRange):
        return "an integer"
    if isinstance(setting.type, click.Choice):
        return "one of " + ", ".join(f'"{choice}"' for choice in setting.type.choices)
    return "a string"


def _type_words(value: Any) -> str:
    return {bool: "true or false", list: "a list", dict: "a table"}.get(type(value), repr(value))


def _mistake(source: Source, key: str, message: str) -> SpecError:
    return SpecError(
        "", source.path, message, _key_span(source, key), source, f"tool.gradcheck.{key}"
    )


def _key_span(source: Source, key: str) -> Span | None:
    """The position of `key` below the header [tool.gradcheck], which tomllib does not report."""
    inside = False
    for number, line in enumerate(source.text.splitlines(), 1):
        if line.lstrip().startswith("["):
            inside = re.match(r"\s*\[\s*tool\s*\.\s*gradcheck\s*\]", line) is not None
        match = re.match(rf"""\s*(["']?{re.escape(key)}["']?)\s*[=.]""", line)
        if inside and match:
            return Span(number, match.start(1) + 1, number, match.end(1) + 1)
    return None


def _toml_mistake(source: Source, message: str) -> SpecError:
    match = re.search(r"\(at line (\d+), column (\d+)\)", message)
    if not match:
        return SpecError("", source.path, message)
    line, column = int(match[1]), int(match[2])
    text = message[: match.start()].rstrip()
    return SpecError("", source.path, text, Span(line, column, line, column + 1), source)
