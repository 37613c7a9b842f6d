"""The JSON Schema of a spec, for editors; from the same statement that the reader checks with."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.specfile.model import defaults_schema, spec_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one document: a spec, or the defaults of a file. Imports all
    of pydantic (100 ms)."""
    from pydantic.json_schema import GenerateJsonSchema

    spec = GenerateJsonSchema().generate(spec_schema())
    defaults = GenerateJsonSchema().generate(defaults_schema())
    needed = spec.pop("required")
    either = [{"required": [*needed, *one["required"]]} for one in spec.pop("anyOf")]
    spec["properties"].update(defaults["properties"])
    return {"$schema": DIALECT, **spec, "anyOf": [*either, {"required": defaults["required"]}]}
