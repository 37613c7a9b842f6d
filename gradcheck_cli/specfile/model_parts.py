"""The building blocks of the model of a spec: keys, mappings and lists, with descriptions."""

from __future__ import annotations

from typing import Any

from pydantic_core import core_schema as core


def key(schema: Any, description: str, *, required: bool = False, **more: Any) -> Any:
    """One key of a mapping, with its sentence for people."""
    updates = {"description": description, **more}
    return core.typed_dict_field(
        schema, required=required, metadata={"pydantic_js_updates": updates}
    )


def table(fields: dict[str, Any], title: str, description: str, **more: Any) -> Any:
    """A mapping with these keys and no others."""
    return core.typed_dict_schema(
        fields,
        extra_behavior="forbid",
        strict=True,
        metadata={"pydantic_js_updates": {"title": title, "description": description, **more}},
    )


def anything(json: dict[str, Any]) -> Any:
    """Anything here; looked at where the numbers are read. Editors get `json`."""
    return core.any_schema(metadata={"pydantic_js_updates": json})


def words(*choices: str) -> Any:
    return core.literal_schema(list(choices))


def list_of(schema: Any, min_length: int = 0, max_length: int | None = None) -> Any:
    return core.list_schema(schema, min_length=min_length, max_length=max_length, strict=True)


def positive() -> Any:
    return core.float_schema(gt=0, allow_inf_nan=False, strict=True)


def finite() -> Any:
    return core.float_schema(allow_inf_nan=False, strict=True)


NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
DOTTED = rf"{NAME}|^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+$"  # or a parameter inside of a layer


def by_name(schema: Any, min_length: int, pattern: str = NAME) -> Any:
    """A mapping from names of the formula."""
    name = core.str_schema(pattern=pattern)
    no_others = {"pydantic_js_updates": {"additionalProperties": False}}
    return core.dict_schema(name, schema, min_length=min_length, strict=True, metadata=no_others)


def text(min_length: int = 0, max_length: int | None = None) -> Any:
    return core.str_schema(min_length=min_length, max_length=max_length, strict=True)
