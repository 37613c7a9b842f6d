"""Right specs, drawn from the JSON Schema, so that a new key is tried at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcheck_cli import specfile

_FORMULAS = (
    "sum(x ** 2)",
    "exp(x)",
    "v = sin(x)\nsum(v * v)",
    "def f(a):\n    return tanh(a)\n\nf(f(x))",
    "total = 0.0\nfor i in range(3):\n    total = total + x * i\nsum(total)",
    "where(x > 0, x, exp(x) - 1)",
    "softmax(x)",
    "sum(clip(x, min=-1, max=k))",
)


def sampled(rng: np.random.Generator) -> dict[str, Any]:
    """A spec with a formula of `x`, and a random choice of the schema's other keys."""
    schema = specfile.schema()
    spec: dict[str, Any] = {
        "inputs": {"x": [[0.5], [0.5, -1.25], 2.0][int(rng.integers(3))]},
        "model": str(rng.choice(_FORMULAS)),
        "constants": {"k": 2.0},
    }
    for key, part in schema["properties"].items():
        if key not in ("inputs", "model", "implementations") and rng.random() < 0.15:
            spec[key] = instance(rng, part, schema)
    if rng.random() < 0.3:
        spec["inputs"]["y"] = instance(rng, _inputs_of(schema), schema)
    return spec


def _inputs_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    patterns = schema["properties"]["inputs"]["patternProperties"]
    return dict(next(iter(patterns.values())))


def instance(rng: np.random.Generator, part: Any, schema: Mapping[str, Any], depth: int = 0) -> Any:
    """A random value that a part of a JSON Schema allows."""
    if "$ref" in part:
        target: Any = schema
        for name in part["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        return instance(rng, target, schema, depth + 1)
    for choice in ("oneOf", "anyOf"):
        if choice in part and not ("properties" in part and choice == "anyOf"):
            options = part[choice]
            return instance(rng, options[int(rng.integers(len(options)))], schema, depth + 1)
    if "const" in part:
        return part["const"]
    if "enum" in part:
        return part["enum"][int(rng.integers(len(part["enum"])))]
    return _of_type(rng, part, schema, depth)


def _of_type(rng: np.random.Generator, part: Any, schema: Mapping[str, Any], depth: int) -> Any:
    kind = part.get("type")
    if kind == "object":
        made = {
            key: instance(rng, value, schema, depth + 1)
            for key, value in part.get("properties", {}).items()
            if key in part.get("required", ()) or rng.random() < 0.4
        }
        for pattern in [*part.get("patternProperties", {}).values()][:1]:
            made["x"] = instance(rng, pattern, schema, depth + 1)
        return made
    if kind == "array":
        least = part.get("minItems", 0)
        count = int(rng.integers(least, min(part.get("maxItems", least + 3), least + 3) + 1))
        if depth > 8:
            count = least
        items = part.get("items", {"type": "number"})
        return [instance(rng, items, schema, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        low = part.get("minimum", part.get("exclusiveMinimum", -3))
        high = part.get("maximum", part.get("exclusiveMaximum", low + 6))
        number = int(rng.integers(max(low, -9) + 1, min(high, max(low, -9) + 6) + 2))
        return number if kind == "integer" else number + 0.5
    if kind == "boolean":
        return bool(rng.random() < 0.5)
    return str(rng.choice(["x", "a name", "torch", "reverse", "float32", "GC301", "ein Grund"]))


def json_or_yaml(rng: np.random.Generator, spec: Mapping[str, Any]) -> str:
    """The spec as a file, with a key on each line and values as JSON, which is YAML."""
    if rng.random() < 0.2:
        return json.dumps(spec)
    lines = []
    for key, value in spec.items():
        if key == "model":
            lines += ["model: |", *(f"  {line}" for line in str(value).splitlines())]
        else:
            lines.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
