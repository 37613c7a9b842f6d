"""The keys of a spec that control its check: engines, dtypes, tolerance, accepted findings,
training."""

from __future__ import annotations

import json
import keyword
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import ValidationError

from gradcheck_cli.domain.codes import CODES, Codes, Families
from gradcheck_cli.domain.engines import SHIPPED
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.report import SpecError
from gradcheck_cli.domain.search import SEARCH_S
from gradcheck_cli.domain.spec import Allow, Tolerance, Train
from gradcheck_cli.domain.synonyms import did_you_mean, nearest
from gradcheck_cli.formula import used_inputs
from gradcheck_cli.specfile import problems
from gradcheck_cli.specfile.collect import Collector, Path, listed, locate
from gradcheck_cli.specfile.input_model import COMPLEX_TYPES
from gradcheck_cli.specfile.inputs import Inputs
from gradcheck_cli.specfile.model import spec_schema, validator
from gradcheck_cli.specfile.text import Lines
from gradcheck_cli.specfile.yaml_tree import documents

RESERVED = frozenset(keyword.kwlist)


def read_settings(
    data: Mapping[str, Any], inputs: Inputs | None, collector: Collector
) -> dict[str, Any]:
    """The fields of `Spec` that do not depend on the formula, by name."""
    for key in ("dtypes", "engines", "modes", "wrt"):
        _check_unique(data.get(key, ()), (key,), collector)
    if len({dtype in COMPLEX_TYPES for dtype in data.get("dtypes", ())}) > 1:
        help = "give an input that stays real its own `dtype`"
        collector.add("`dtypes` mixes real and complex dtypes", ("dtypes",), help=help)
    for index, engine in enumerate(data.get("engines", ())):
        check_engine(engine, ("engines", index), collector)
    return {
        "dtypes": _tuple(data, "dtypes"),
        "engines": _tuple(data, "engines"),
        "modes": _tuple(data, "modes"),
        "order": data.get("order", 1),
        "tolerance": _tolerance(data.get("tolerance")),
        "allow": _allows(data.get("allow", ()), inputs, collector),
        "train": _train(data.get("train"), inputs, collector),
        "timeout": data.get("timeout"),
        "search": _search(data.get("search")),
        "memory": data.get("memory"),
        "device": data.get("device"),
        "matmul_precision": data.get("matmul_precision"),
        "device_span": _span("device", data, collector),
        "engine_spans": _engine_spans(data, collector),
    }


def _span(key: str, data: Mapping[str, Any], collector: Collector) -> Span | None:
    """The place of the value of a key."""
    return collector.span(locate(collector.root, (key,))[1]) if key in data else None


def _engine_spans(data: Mapping[str, Any], collector: Collector) -> tuple[Span, ...]:
    """The place where each engine is named: in `engines`, or as a key of `implementations`."""
    if "engines" in data:
        named = (locate(collector.root, ("engines", i))[1] for i in range(len(data["engines"])))
        return tuple(collector.span(tree) for tree in named)
    places = (
        locate(collector.root, ("implementations", engine))
        for engine in data.get("implementations", ())
    )
    return tuple(collector.span(key or tree) for key, tree in places)


def checked_settings(chosen: Mapping[str, Any], span: Span) -> dict[str, Any]:
    """Fields of `Spec` from keys that a program gives at `span`: dtypes, modes, order, power,
    tolerance, allow, wrt. Raises UsageError for a value that no spec may have."""
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in chosen.items()}
    try:
        validator().validate_python({"inputs": {"x": 1.0}, "model": "x", **plain})
    except ValidationError as error:
        raise _refusal(error, plain) from None
    made: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}
    if "tolerance" in made:
        made["tolerance"] = _tolerance(made["tolerance"])
    if "allow" in made:
        made["allow"] = tuple(Allow(span=span, **form) for form in made["allow"])
        for allow in made["allow"]:
            if allow.code not in CODES:
                help = did_you_mean(allow.code, CODES)
                raise UsageError(f"`{allow.code}` is not the code of a finding", help)
    return made


def _refusal(error: ValidationError, settings: Mapping[str, Any]) -> UsageError:
    """The first mistake, with the message that a spec with these settings would get."""
    text = json.dumps(settings, default=str)
    root = documents(text)[0].root
    assert root is not None
    errors: list[SpecError] = []
    problems.report(error, Collector(Source("", text), Lines(text), root, errors), spec_schema())
    first = errors[0]
    short = f"`{first.key.rpartition('.')[2]}` "
    says = first.message.removeprefix(short)
    return UsageError(f"`{first.key}`{' ' if says != first.message else ': '}{says}", first.help)


