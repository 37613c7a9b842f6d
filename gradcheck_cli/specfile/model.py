"""The schema of a spec: its keys, the values of each, and their descriptions.

It is written as pydantic-core schemas, which pydantic generates from model classes, to save the 100
ms of that step. `validator` validates with them, and `schema` turns the same definitions into JSON
Schema, so that the two cannot diverge.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic_core import PydanticCustomError, SchemaValidator
from pydantic_core import core_schema as core

from gradcheck_cli.domain.placement import DEVICE, MATMULS, is_device
from gradcheck_cli.specfile.input_model import (
    COMPLEX_TYPES,
    DOTTED,
    FLOAT_TYPES,
    VALUE_JSON,
    anything,
    by_name,
    input_schema,
    key,
    list_of,
    positive,
    table,
    text,
    words,
)

MODES = ("reverse", "forward")

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _device(name: str) -> str:
    if not is_device(name):
        raise PydanticCustomError("device", "a device is cpu, cuda (a GPU), or cuda:1 (the second)")
    return name


def _per_dtype(description: str) -> Any:
    number = core.float_schema(ge=0, allow_inf_nan=False, strict=True)
    mapping = core.dict_schema(words(*FLOAT_TYPES), number, min_length=1, strict=True)
    either = core.tagged_union_schema(
        {"number": number, "per dtype": mapping},
        discriminator=lambda value: "per dtype" if isinstance(value, dict) else "number",
    )
    return key(either, f"{description} One number, or one for each dtype.", required=True)


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
            "ulps": table(ulps, "ulps", "Accepts an error of this many units in the last place."),
            "relative": table(relative, "rtol and atol", "Accepts |g - T| <= atol + rtol * |T|."),
        },
        discriminator=tolerance_form,
    )


def _allow() -> Any:
    fields = {
        "code": key(text(), "The finding's code, for example GC301.", required=True),
        "reason": key(text(min_length=1), "Why it is accepted.", required=True),
        "engine": key(text(), "Only with this engine."),
        "dtype": key(words(*FLOAT_TYPES, *COMPLEX_TYPES), "Only in this dtype."),
        "input": key(text(), "Only for the gradient of this input."),
    }
    return list_of(table(fields, "accepted finding", "A known and accepted finding."))


def design_form(value: Any) -> str:
    """The subject of a declaration."""
    return "detach" if isinstance(value, dict) and "detach" in value else "function"


def _by_design() -> Any:
    common = {
        "reason": key(text(min_length=1), "Why it is intended.", required=True),
        "engine": key(text(), "Only with this engine."),
    }
    function = {
        "function": key(
            text(min_length=1),
            "The name of a function with a custom gradient. That gradient is accepted as its "
            "derivative.",
            required=True,
        ),
        "surrogate": key(
            text(min_length=1),
            "A formula of the arguments of the function. The custom gradient must be the "
            "derivative of this formula.",
        ),
        **common,
    }
    detach = {
        "detach": key(
            text(min_length=1),
            "Where values leave the graph; they are treated as constants: path.py:LINE, "
            "path.py:NAME (a function or class), package.module:NAME.",
            required=True,
        ),
        **common,
    }
    either = core.tagged_union_schema(
        {
            "function": table(function, "function", "A function whose backward is intended."),
            "detach": table(detach, "detach", "Values that leave the graph on purpose."),
        },
        discriminator=design_form,
    )
    return list_of(either)


def search_form(value: Any) -> str:
    """Whether to search, or for how long."""
    return "switch" if isinstance(value, bool) else "seconds"


def _train() -> Any:
    rate = key(positive(), "The rate: parameter - lr * gradient.", required=True)
    sgd = table({"lr": rate}, "sgd", "Plain gradient descent.")
    optimizer = table(
        {"sgd": key(sgd, "Plain gradient descent.", required=True)}, "optimizer", "The update."
    )
    steps = core.int_schema(ge=1, le=1_000_000, strict=True)
    fields = {
        "optimizer": key(optimizer, "{sgd: {lr: 0.01}}", required=True),
        "steps": key(steps, "The number of updates.", required=True),
        "parameters": key(
            list_of(text(), min_length=1), "The inputs that are updated.", required=True
        ),
    }
    return table(fields, "train", "Every engine follows the same path; the ends must agree.")


def _setup() -> Any:
    values = core.dict_schema(text(min_length=1), text(), min_length=1, strict=True)
    fields = {
        "environment": key(
            values,
            "Environment variables that are set while the layer is imported and while it runs.",
        ),
        "imports": key(
            list_of(text(min_length=1), min_length=1),
            "Imported in this order before the layer: path.py or package.module; with :NAME, that "
            "function is called once, without arguments.",
        ),
    }
    return table(fields, "setup", "What a package needs before it can be imported.")


def implementation_form(value: Any) -> str:
    """A target alone, or a mapping with its arguments."""
    return "table" if isinstance(value, dict) else "target"


def _surrogate() -> Any:
    fields = {
        "backward": key(
            text(min_length=1),
            "`straight_through`, or a formula whose derivative the backward must equal.",
            required=True,
        ),
        "reason": key(text(min_length=1), "Why it is not the derivative.", required=True),
        "input": key(text(), "Only for this input. Default: every input."),
    }
    return key(
        table(fields, "surrogate", "The intended backward, which replaces the derivative."),
        "Declares that the backward differs from the derivative on purpose.",
    )


def _implementation() -> Any:
    target = text(min_length=1)
    whatever = core.any_schema()
    fields = {
        "target": key(
            target, "path.py:name, package.module:name, or layer.hpp:name", required=True
        ),
        "args": key(list_of(whatever), "Arguments of the constructor, or of every call."),
        "kwargs": key(
            core.dict_schema(text(min_length=1), whatever, strict=True),
            "The same, by name. Names that only the call accepts, and not the constructor, are "
            "passed to every call.",
        ),
        "surrogate": _surrogate(),
    }
    mapping = table(fields, "implementation", "A layer in this framework.")
    return core.tagged_union_schema(
        {"target": target, "table": mapping}, discriminator=implementation_form
    )


@cache
def spec_schema() -> Any:
    """The whole spec as a pydantic-core schema."""
    inputs = by_name(input_schema(), 1, DOTTED)
    point = by_name(input_schema(), 1, DOTTED)
    numbers = by_name(anything(VALUE_JSON), 0)
    fields = {
        "name": key(
            text(min_length=1, max_length=200),
            "The name of this spec in reports. Default: the file name without its extension.",
        ),
        "description": key(text(), "One sentence for readers."),
        "inputs": key(
            inputs,
            "The inputs by name, each a number, a nested list, {value: ...}, or a recipe: "
            "{shape: [3, 2], distribution: normal, seed: 0}. With `implementations`, the name "
            "of a layer's parameter (`dense.kernel`) sets its value.",
            required=True,
        ),
        "points": key(
            list_of(point, min_length=1),
            "The spec is checked at each of these points. A point gives new values to some inputs.",
        ),
        "constants": key(
            numbers,
            "Named numbers and arrays in the formula, known before the run: a number, or a "
            "nested list, as for an input that is not differentiated. With `implementations`, "
            "only numbers.",
        ),
        "model": key(
            text(),
            "The formula: assignments; the last statement is the output. With "
            "`implementations`, the formula that they must equal; their parameters are "
            "available by name (dots become underscores).",
        ),
        "implementations": key(
            core.dict_schema(text(min_length=1), _implementation(), min_length=1, strict=True),
            "Layers, by engine: `torch: layers.py:MyLayer`.",
        ),
        "setup": key(_setup(), "What must happen before Python imports the layers."),
        "power": key(
            core.float_schema(gt=0, lt=1, strict=True),
            "The probability of finding an error in any single entry of a large layer.",
        ),
        "wrt": key(
            list_of(text(), min_length=1),
            "The inputs whose gradients are checked. Default: every floating-point input.",
        ),
        "dtypes": key(
            list_of(words(*FLOAT_TYPES, *COMPLEX_TYPES), min_length=1),
            "Default: [float32, float64]. complex64 and complex128 make every floating-point "
            "input of a layer complex, unless it has its own `dtype`; its parts are float32 and "
            "float64.",
        ),
        "engines": key(list_of(text(), min_length=1), "Default: every installed engine."),
        "modes": key(list_of(words(*MODES), min_length=1), "Default: all modes of the engine."),
        "order": key(
            core.int_schema(ge=1, le=3, strict=True),
            "2 also checks second derivatives, 3 third derivatives. Default: 1.",
        ),
        "tolerance": key(
            _tolerance(),
            "The accepted error. The default follows from the rounding errors of the arithmetic.",
        ),
        "allow": key(_allow(), "Known and accepted findings."),
        "by_design": key(
            _by_design(), "Intended deviations inside a layer; everything else is still checked."
        ),
        "train": key(_train(), "A training path that every engine follows."),
        "timeout": key(positive(), "Time limit in seconds, for one engine and this spec."),
        "search": key(
            core.tagged_union_schema(
                {"switch": core.bool_schema(strict=True), "seconds": positive()},
                discriminator=search_form,
            ),
            "Whether the domain of the inputs is searched after the points, and for how many "
            "seconds. `true`: 10. See `gradcheck search`.",
        ),
        "memory": key(positive(), "Memory limit in gigabytes, for one engine and this spec."),
        "device": key(
            core.no_info_after_validator_function(_device, text()),
            "The device of PyTorch, TensorFlow and JAX: `cpu`, `cuda`, or `cuda:1` for the "
            "second GPU. Default: cpu.",
            pattern=DEVICE,
        ),
        "matmul_precision": key(
            words(*MATMULS),
            "How a GPU multiplies float32 matrices: `full`, or `tf32` with a 10-bit mantissa. "
            "Default: full.",
        ),
    }
    either = [{"required": ["model"]}, {"required": ["implementations"]}]
    description = "A formula or layers, their inputs, and what to check."
    return table(fields, "gradcheck spec", description, anyOf=either)


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
    "search",
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
        "Defaults for every spec in the file that does not override them. They are the only key "
        "of the first document; `allow` and `by_design` are added to those of each spec."
    )
    inner = table(shared, "defaults", description)
    return table(
        {"defaults": key(inner, description, required=True)}, "defaults of a file", description
    )


@cache
def defaults_validator() -> SchemaValidator:
    """Validates a document of defaults (raises pydantic_core.ValidationError)."""
    return SchemaValidator(defaults_schema())


@cache
def validator() -> SchemaValidator:
    """Validates the plain Python objects of a document (raises pydantic_core.ValidationError)."""
    return SchemaValidator(spec_schema())


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one document: a spec, or the defaults of a file. Imports all
    of pydantic (100 ms)."""
    from pydantic.json_schema import GenerateJsonSchema

    spec = GenerateJsonSchema().generate(spec_schema())
    defaults = GenerateJsonSchema().generate(defaults_schema())
    needed = spec.pop("required")
    either = [{"required": [*needed, *one["required"]]} for one in spec.pop("anyOf")]
    spec["properties"].update(defaults["properties"])
    return {"$schema": _DIALECT, **spec, "anyOf": [*either, {"required": defaults["required"]}]}
