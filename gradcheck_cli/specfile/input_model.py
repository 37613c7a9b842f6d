"""The forms of an input in a spec: a number, a list, a value with its kind, or a recipe."""

from __future__ import annotations

import cmath
import re
from typing import Any

from pydantic_core import PydanticCustomError
from pydantic_core import core_schema as core

FLOAT_TYPES = ("float16", "bfloat16", "float32", "float64")
COMPLEX_TYPES = ("complex64", "complex128")
INPUT_TYPES = (*FLOAT_TYPES, *COMPLEX_TYPES, "int64", "bool")
WITH_ENDS = ("uniform", "log_uniform", "integers")
DISTRIBUTIONS = ("normal", *WITH_ENDS)
KINDS = ("rotation", "orthogonal", "symmetric", "positive_definite", "simplex", "unit_vector")
INFINITE = {"inf": float("inf"), "+inf": float("inf"), "-inf": float("-inf")}
WORDS = {**INFINITE, "nan": float("nan")}
"""Text that stands for a number where a number is expected, as the JSON report writes it."""

_DIGITS = r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
_COMPLEX = rf"^[-+]?({_DIGITS}[-+])?{_DIGITS}j$"  # as Python writes it

MAX_AXES = 16
_EXACT = 2**53  # whole numbers up to here are float64 numbers

# What JSON Schema says about numbers is for editors; ragged lists are found where they are read.
NUMBER_JSON = {
    "anyOf": [
        {"type": "number"},
        {"type": "boolean"},
        {"enum": sorted(WORDS)},
        {"type": "string", "pattern": _COMPLEX},
    ]
}
_LIST_JSON = {
    "type": "array",
    "minItems": 1,
    "items": {"anyOf": [*NUMBER_JSON["anyOf"], {"type": "array", "minItems": 1}]},
}
VALUE_JSON = {"anyOf": [*NUMBER_JSON["anyOf"], _LIST_JSON]}
_BOUND_JSON = {"anyOf": [{"type": "number"}, {"enum": sorted(INFINITE)}]}


def number_in(text: str) -> float | complex | None:
    """The number that a text stands for where a number is expected: `nan`, `-inf`, `1+2j`."""
    if text in WORDS:
        return WORDS[text]
    number = complex(text) if re.match(_COMPLEX, text) else None
    return None if number is None or cmath.isinf(number) else number


def _bound(value: Any) -> float:
    if isinstance(value, str) and value in INFINITE:
        return INFINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise PydanticCustomError("bound", "a bound is a number, `.inf` or `-.inf`")
    return float(value)


def _rising(bounds: list[float]) -> list[float]:
    if not bounds[0] < bounds[1]:
        raise PydanticCustomError("order", "the low bound must be below the high bound")
    return bounds


def _range(recipe: dict[str, Any]) -> dict[str, Any]:
    if recipe["low"] > recipe["high"]:
        raise PydanticCustomError("order", "`low` must not be above `high`")
    return recipe


def _about() -> dict[str, Any]:
    """The keys that every input written as a mapping may have."""
    bound = core.no_info_after_validator_function(_bound, anything(_BOUND_JSON))
    domain = core.no_info_after_validator_function(
        _rising, list_of(bound, min_length=2, max_length=2)
    )
    return {
        "dtype": key(
            words(*INPUT_TYPES),
            "The dtype of the numbers. `int64` and `bool` are not differentiated. A "
            "floating-point dtype first rounds the value to that format; a complex one rounds "
            "both parts. Default: floating-point; bool for true and false; int64 for the "
            "distribution `integers`; complex if `dtypes` or a number is complex.",
        ),
        "requires_grad": key(
            core.bool_schema(strict=True),
            "false: this input is data, and its gradient is not checked. Default: true.",
        ),
        "domain": key(
            domain, "[low, high]: where the function is defined. Nothing is evaluated outside."
        ),
    }


def _recipe(distribution: str, parameters: dict[str, Any], description: str) -> Any:
    fields = {
        "shape": _shape(),
        "distribution": key(words(distribution), description, required=distribution != "normal"),
        **parameters,
        "seed": _seed(),
        **_about(),
    }
    recipe = table(fields, distribution, description)
    if "low" not in parameters:
        return recipe
    return core.no_info_after_validator_function(_range, recipe)


def _kind() -> Any:
    return key(
        words(*KINDS),
        "The kind of the value, which it keeps in every call of a layer. The gradient is "
        "compared along the directions that preserve the kind.",
    )


