"""The JSON Schema of a spec, for editors; from the same statement that the reader checks with."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.specfile.model import spec_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one spec document. Imports all of pydantic (100 ms)."""
    from pydantic.json_schema import GenerateJsonSchema

    generated = GenerateJsonSchema().generate(spec_schema())
    return {"$schema": DIALECT, **generated}
