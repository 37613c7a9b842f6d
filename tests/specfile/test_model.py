from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.specfile import expand, schema
from gradcheck_cli.specfile.model import spec_schema
from gradcheck_cli.specfile.text import load
from gradcheck_cli.specfile.yaml_tree import documents
from gradcheck_cli.specfile.yaml_values import as_python

ROOT = Path(__file__).parents[2]
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "number": (int, float),
    "integer": int,
}
WORDS = {"title", "description", "$schema", "default"}  # keywords that decide nothing


def fits(value: Any, rule: dict[str, Any]) -> bool:
    """Whether a value is what a schema says; a keyword that this does not know fails the test."""
    verdicts = {
        "type": lambda t: (
            isinstance(value, TYPES[t]) and (t in ("boolean",) or not isinstance(value, bool))
        ),
        "enum": lambda choices: value in choices,
        "const": lambda choice: value == choice,
        "anyOf": lambda rules: any(fits(value, one) for one in rules),
        "oneOf": lambda rules: sum(fits(value, one) for one in rules) == 1,
        "minimum": lambda least: value >= least,
        "maximum": lambda most: value <= most,
        "exclusiveMinimum": lambda least: value > least,
        "minLength": lambda least: len(value) >= least,
        "pattern": lambda pattern: re.search(pattern, value) is not None,
        "maxLength": lambda most: len(value) <= most,
        "minItems": lambda least: len(value) >= least,
        "maxItems": lambda most: len(value) <= most,
        "minProperties": lambda least: len(value) >= least,
        "required": lambda keys: value.keys() >= set(keys),
        "items": lambda one: all(fits(item, one) for item in value),
        "properties": lambda rules: all(fits(value[k], r) for k, r in rules.items() if k in value),
        "patternProperties": lambda rules: all(
            fits(v, r) for k, v in value.items() for p, r in rules.items() if re.search(p, k)
        ),
        "propertyNames": lambda one: all(fits(key, one) for key in value),
    }
    if "type" in rule and not verdicts["type"](rule["type"]):
        return False
    for keyword, content in rule.items():
        if keyword in WORDS:
            continue
        if keyword == "additionalProperties":
            known = rule.get("properties", {}).keys()
            patterns = rule.get("patternProperties", {})
            others = [
                k for k in value if k not in known and not any(re.search(p, k) for p in patterns)
            ]
            good = not others if content is False else all(fits(value[k], content) for k in others)
        else:
            good = verdicts[keyword](content)
        if not good:
            return False
    return True


def test_the_shipped_schema_is_the_one_of_the_reader() -> None:
    shipped = ROOT / "docs" / "schema" / "spec.schema.json"
    assert json.loads(shipped.read_text(encoding="utf-8")) == schema(), (
        "write it anew: gradcheck schema > docs/schema/spec.schema.json"
    )


def test_every_shipped_spec_fits_the_schema() -> None:
    files, *_ = expand([str(ROOT / "specs" / "examples")])
    rule = schema()
    for file in files:
        source = load(file)
        assert hasattr(source, "text")
        for document in documents(source.text):
            assert document.root is not None
            assert fits(as_python(document.root), rule), file


@pytest.mark.parametrize(
    ("spec", "good"),
    [
        ({"inputs": {"x": 1}, "model": "x"}, True),
        ({"inputs": {"x": [[1, 2]]}, "model": "x", "tolerance": {"ulps": {"float32": 2}}}, True),
        ({"inputs": {"x": {"value": "inf"}}, "model": "x"}, True),
        ({"inputs": {"x": {"shape": [2], "distribution": "normal"}}, "model": "x"}, True),
        ({"inputs": {"x": {"shape": [2], "distribution": "gauss"}}, "model": "x"}, False),
        ({"inputs": {"x": {"shape": [2]}}, "model": "x"}, True),
        ({"inputs": {"x": {"shape": [2], "low": 0, "high": 1}}, "model": "x"}, False),
        ({"inputs": {"x": 1}, "constants": {"w": [1, 2]}, "model": "sum(w * x)"}, True),
        ({"inputs": {"2x": 1}, "model": "x"}, False),
        ({"inputs": {"x": 1}}, False),
        ({"model": "x"}, False),
        ({"defaults": {"dtypes": ["float64"]}}, True),
        ({"defaults": {"inputs": {"x": 1}}}, False),
        ({"inputs": {"x": 1}, "model": "x", "order": 3}, True),
        ({"inputs": {"x": 1}, "model": "x", "order": 4}, False),
        ({"inputs": {"x": 1}, "model": "x", "device": "cpu"}, True),
        ({"inputs": {"x": 1}, "model": "x", "device": "cuda:1"}, True),
        ({"inputs": {"x": 1}, "model": "x", "device": "gpu"}, False),
        ({"inputs": {"x": 1}, "model": "x", "matmul_precision": "tf32"}, True),
        ({"inputs": {"x": 1}, "model": "x", "matmul_precision": "half"}, False),
        ({"inputs": {"x": 1}, "model": "x", "allow": [{"code": "GC301"}]}, False),
    ],
)
def test_the_schema_tells_right_from_wrong(spec: dict[str, Any], good: bool) -> None:
    assert fits(spec, schema()) is good


def tables(rule: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every mapping with named keys in a schema."""
    if isinstance(rule, dict):
        if "properties" in rule:
            yield path, rule
        for key, content in rule.items():
            yield from tables(content, f"{path}/{key}")
    elif isinstance(rule, list):
        for index, content in enumerate(rule):
            yield from tables(content, f"{path}/{index}")


def test_every_key_says_what_it_is_for() -> None:
    found = list(tables(schema()))
    assert len(found) > 10
    for path, table in found:
        assert table["additionalProperties"] is False, path
        assert table["description"], path
        for key, rule in table["properties"].items():
            assert rule.get("description"), f"{path}: {key}"


def test_no_key_of_the_reader_is_missing() -> None:
    assert list(schema()["properties"]) == [*spec_schema()["fields"], "defaults"]