def _of_a_kind() -> Any:
    """A value of a kind that is drawn at random."""
    about = _about()
    fields = {
        "kind": {**_kind(), "required": True},
        "shape": _shape(),
        "seed": _seed(),
        "dtype": key(words(*FLOAT_TYPES), "First rounds the value to that format."),
        "requires_grad": about["requires_grad"],
    }
    return table(fields, "kind", "A random value of some kind.")


def _shape() -> Any:
    size = core.int_schema(ge=1, strict=True)
    return key(
        list_of(size, max_length=MAX_AXES),
        "The size of every axis; [] is one number.",
        required=True,
    )


def _seed() -> Any:
    return key(
        core.int_schema(ge=0, le=2**63 - 1, strict=True),
        "The same seed always gives the same numbers. They come from NumPy's `rng = "
        "default_rng([seed, *name.encode()])`, so every input has its own stream. Default: the "
        "seed of the run.",
    )


def _ends(schema: Any) -> dict[str, Any]:
    return {
        "low": key(schema, "The lower end.", required=True),
        "high": key(schema, "The upper end.", required=True),
    }


_ENDS = {"low", "high"}


def input_form(value: Any) -> str | None:
    """The form in which an input is written, or None."""
    if isinstance(value, dict):
        if "value" in value:
            return "value"
        if "kind" in value and "distribution" not in value:
            return "kind"
        alone = "shape" in value and not _ENDS & value.keys()
        distribution = value.get("distribution", "normal" if alone else None)
        return distribution if distribution in DISTRIBUTIONS else None
    if isinstance(value, list):
        return "list"
    if isinstance(value, str):
        return None if number_in(value) is None else "number"
    return "number" if isinstance(value, bool | int | float) else None


def input_schema() -> Any:
    value = key(
        anything(VALUE_JSON),
        "A number or a nested list of numbers; a complex one is `1+2j`.",
        required=True,
    )
    normal = {
        "mean": key(_finite(), "The mean. Default: 0."),
        "std": key(positive(), "The standard deviation. Default: 1."),
    }
    whole = core.int_schema(ge=-_EXACT, le=_EXACT, strict=True)
    return core.tagged_union_schema(
        {
            "number": anything(NUMBER_JSON),
            "list": anything(_LIST_JSON),
            "value": table(
                {"value": value, "kind": _kind(), **_about()},
                "value",
                "An input with explicit values.",
            ),
            "kind": _of_a_kind(),
            "normal": _recipe("normal", normal, "mean + std * rng.standard_normal(shape)"),
            "uniform": _recipe(
                "uniform", _ends(_finite()), "low + (high - low) * rng.random(shape)"
            ),
            "log_uniform": _recipe(
                "log_uniform", _ends(positive()), "low * (high / low) ** rng.random(shape)"
            ),
            "integers": _recipe(
                "integers",
                _ends(whole),
                "rng.integers(low, high, shape, endpoint=True): both ends included",
            ),
        },
        discriminator=input_form,
    )


def key(schema: Any, description: str, *, required: bool = False, **more: Any) -> Any:
    """One key of a mapping, with a description."""
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
    """Accepts any value, because the numbers are checked when they are read. Editors get `json`."""
    return core.any_schema(metadata={"pydantic_js_updates": json})


def words(*choices: str) -> Any:
    return core.literal_schema(list(choices))


def list_of(schema: Any, min_length: int = 0, max_length: int | None = None) -> Any:
    return core.list_schema(schema, min_length=min_length, max_length=max_length, strict=True)


def positive() -> Any:
    return core.float_schema(gt=0, allow_inf_nan=False, strict=True)


def _finite() -> Any:
    return core.float_schema(allow_inf_nan=False, strict=True)


NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
DOTTED = rf"{NAME}|^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+$"  # or a parameter inside of a layer


def by_name(schema: Any, min_length: int, pattern: str = NAME) -> Any:
    """A mapping whose keys are names of the formula."""
    name = core.str_schema(pattern=pattern)
    no_others = {"pydantic_js_updates": {"additionalProperties": False}}
    return core.dict_schema(name, schema, min_length=min_length, strict=True, metadata=no_others)


def text(min_length: int = 0, max_length: int | None = None) -> Any:
    return core.str_schema(min_length=min_length, max_length=max_length, strict=True)
