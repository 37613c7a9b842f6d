"""The shape of a spec: which keys there are, what each may hold, and what it is for.

Written as pydantic-core schemas, not as model classes: they are what pydantic makes of model
classes, without the 100 ms that making them takes. `validator` checks with them; `schema` turns the
same statement into JSON Schema, so that the two cannot drift.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic_core import PydanticCustomError, SchemaValidator
from pydantic_core import core_schema as core

from gradcheck_cli.domain.placement import DEVICE, MATMULS, is_device

FLOAT_TYPES = ("float16", "bfloat16", "float32", "float64")
INPUT_TYPES = (*FLOAT_TYPES, "int64", "bool")
DISTRIBUTIONS = ("normal", "uniform", "log_uniform", "integers")
KINDS = ("rotation", "orthogonal", "symmetric", "positive_definite", "simplex", "unit_vector")
MODES = ("reverse", "forward")
INFINITE = {"inf": float("inf"), "+inf": float("inf"), "-inf": float("-inf")}
WORDS = {**INFINITE, "nan": float("nan")}
"""Text that stands for a number where a number is expected, as the JSON report writes it."""

MAX_AXES = 16
_EXACT = 2**53  # whole numbers up to here are float64 numbers

# What JSON Schema says about numbers is for editors; ragged lists are found where they are read.
_NUMBER_JSON = {"anyOf": [{"type": "number"}, {"type": "boolean"}, {"enum": sorted(WORDS)}]}
_LIST_JSON = {
    "type": "array",
    "minItems": 1,
    "items": {"anyOf": [*_NUMBER_JSON["anyOf"], {"type": "array", "minItems": 1}]},
}
_VALUE_JSON = {"anyOf": [*_NUMBER_JSON["anyOf"], _LIST_JSON]}
_BOUND_JSON = {"anyOf": [{"type": "number"}, {"enum": sorted(INFINITE)}]}


def _key(schema: Any, description: str, *, required: bool = False, **more: Any) -> Any:
    """One key of a mapping, with its sentence for people."""
    updates = {"description": description, **more}
    return core.typed_dict_field(
        schema, required=required, metadata={"pydantic_js_updates": updates}
    )


def _table(fields: dict[str, Any], title: str, description: str, **more: Any) -> Any:
    """A mapping with these keys and no others."""
    return core.typed_dict_schema(
        fields,
        extra_behavior="forbid",
        strict=True,
        metadata={"pydantic_js_updates": {"title": title, "description": description, **more}},
    )


def _any(json: dict[str, Any]) -> Any:
    """Anything here; looked at where the numbers are read. Editors get `json`."""
    return core.any_schema(metadata={"pydantic_js_updates": json})


def _words(*choices: str) -> Any:
    return core.literal_schema(list(choices))


def _list(schema: Any, min_length: int = 0, max_length: int | None = None) -> Any:
    return core.list_schema(schema, min_length=min_length, max_length=max_length, strict=True)


def _positive() -> Any:
    return core.float_schema(gt=0, allow_inf_nan=False, strict=True)


def _finite() -> Any:
    return core.float_schema(allow_inf_nan=False, strict=True)


_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
_DOTTED = rf"{_NAME}|^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+$"  # or a parameter inside of a layer


def _by_name(schema: Any, min_length: int, pattern: str = _NAME) -> Any:
    """A mapping from names of the formula."""
    name = core.str_schema(pattern=pattern)
    no_others = {"pydantic_js_updates": {"additionalProperties": False}}
    return core.dict_schema(name, schema, min_length=min_length, strict=True, metadata=no_others)


def _text(min_length: int = 0, max_length: int | None = None) -> Any:
    return core.str_schema(min_length=min_length, max_length=max_length, strict=True)


# Inputs


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
    bound = core.no_info_after_validator_function(_bound, _any(_BOUND_JSON))
    domain = core.no_info_after_validator_function(
        _rising, _list(bound, min_length=2, max_length=2)
    )
    return {
        "dtype": _key(
            _words(*INPUT_TYPES),
            "What the numbers are: `int64` and `bool` are not differentiated; a floating dtype "
            "rounds the value to that format first. Default: floating, but bool for true and "
            "false, and int64 for the distribution `integers`.",
        ),
        "requires_grad": _key(
            core.bool_schema(strict=True),
            "false: this input is data, and its gradient is not checked. Default: true.",
        ),
        "domain": _key(
            domain, "[low, high]: where the function is defined. Nothing is evaluated outside."
        ),
    }


def _recipe(distribution: str, parameters: dict[str, Any], description: str) -> Any:
    fields = {
        "shape": _shape(),
        "distribution": _key(_words(distribution), description, required=True),
        **parameters,
        "seed": _seed(),
        **_about(),
    }
    table = _table(fields, distribution, description)
    if "low" not in parameters:
        return table
    return core.no_info_after_validator_function(_range, table)


def _kind() -> Any:
    return _key(
        _words(*KINDS),
        "What the value is, and stays wherever a layer is called: its gradient is compared along "
        "the directions that keep it so.",
    )


def _of_a_kind() -> Any:
    """A value that is drawn of its kind."""
    about = _about()
    fields = {
        "kind": {**_kind(), "required": True},
        "shape": _shape(),
        "seed": _seed(),
        "dtype": _key(_words(*FLOAT_TYPES), "Rounds the value to that format first."),
        "requires_grad": about["requires_grad"],
    }
    return _table(fields, "kind", "A random value of a kind.")


def _shape() -> Any:
    size = core.int_schema(ge=1, strict=True)
    return _key(
        _list(size, max_length=MAX_AXES),
        "The size of every axis; [] is one number.",
        required=True,
    )


def _seed() -> Any:
    return _key(
        core.int_schema(ge=0, le=2**63 - 1, strict=True),
        "The same seed gives the same numbers for ever. They come from NumPy's "
        "`rng = default_rng([seed, *name.encode()])`, so every input has its own stream. "
        "Default: the seed of the run.",
    )


def _ends(schema: Any) -> dict[str, Any]:
    return {
        "low": _key(schema, "The lower end.", required=True),
        "high": _key(schema, "The upper end.", required=True),
    }


def input_form(value: Any) -> str | None:
    """Which of its forms an input is written in; None where it is none of them."""
    if isinstance(value, dict):
        if "value" in value:
            return "value"
        if "kind" in value and "distribution" not in value:
            return "kind"
        distribution = value.get("distribution")
        return distribution if distribution in DISTRIBUTIONS else None
    if isinstance(value, list):
        return "list"
    number = isinstance(value, bool | int | float) or (isinstance(value, str) and value in WORDS)
    return "number" if number else None


def _input() -> Any:
    value = _key(_any(_VALUE_JSON), "A number or a nested list of numbers.", required=True)
    normal = {
        "mean": _key(_finite(), "The mean. Default: 0."),
        "std": _key(_positive(), "The standard deviation. Default: 1."),
    }
    whole = core.int_schema(ge=-_EXACT, le=_EXACT, strict=True)
    return core.tagged_union_schema(
        {
            "number": _any(_NUMBER_JSON),
            "list": _any(_LIST_JSON),
            "value": _table(
                {"value": value, "kind": _kind(), **_about()},
                "value",
                "An input that is written out.",
            ),
            "kind": _of_a_kind(),
            "normal": _recipe("normal", normal, "mean + std * rng.standard_normal(shape)"),
            "uniform": _recipe(
                "uniform", _ends(_finite()), "low + (high - low) * rng.random(shape)"
            ),
            "log_uniform": _recipe(
                "log_uniform", _ends(_positive()), "low * (high / low) ** rng.random(shape)"
            ),
            "integers": _recipe(
                "integers",
                _ends(whole),
                "rng.integers(low, high, shape, endpoint=True): both ends included",
            ),
        },
        discriminator=input_form,
    )


# Everything else


def _device(text: str) -> str:
    if not is_device(text):
        raise PydanticCustomError("device", "a device is cpu, cuda (a GPU), or cuda:1 (the second)")
    return text


def _per_dtype(description: str) -> Any:
    number = core.float_schema(ge=0, allow_inf_nan=False, strict=True)
    mapping = core.dict_schema(_words(*FLOAT_TYPES), number, min_length=1, strict=True)
    either = core.tagged_union_schema(
        {"number": number, "per dtype": mapping},
        discriminator=lambda value: "per dtype" if isinstance(value, dict) else "number",
    )
    return _key(either, f"{description} One number, or one for each dtype.", required=True)


def tolerance_form(value: Any) -> str:
    """`ulps`, or `relative` for rtol with atol."""
    return "ulps" if isinstance(value, dict) and "ulps" in value else "relative"


def _tolerance() -> Any:
    ulps = {"ulps": _per_dtype("Units in the last place.")}
    relative = {
        "rtol": _per_dtype("The relative part."),
        "atol": _per_dtype("The absolute part."),
    }
    return core.tagged_union_schema(
        {
            "ulps": _table(ulps, "ulps", "Accepts an error of so many units in the last place."),
            "relative": _table(relative, "rtol and atol", "Accepts |g - T| <= atol + rtol * |T|."),
        },
        discriminator=tolerance_form,
    )


def _allow() -> Any:
    fields = {
        "code": _key(_text(), "The finding's code, for example GC301.", required=True),
        "reason": _key(_text(min_length=1), "Why it is accepted.", required=True),
        "engine": _key(_text(), "Only with this engine."),
        "dtype": _key(_words(*FLOAT_TYPES), "Only in this dtype."),
        "input": _key(_text(), "Only for the gradient of this input."),
    }
    return _list(_table(fields, "accepted finding", "A known and accepted finding."))


def design_form(value: Any) -> str:
    """What a declaration is about."""
    return "detach" if isinstance(value, dict) and "detach" in value else "function"


def _by_design() -> Any:
    common = {
        "reason": _key(_text(min_length=1), "Why it is meant.", required=True),
        "engine": _key(_text(), "Only with this engine."),
    }
    function = {
        "function": _key(
            _text(min_length=1),
            "The name of a function with a custom gradient, which is taken for its derivative.",
            required=True,
        ),
        "surrogate": _key(
            _text(min_length=1),
            "The formula whose derivative it has to be, over the arguments of the function.",
        ),
        **common,
    }
    detach = {
        "detach": _key(
            _text(min_length=1),
            "Where numbers leave the graph, which are constants then: path.py:LINE, path.py:NAME "
            "(a function or class), package.module:NAME.",
            required=True,
        ),
        **common,
    }
    either = core.tagged_union_schema(
        {
            "function": _table(function, "function", "A function whose backward is meant."),
            "detach": _table(detach, "detach", "Numbers that are meant to leave the graph."),
        },
        discriminator=design_form,
    )
    return _list(either)


def _train() -> Any:
    rate = _key(_positive(), "The rate: parameter - lr * gradient.", required=True)
    sgd = _table({"lr": rate}, "sgd", "Plain gradient descent.")
    optimizer = _table(
        {"sgd": _key(sgd, "Plain gradient descent.", required=True)}, "optimizer", "The update."
    )
    steps = core.int_schema(ge=1, le=1_000_000, strict=True)
    fields = {
        "optimizer": _key(optimizer, "{sgd: {lr: 0.01}}", required=True),
        "steps": _key(steps, "How many updates.", required=True),
        "parameters": _key(
            _list(_text(), min_length=1), "The inputs that are updated.", required=True
        ),
    }
    return _table(fields, "train", "Every engine follows the same path; the ends must agree.")


def _setup() -> Any:
    values = core.dict_schema(_text(min_length=1), _text(), min_length=1, strict=True)
    fields = {
        "environment": _key(values, "Variables, set while the layer is imported and runs."),
        "imports": _key(
            _list(_text(min_length=1), min_length=1),
            "Imported in this order before the layer: path.py or package.module; with :NAME, that "
            "function is called once, without arguments.",
        ),
    }
    return _table(fields, "setup", "What a package needs before it can be imported.")


def implementation_form(value: Any) -> str:
    """A target alone, or a mapping with its arguments."""
    return "table" if isinstance(value, dict) else "target"


def _surrogate() -> Any:
    fields = {
        "backward": _key(
            _text(min_length=1),
            "`straight_through`, or a formula whose derivative the backward is to be.",
            required=True,
        ),
        "reason": _key(_text(min_length=1), "Why it is not the derivative.", required=True),
        "input": _key(_text(), "Only for this input. Default: every input."),
    }
    return _key(
        _table(fields, "surrogate", "What the backward is, instead of the derivative."),
        "A backward that is declared to be something else than the derivative.",
    )


def _implementation() -> Any:
    target = _text(min_length=1)
    anything = core.any_schema()
    fields = {
        "target": _key(
            target, "path.py:name, package.module:name, or layer.hpp:name", required=True
        ),
        "args": _key(_list(anything), "Arguments of the constructor, or of every call."),
        "kwargs": _key(
            core.dict_schema(_text(min_length=1), anything, strict=True),
            "The same, by name. What a constructor lacks and the call has is for every call.",
        ),
        "surrogate": _surrogate(),
    }
    table = _table(fields, "implementation", "A layer that somebody wrote in this framework.")
    return core.tagged_union_schema(
        {"target": target, "table": table}, discriminator=implementation_form
    )


@cache
def spec_schema() -> Any:
    """The whole spec as a pydantic-core schema."""
    inputs = _by_name(_input(), 1, _DOTTED)
    point = _by_name(_input(), 1, _DOTTED)
    numbers = _by_name(_any(_NUMBER_JSON), 0)
    fields = {
        "name": _key(
            _text(min_length=1, max_length=200),
            "What reports call this spec. Default: the file's name without its ending.",
        ),
        "description": _key(_text(), "One sentence for people."),
        "inputs": _key(
            inputs,
            "The inputs by name, each a number, a nested list, {value: ...}, or a recipe: "
            "{shape: [3, 2], distribution: normal, seed: 0}. Beside `implementations`, a parameter "
            "of a layer by its name (`dense.kernel`) gets this value.",
            required=True,
        ),
        "points": _key(
            _list(point, min_length=1),
            "The spec is checked at each of these points. A point gives new values to some inputs.",
        ),
        "constants": _key(numbers, "Named numbers of the formula, known before the run."),
        "model": _key(
            _text(),
            "The formula: assignments; the last statement is the output. Beside `implementations`, "
            "what they should equal, with their parameters by name (dots become underscores).",
        ),
        "implementations": _key(
            core.dict_schema(_text(min_length=1), _implementation(), min_length=1, strict=True),
            "Layers that somebody wrote, by engine: `torch: layers.py:MyLayer`.",
        ),
        "setup": _key(_setup(), "What stands before the layers, in Python."),
        "power": _key(
            core.float_schema(gt=0, lt=1, strict=True),
            "The probability with which an error of any single entry is found in a large layer.",
        ),
        "wrt": _key(
            _list(_text(), min_length=1),
            "The inputs whose gradients are checked. Default: every floating input.",
        ),
        "dtypes": _key(_list(_words(*FLOAT_TYPES), min_length=1), "Default: [float32, float64]."),
        "engines": _key(_list(_text(), min_length=1), "Default: every engine that is installed."),
        "modes": _key(_list(_words(*MODES), min_length=1), "Default: what the engine has."),
        "order": _key(
            core.int_schema(ge=1, le=2, strict=True), "2 checks second derivatives too. Default: 1."
        ),
        "tolerance": _key(
            _tolerance(), "What is accepted. The default follows from the arithmetic itself."
        ),
        "allow": _key(_allow(), "Known and accepted findings."),
        "by_design": _key(
            _by_design(), "What is meant inside a layer; everything else of it is still checked."
        ),
        "train": _key(_train(), "A training path that every engine follows."),
        "timeout": _key(_positive(), "How many seconds one engine may take for this spec."),
        "memory": _key(_positive(), "How many gigabytes one engine may take for this spec."),
        "device": _key(
            core.no_info_after_validator_function(_device, _text()),
            "Where PyTorch, TensorFlow and JAX compute: `cpu`, `cuda`, or `cuda:1` for the second. "
            "Default: cpu.",
            pattern=DEVICE,
        ),
        "matmul_precision": _key(
            _words(*MATMULS),
            "How a GPU multiplies float32 matrices: `full`, or `tf32` with ten bits behind the "
            "point. Default: full.",
        ),
    }
    either = [{"required": ["model"]}, {"required": ["implementations"]}]
    description = "A formula or layers that somebody wrote, their inputs, and what is checked."
    return _table(fields, "gradcheck spec", description, anyOf=either)


SHARED = (
    "dtypes",
    "engines",
    "modes",
    "order",
    "tolerance",
    "allow",
    "by_design",
    "setup",
    "power",
    "timeout",
    "memory",
    "device",
    "matmul_precision",
)
"""Keys of a spec that may also stand among the defaults of a file."""


@cache
def defaults_schema() -> Any:
    """A document of defaults as a pydantic-core schema."""
    fields = spec_schema()["fields"]
    shared = {**{key: fields[key] for key in SHARED}, "surrogate": _surrogate()}
    description = (
        "What holds for every spec of the file that does not say otherwise. It stands alone in "
        "the first document; `allow` and `by_design` are added to those of a spec."
    )
    table = _table(shared, "defaults", description)
    return _table(
        {"defaults": _key(table, description, required=True)}, "defaults of a file", description
    )


@cache
def defaults_validator() -> SchemaValidator:
    """Checks a document of defaults (raises pydantic_core.ValidationError)."""
    return SchemaValidator(defaults_schema())


@cache
def validator() -> SchemaValidator:
    """Checks a document's plain Python objects (raises pydantic_core.ValidationError)."""
    return SchemaValidator(spec_schema())
