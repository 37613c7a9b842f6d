"""Writes the reference pages: keys of specs and reports, commands, and the Python API."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from ruamel.yaml import YAML

import gradcheck_cli
from gradcheck_cli.cli.app import app
from gradcheck_cli.explain.blame.causes import CAUSES
from gradcheck_cli.report.schema import report_schema
from gradcheck_cli.specfile.model import schema as spec_schema

SPECS = Path(__file__).parents[1] / "specs"
WIDTH = 100  # columns of the help of commands
DROP_INS = {
    "gradcheck_cli.torch": ("gradcheck", "gradgradcheck"),
    "gradcheck_cli.jax": ("check_grads",),
    "gradcheck_cli.tensorflow": ("compute_gradient",),
}
Schema = Mapping[str, Any]


def spec_page() -> str:
    """Every key of a spec, with an example for each key of the first level."""
    lines = [
        "# Keys of a spec",
        "",
        "A spec is a YAML mapping with `model`, `implementations` or both. A file may have",
        "several, between lines of `---`. `gradcheck schema` prints the JSON Schema, by which",
        "editors complete and check keys.",
        "",
    ]
    examples = _examples()
    for title, keys in _sections(spec_schema(), ""):
        lines += _table(title or "Top level", keys)
        if not title:
            lines += [
                "Examples of " + ", ".join(f"[`{key}`](#example-{key})" for key in examples),
                "",
            ]
    lines += ["## Examples", ""]
    for key, path in examples.items():
        text = path.read_text("utf-8").strip()
        lines += [f"### Example: {key}", "", f"`specs/{path.relative_to(SPECS).as_posix()}`", ""]
        lines += ["```yaml", text, "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def report_page() -> str:
    """Every key of the JSON report."""
    lines = [
        "# Keys of the JSON report",
        "",
        "`gradcheck run --format json` prints one object with these keys. `gradcheck schema",
        "report` prints their JSON Schema. Keys may be added; `schema_version` changes when one",
        "changes its meaning.",
        "",
    ]
    for title, keys in _sections(report_schema(), ""):
        lines += _table(title or "Top level", keys)
    return "\n".join(lines).rstrip() + "\n"


def causes_page() -> str:
    """Every class of cause."""
    lines = ["# Causes", "", "The classes that the line `cause` of a report begins with.", ""]
    lines += ["| cause | what happened |", "|---|---|"]
    lines += [f"| {name} | {_cell(text)} |" for name, text in CAUSES.items()]
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """The help of every command."""
    context = _context(app, "gradcheck", None)
    lines = ["# Commands", "", *_block(app.get_help(context)), ""]
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        shown = command.get_help(_context(command, name, context))
        lines += [f"## gradcheck {name}", "", *_block(shown), ""]
    return "\n".join(lines).rstrip() + "\n"


def python_page() -> str:
    """The signature and docstring of everything that Python may import."""
    lines = ["# Python", "", "## gradcheck_cli", ""]
    for name in sorted(gradcheck_cli.__all__, key=str.lower):
        lines += _entry(name, getattr(gradcheck_cli, name))
    for module, names in DROP_INS.items():
        lines += [f"## {module}", "", "See [migration](../guides/migration.md).", ""]
        for name in names:
            lines += _entry(name, getattr(importlib.import_module(module), name))
    return "\n".join(lines).rstrip() + "\n"


def _sections(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Objects with keys, outermost first: the path and schema of each."""
    if "properties" in schema:
        yield path, schema
        for key, value in schema["properties"].items():
            yield from _sections(value, f"{path}.{key}".lstrip("."))
    for value in _values_by_name(schema):
        yield from _sections(value, f"{path}.NAME".lstrip("."))
    if isinstance(schema.get("items"), Mapping):
        yield from _sections(schema["items"], f"{path}[]")
    choices = [choice for one in ("anyOf", "oneOf") for choice in schema.get(one, ())]
    objects = [choice for choice in choices if "properties" in choice]
    for choice in choices:
        title = f" ({choice['title']})" if len(objects) > 1 and "title" in choice else ""
        yield from _sections(choice, f"{path}{title}")


def _values_by_name(schema: Schema) -> list[Schema]:
    """The schemas of values whose names the user chooses."""
    found = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
    return [value for value in found if isinstance(value, Mapping)]


def _table(title: str, schema: Schema) -> list[str]:
    heading = f"## {title}" if title == "Top level" else f"### `{title}`"
    lines = [heading, "", *filter(None, [schema.get("description", "")]), ""]
    lines += ["| key | value | meaning |", "|---|---|---|"]
    for key, value in schema["properties"].items():
        needed = " (required)" if key in schema.get("required", ()) else ""
        meaning = _cell(value.get("description", ""))
        lines.append(f"| `{key}`{needed} | {_cell(_value(value))} | {meaning} |")
    return [*lines, ""]


def _value(schema: Schema) -> str:
    """The allowed values, in words."""
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema and "properties" not in schema:
            return " or ".join(dict.fromkeys(_value(choice) for choice in schema[key]))
    kinds = schema.get("type", "anything")
    names = [_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return " or ".join(names)


def _kind(kind: str, schema: Schema) -> str:
    if kind == "array":
        items = schema.get("items")
        return f"list of {_value(items)}" if items else "list"
    if kind in ("number", "integer"):
        return " ".join([kind, ", ".join(_bounds(schema))]).strip()
    return {"object": "mapping", "string": "text", "boolean": "true or false"}.get(kind, kind)


def _bounds(schema: Schema) -> Iterator[str]:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    for key, sign in signs.items():
        if key in schema:
            yield f"{sign} {schema[key]}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _examples() -> dict[str, Path]:
    """For each key of a spec, the shortest spec with the key, from the first folder that has
    one."""
    found: dict[str, Path] = {}
    reader = YAML(typ="safe")
    for folder in ("examples", "layers", "planted"):
        texts = {path: path.read_text("utf-8") for path in (SPECS / folder).rglob("*.yaml")}
        for path in sorted(texts, key=lambda path: (len(texts[path]), path.as_posix())):
            for document in reader.load_all(texts[path]):
                for key in document if isinstance(document, Mapping) else ():
                    found.setdefault(key, path)
    return {key: found[key] for key in spec_schema()["properties"] if key in found}


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    return click.Context(
        command,
        parent=parent,
        info_name=name,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=app.context_settings["help_option_names"],
    )


def _block(text: str) -> list[str]:
    return ["```text", *text.rstrip().splitlines(), "```"]


def _entry(name: str, item: Callable[..., Any] | type) -> list[str]:
    lines = [f"### {name}", ""]
    if not inspect.isclass(item):  # users read reports and errors, but do not construct them
        lines += ["```python", *_signature(name, item), "```", ""]
    for paragraph in (inspect.getdoc(item) or "").split("\n\n"):
        listed = re.search(r"^ |\w   ", paragraph, re.M)  # columns, which only a block keeps
        lines += [*(_block(paragraph) if listed else paragraph.splitlines()), ""]
    return lines


def _signature(name: str, item: Callable[..., Any] | type) -> list[str]:
    """The signature, with one parameter on each line if it is long. It has defaults, but no types,
    which the docstring gives in words."""
    parameters = inspect.signature(item).parameters.values()
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    shown = str(inspect.Signature(plain)).replace("'", '"')
    if len(shown) + len(name) <= WIDTH:
        return [f"{name}{shown}"]
    parts = re.split(r", (?![^()]*\))", shown[1:-1])
    return [f"{name}(", *(f"    {part}," for part in parts), ")"]
