"""Messages for schema violations, which say how to correct them."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

from pydantic_core import ErrorDetails, ValidationError

from gradcheck_cli.domain.synonyms import did_you_mean, nearest
from gradcheck_cli.specfile import input_model, model
from gradcheck_cli.specfile.collect import Collector, Path, listed, locate
from gradcheck_cli.specfile.yaml_values import Mapping, Scalar, Sequence, Tree

_WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "bool_type": "true or false",
}


def report(error: ValidationError, collector: Collector, schemas: Any) -> set[Path]:
    """Adds every violation of the schema to the collector (GC903), and returns the paths that
    cannot be used. `schemas` supplies the descriptions."""
    details = error.errors(include_url=False)
    places = [_walk(schemas, detail["loc"]) for detail in details]
    unknown = [
        (path[:-1], str(path[-1]))
        for detail, (path, _, _) in zip(details, places, strict=True)
        if detail["type"] == "extra_forbidden"
    ]
    bad: set[Path] = set()
    for detail, (path, schema, about) in zip(details, places, strict=True):
        bad.add(path)
        kind = detail["type"]
        if kind == "missing" and any(
            parent == path[:-1] and nearest(key, [str(path[-1])]) for parent, key in unknown
        ):
            continue  # the misspelt key says it already
        if kind == "missing":
            message = f"the key `{path[-1]}` is missing"
            collector.add(message, path, help=f"{path[-1]}: {about}")
        elif kind == "union_tag_not_found":
            _input(path, collector)
        elif kind == "extra_forbidden":
            _unknown_key(path, _fields(schema), collector)
        else:
            _report_value(detail, path, schema, about, collector)
    return bad


def _walk(schema: Any, location: tuple[str | int, ...]) -> tuple[Path, Any, str]:
    """Follows the location of an error through the schema.

    Returns the path in the document (a location also contains names of union branches), the schema
    of the last mapping or value on the way, and the description of that key.
    """
    path: list[str | int] = []
    about = ""
    for part in location:
        if part == "[key]":
            path.append(part)
            break
        schema = _inner(schema)
        kind = schema["type"]
        if kind == "tagged-union":
            schema = schema["choices"][part]
            continue
        path.append(part)
        if kind == "typed-dict" and part in schema["fields"]:
            field = schema["fields"][part]
            about = field["metadata"]["pydantic_js_updates"]["description"]
            schema = field["schema"]
        elif kind == "dict":
            schema = schema["values_schema"]
        elif kind == "list":
            schema = schema["items_schema"]
        # else an unknown key: the mapping stays, for its valid keys
    return tuple(path), _inner(schema), about


def _inner(schema: Any) -> Any:
    while schema["type"] == "function-after":
        schema = schema["schema"]
    return schema


def _fields(schema: Any) -> list[str]:
    return list(schema["fields"])


def _unknown_key(path: Path, valid: list[str], collector: Collector) -> None:
    help = f"valid keys: {listed(valid)}"
    guess = did_you_mean(path[-1], valid)
    collector.add(
        f"unknown key `{path[-1]}`", path, at_key=True, help=f"{guess} {help}" if guess else help
    )


def _input(path: Path, collector: Collector) -> None:
    """Reports an input that has none of the forms, in terms of the form that was probably meant."""
    _, tree = locate(collector.root, path)
    forms = "an input is a number, a nested list, {value: ...} or {shape: [3, 2]}"
    if not isinstance(tree, Mapping):
        collector.add(
            f"{value_words(tree)} is not the value of an input", path, help=text_help(tree, forms)
        )
        return
    known = _recipe_keys()
    strange = [key for key in tree.keys if key not in known]
    for key in strange:
        _unknown_key((*path, key), known, collector)
    if "distribution" in tree.keys:
        choice = tree.values["distribution"]
        collector.add(
            f"unknown distribution: {value_words(choice)}",
            (*path, "distribution"),
            help=_choice_help(choice, input_model.DISTRIBUTIONS),
        )
    elif not any(nearest(key, ["distribution", "value"]) for key in strange):
        missing, help = "the value is missing", forms
        if "shape" in tree.keys:
            missing = "`distribution` is missing"
            help = f"with `low` and `high` it is one of: {listed(input_model.WITH_ENDS)}"
        collector.add(missing, path, at_key=True, help=help)


def _recipe_keys() -> list[str]:
    """All keys of inputs that are written as mappings."""
    inputs = model.spec_schema()["fields"]["inputs"]["schema"]["values_schema"]
    keys: dict[str, None] = {}
    for form in ("value", "kind", *input_model.DISTRIBUTIONS):
        keys.update(dict.fromkeys(_fields(_inner(inputs["choices"][form]))))
    return list(keys)


def _report_value(
    detail: ErrorDetails, path: Path, schema: Any, about: str, collector: Collector
) -> None:
    """Reports a problem that only concerns the value, its limits and its key."""
    kind = detail["type"]
    context: dict[str, Any] = detail.get("ctx", {})
    if path[-1:] == ("[key]",):
        _bad_name(path[:-1], kind, collector)
        return
    _, tree = locate(collector.root, path)
    name = f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this"
    if kind in _WANTED:
        message = f"{name} must be {_WANTED[kind]}, not {value_words(tree)}"
        help = f"{path[-1]}: {about}" if kind == "dict_type" and about else ""
        collector.add(message, path, help=help or _type_help(kind, tree, schema))
    elif kind == "literal_error":
        choices = [str(choice) for choice in schema["expected"]]
        message = f"{value_words(tree)} is not valid here"
        collector.add(message, path, help=_choice_help(tree, choices))
    else:
        words = _LIMITS.get(kind)
        limit = f"{name} {words(context)}" if words else f"{name}: {detail['msg']}"
        message = str(detail["msg"]) if kind in ("bound", "order") else limit
        collector.add(message, path)


_LIMITS: dict[str, Callable[[dict[str, Any]], str]] = {
    "greater_than": lambda ctx: f"must be above {ctx['gt']:g}",
    "greater_than_equal": lambda ctx: f"must be at least {ctx['ge']:g}",
    "less_than": lambda ctx: f"must be below {ctx['lt']:g}",
    "less_than_equal": lambda ctx: f"must be at most {ctx['le']:g}",
    "finite_number": lambda ctx: "must be a finite number",
    "too_short": lambda ctx: _length(ctx["min_length"], "at least"),
    "too_long": lambda ctx: _length(ctx["max_length"], "at most"),
    "string_too_short": lambda ctx: "must not be empty",
    "string_too_long": lambda ctx: f"must not be longer than {ctx['max_length']} characters",
}


def _length(count: int, bound: str) -> str:
    return f"needs {bound} {count} {'entry' if count == 1 else 'entries'}"


def not_a_name(name: str | int) -> tuple[str, str]:
    """What is wrong with a name that a formula cannot have, and what to write instead."""
    help = "a name has letters, digits and underscores and does not begin with a digit"
    return f"`{name}` cannot be a name in a formula", help


def _bad_name(path: Path, kind: str, collector: Collector) -> None:
    if kind == "string_pattern_mismatch":
        message, help = not_a_name(path[-1])
    else:
        message = f"`{path[-1]}` is not a dtype"
        help = _choice_help(path[-1], input_model.FLOAT_TYPES)
    collector.add(message, path, at_key=True, help=help)


def _choice_help(value: Tree | str | int, choices: Any) -> str:
    word = value.text if isinstance(value, Scalar) else value if isinstance(value, str) else ""
    guess = did_you_mean(word, choices) if word else ""
    valid = f"valid: {listed(choices)}"
    return f"{guess} {valid}" if guess else valid


def _type_help(kind: str, tree: Tree, schema: Any) -> str:
    if kind in ("int_type", "float_type"):
        return text_help(tree, "")
    if kind == "list_type" and isinstance(tree, Scalar) and tree.value is not None:
        choices = [str(choice) for choice in _inner(schema["items_schema"]).get("expected", ())]
        word = tree.text if tree.text in choices else nearest(tree.text, choices)
        if choices and word is None:
            return f"write a list of {listed(choices)}"
        return f"write a list: [{word or tree.text}]"
    if kind == "string_type" and isinstance(tree, Scalar) and tree.value is not None:
        return f'quotes make it text: "{tree.text}"'
    return ""


def text_help(tree: Tree, otherwise: str) -> str:
    """Help for numbers that YAML takes for text: how they are written."""
    if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
        return otherwise
    if _overflows(tree.text):
        sign = "-" if tree.text.startswith("-") else ""
        return f"it is larger than any floating-point number; infinity is written {sign}.inf"
    python = f"{tree.text.replace(' ', '').removesuffix('i').removesuffix('j')}j"
    if tree.text[-1:] in ("i", "j") and input_model.number_in(python) is not None:
        return f"a complex number is written {python}"
    parts = [part.strip() for part in tree.text.split(",")]
    if not all(_is_number(part) for part in parts):
        return otherwise
    if len(parts) > 1:
        return f"a list needs brackets: [{', '.join(parts)}]"
    return f"write the number without quotes: {tree.text.replace('_', '')}"


def _overflows(text: str) -> bool:
    """Whether the text is a number that is too large for every floating-point format."""
    try:
        return any(map(str.isdigit, text)) and cmath.isinf(complex(text))
    except ValueError:
        return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def value_words(tree: Tree) -> str:
    """A value as messages show it."""
    if isinstance(tree, Sequence):
        return "a list"
    if isinstance(tree, Mapping):
        return "a mapping"
    if tree.value is None:
        return "empty"
    text = tree.text if len(tree.text) <= 40 else tree.text[:37] + "..."
    kind = {str: "text", bool: "the word", int: "the number", float: "the number"}
    return f"{kind[type(tree.value)]} `{' '.join(text.split())}`"
