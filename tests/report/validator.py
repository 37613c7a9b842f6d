"""Checks JSON against a schema."""

from __future__ import annotations

from typing import Any

import jsonschema


def mistakes(value: Any, schema: dict[str, Any]) -> list[str]:
    """The places at which `value` does not fit `schema`, which is checked itself."""
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    return [f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(value)]