def _tuple(data: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    return tuple(data[key]) if key in data else None


def _check_unique(names: Iterable[str], path: Path, collector: Collector) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            collector.add(f"`{name}` is listed twice", (*path, index))
        seen.add(name)


def check_engine(name: str, path: Path, collector: Collector, *, at_key: bool = False) -> None:
    """Reports a typo in the name of an engine. Engines are plug-ins, so only the run knows which
    are installed."""
    near = nearest(name, SHIPPED)
    if name in SHIPPED or near is None:
        return
    from importlib.metadata import entry_points  # slow, and needed for suspects only

    if name not in {point.name for point in entry_points(group="gradcheck.engines")}:
        help = f"did you mean `{near}`?"
        collector.add(f"there is no engine `{name}`", path, at_key=at_key, help=help)


def _search(stated: bool | float | None) -> float | None:
    """The budget of a search in seconds, or None."""
    return SEARCH_S * stated if isinstance(stated, bool) else stated


def _tolerance(form: Mapping[str, Any] | None) -> Tolerance | None:
    if form is None:
        return None
    parts = {
        key: {name: float(number) for name, number in value.items()}
        if isinstance(value, dict)
        else {"": float(value)}
        for key, value in form.items()
    }
    return Tolerance(**parts)


def _allows(
    forms: Iterable[Mapping[str, Any]], inputs: Inputs | None, collector: Collector
) -> tuple[Allow, ...]:
    allows: list[Allow] = []
    findings = [code for code in CODES if not code.startswith(Families.SPEC)]
    for index, form in enumerate(forms):
        path: Path = ("allow", index)
        if form["code"] not in findings:
            near = did_you_mean(form["code"], findings)
            help = f"{near} `gradcheck explain --all` lists the codes".strip()
            message = f"`{form['code']}` is not the code of a finding"
            collector.add(message, (*path, "code"), help=help)
        if not form["reason"].strip() or not form["reason"].isprintable():
            collector.add("the reason is empty, or not one line of text", (*path, "reason"))
        shared = index < collector.shared.get("allow", 0)
        if "input" in form and inputs is not None and not shared:
            _check_input_name(form["input"], inputs, (*path, "input"), collector)
        _, tree = locate(collector.root, (*path, "code"))
        allows.append(
            Allow(
                form["code"],
                form["reason"],
                collector.span(tree),
                form.get("engine"),
                form.get("dtype"),
                form.get("input"),
                shared,
            )
        )
    return tuple(allows)


def _train(
    form: Mapping[str, Any] | None, inputs: Inputs | None, collector: Collector
) -> Train | None:
    if form is None:
        return None
    path: Path = ("train", "parameters")
    _check_unique(form["parameters"], path, collector)
    if inputs is not None:
        floating_inputs(form["parameters"], inputs, path, collector)
    rate = float(form["optimizer"]["sgd"]["lr"])
    return Train(rate, form["steps"], tuple(form["parameters"]))


def _check_input_name(name: str, inputs: Inputs, path: Path, collector: Collector) -> bool:
    if name in inputs.base:
        return True
    help = f"{did_you_mean(name, inputs.base)} inputs: {listed(inputs.base)}".strip()
    collector.add(f"there is no input `{name}`", path, help=help)
    return False


def floating_inputs(
    names: Iterable[str], inputs: Inputs, path: Path, collector: Collector
) -> list[str]:
    """The names of inputs that have a gradient. All others are reported."""
    floating: list[str] = []
    for index, name in enumerate(names):
        where = (*path, index)
        if not _check_input_name(name, inputs, where, collector):
            continue
        known = inputs.base[name]
        if known is None:
            continue
        if inputs.kind(name) != "float":
            message = f"`{name}` holds {inputs.kind(name)} values, which have no gradient"
            collector.add(
                message,
                where,
                help="give it a floating-point dtype",
                code=Codes.NOTHING_TO_DIFFERENTIATE,
            )
        elif not known.requires_grad:
            message = f"`{name}` has requires_grad: false under `inputs`"
            collector.add(message, where, help="remove one of the two")
        else:
            floating.append(name)
    return floating


def check_training(
    data: Mapping[str, Any], program: Program, wrt: Iterable[str], collector: Collector
) -> None:
    """Training minimises one number, the loss, which must depend on every parameter."""
    if "train" not in data:
        return
    used = used_inputs(program)
    for index, name in enumerate(data["train"]["parameters"]):
        if name in program.inputs and name not in used and name not in wrt:
            message = f"the output does not depend on `{name}`"
            collector.add(message, ("train", "parameters", index))
    shape = program.result.shape
    if shape != ():
        message = f"training needs one number as its loss, but the output has shape {shape}"
        collector.add(
            message,
            ("train",),
            at_key=True,
            help="end with sum(...) or mean(...)",
            code=Codes.SHAPE_MISMATCH,
        )
