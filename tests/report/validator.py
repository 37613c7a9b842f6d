"""As much of JSON Schema as the report's schema uses; an unknown keyword is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}
KNOWN = {
    "$schema",
    "title",
    "description",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "enum",
    "const",
    "minimum",
    "pattern",
}


def mistakes(value: Any, schema: dict[str, Any], path: str = "$") -> Iterator[str]:
    """Where `value` is not what `schema` says."""
    assert schema.keys() <= KNOWN, schema.keys() - KNOWN
    if "const" in schema and value != schema["const"]:
        yield f"{path}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is not one of {schema['enum']}"
    if "anyOf" in schema and all(list(mistakes(value, one, path)) for one in schema["anyOf"]):
        yield f"{path}: {value!r} fits none of the choices"
    if "type" in schema and not _has_type(value, schema["type"]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if "minimum" in schema and value is not None and value < schema["minimum"]:
        yield f"{path}: {value!r} is below {schema['minimum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"
    if isinstance(value, dict):
        yield from _object_mistakes(value, schema, path)
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from mistakes(item, schema["items"], f"{path}[{number}]")


def _has_type(value: Any, names: str | list[str]) -> bool:
    listed = [names] if isinstance(names, str) else names
    if isinstance(value, bool):
        return "boolean" in listed
    return any(isinstance(value, TYPES[name]) for name in listed)


def _object_mistakes(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for key in schema.get("required", []):
        if key not in value:
            yield f"{path}: {key} is missing"
    for key, part in value.items():
        if key in properties:
            yield from mistakes(part, properties[key], f"{path}.{key}")
        elif schema.get("additionalProperties", True) is False:
            yield f"{path}: {key} is not known"
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from mistakes(part, schema["additionalProperties"], f"{path}.{key}")
