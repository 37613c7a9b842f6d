"""Checks a live layer in the process that holds it."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gradcheck_cli.checks.failures import asks_for_a_number
from gradcheck_cli.domain.codes import Codes, Families
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.implementation import ByDesign, Implementation, Surrogate
from gradcheck_cli.domain.layer import as_program
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Input, Model, Spec
from gradcheck_cli.engines.registry import Registered, engines
from gradcheck_cli.run.in_process import run_in_process
from gradcheck_cli.run.plan import DTYPES
from gradcheck_cli.specfile.kinds import KINDS, wrong_shape, wrong_value
from gradcheck_cli.specfile.settings import checked_settings
from gradcheck_cli.testing.call_args import CheckRequest
from gradcheck_cli.testing.report import CheckReport, with_calls
from gradcheck_cli.testing.slips import was_a_tuple_of_inputs
from gradcheck_cli.testing.trees import as_array_function
from gradcheck_cli.testing.values import (
    Given,
    OfArrays,
    engine_of,
    gpu_of,
    parameter_names,
    placed,
    sort_inputs,
)
from gradcheck_cli.version import VERSION

_NOWHERE = Span(1, 1, 1, 1)


def check_layer(request: CheckRequest) -> CheckReport:
    """`api.check` for a layer that is not a formula."""
    started = time.perf_counter()
    live = _live(request)
    if not (callable(live) or callable(getattr(live, "forward", None))):
        what = (
            f"`{live.__name__}`"
            if inspect.ismodule(live)
            else f"an object of type {type(live).__name__}"
        )
        raise UsageError(f"{what} cannot be called", "check(layer, x, ...) takes the layer first")
    chosen = _engine_for(request, live)
    result = _result(request, live, chosen.name)
    numbers = _refused_as_arrays(request, result)
    if numbers:
        result = _result(request, live, chosen.name, numbers=False)
        note = f"{', '.join(numbers)}: not differentiated, because the layer refuses an array there"
        result = replace(result, notes=(*result.notes, note))
    _refuse_mistakes(request, result)
    return CheckReport(
        version=VERSION,
        engines={chosen.name: chosen.version or ""},
        seed=request.seed,
        duration_s=time.perf_counter() - started,
        results=(with_calls(result, _to_type(request.layer), request.seed),),
    )


def _result(request: CheckRequest, live: Any, engine: str, *, numbers: bool = True) -> SpecResult:
    """What the check finds, with or without the plain numbers of the call as inputs."""
    live, found, fixed = _layer_and_inputs(live, request, engine, numbers)
    spec = _spec(request, live, found, fixed, engine)
    if spec.device is None:
        spec = replace(
            spec, device=gpu_of(request.layer, [*request.inputs, *request.named.values()])
        )
    return run_in_process(spec, RunOptions(seed=request.seed))


def _refused_as_arrays(request: CheckRequest, result: SpecResult) -> list[str]:
    """The plain numbers of the call, by name, if the layer could not run because it takes numbers
    and got arrays."""
    refused = result.findings and all(
        one.code == Codes.ENGINE_RAISED and asks_for_a_number(one.message)
        for one in result.findings
    )
    if not refused or request.names_inputs:
        return []
    given = placed(request.layer, parameter_names(request.layer), request.inputs)
    pairs = {**dict(given), **request.named}
    return [f"`{name}`" for name, value in pairs.items() if isinstance(value, float)]


def _refuse_mistakes(request: CheckRequest, result: SpecResult) -> None:
    """Raises UsageError for mistakes of the call that show only when the layer runs: a formula with
    a name that the layer lacks, or a tuple that was meant as all inputs."""
    mistakes = [one for one in result.findings if one.code.startswith(Families.SPEC)]
    if mistakes:
        words = dict.fromkeys(f"{one.code}: {one.message}" for one in mistakes)
        helps = dict.fromkeys(one.detail for one in mistakes if one.detail)
        raise UsageError("; ".join(words), "; ".join(helps))
    raised = [one for one in result.findings if one.code == Codes.ENGINE_RAISED]
    if len(raised) == len(result.findings) > 0 and was_a_tuple_of_inputs(request.inputs):
        raise UsageError(
            f"the layer was given one tuple: {raised[0].message}",
            f"inputs go one by one: check({result.spec}, *inputs)",
        )


def _spec(
    request: CheckRequest, live: Any, values: Given, fixed: Mapping[str, Any], engine: str
) -> Spec:
    called = request.name or name_of(request.layer if request.backward else live)
    source, span = place_of(request.layer)
    implementation = Implementation(
        engine=engine,
        target=called,
        folder="",
        span=span,
        args=tuple(request.args),
        kwargs=fixed,
        surrogates=_surrogates(request.surrogate, span),
        live=live,
        types=values.types,
    )
    shapes = {key: array.shape for key, array in values.arrays.items()}
    model = None if request.model is None else Model(request.model, lambda start, end: span)
    spec = Spec(
        name=called,
        source=source,
        span=span,
        program=as_program(implementation, shapes, ()),
        points=(_inputs(values, request),),
        wrt=(),
        dtypes=_dtypes(values),
        implementations=(implementation,),
        by_design=tuple(_designs(request.by_design, span)),
        model=model,
    )
    return replace(spec, **checked_settings(request.settings, span))


def _layer_and_inputs(
    live: Any, request: CheckRequest, engine: str, numbers: bool
) -> tuple[Any, Given, Mapping[str, Any]]:
    """The layer, its inputs, and the keyword arguments, which go to the constructor if the layer is
    a class."""
    if isinstance(live, type) and not _is_function(live):
        given = request.inputs, request.named
        found = sort_inputs(live, *given, by_name=request.names_inputs, numbers=numbers)
        for place, value in found.at_places.items():
            raise UsageError(
                f"argument {place} is {type(value).__name__}, and the layer gives no name for it",
                "give the layer an object of its class: check(Layer(...), ...)",
            )
        return live, found, request.kwargs
    named = {**request.kwargs, **request.named}
    trees = as_array_function(live, request.inputs, named) if engine in ("jax", "jax-jit") else None
    if trees is not None:
        return *trees, {}
    found = sort_inputs(live, request.inputs, named, by_name=request.names_inputs, numbers=numbers)
    if found.at_places:
        is_class = isinstance(live, type)
        live = OfArrays(live.apply if is_class else live, found.at_places)
    return live, found, found.fixed


def _live(request: CheckRequest) -> Any:
    """The object as engines take it: the class for an `apply` method, or a pair of NumPy
    functions."""
    layer, backward = request.layer, request.backward
    if backward is not None:
        if not callable(layer) or not callable(backward):
            raise UsageError("`backward` needs a function: check(forward, x, backward=...)")
        return SimpleNamespace(forward=layer, backward=backward)
    owner = getattr(layer, "__self__", None)
    if (
        isinstance(owner, type)
        and getattr(layer, "__name__", "") == "apply"
        and _is_function(owner)
    ):
        return owner
    return layer


def _to_type(layer: Any) -> str | None:
    """The name that a call of `check` can use for the layer, a function or a class; None for an
    object or a lambda."""
    owner = getattr(layer, "__self__", None)
    name = getattr(owner if isinstance(owner, type) else layer, "__name__", "")
    return name if name.isidentifier() else None


def _is_function(found: type) -> bool:
    """Whether the class is an `autograd.Function`, of which no objects are made."""
    return hasattr(found, "forward") and hasattr(found, "backward") and hasattr(found, "apply")


def _engine_for(request: CheckRequest, live: Any) -> Registered:
    values = [*request.inputs, *request.named.values(), *request.kwargs.values()]
    if len(request.engines) > 1:
        raise UsageError("a layer has one engine", "engines='torch'")
    name = next(iter(request.engines), "numpy" if request.backward else None)
    name = name or engine_of(live, values)
    entry = engines().get(name)
    if entry is None or entry.engine is None:
        known = [n for n, e in engines().items() if e.engine and e.engine.capabilities.layers]
        raise UsageError(f"unknown engine `{name}`", f"known: {', '.join(known)}")
    if not entry.engine.capabilities.layers:
        raise UsageError(f"the engine `{name}` runs formulas, not layers")
    return entry


def _inputs(values: Given, request: CheckRequest) -> dict[str, Input]:
    domain = request.domain if isinstance(request.domain, Mapping) else {}
    for key, names in (("domain", domain), ("kinds", request.kinds)):
        for name in names:
            if name not in values.arrays:
                raise UsageError(f"`{key}` names `{name}`", f"inputs: {', '.join(values.arrays)}")
    asking = request.settings.get("wrt") or values.asking
    made = {}
    for name, array in values.arrays.items():
        is_complex = name in values.complex_inputs
        if is_complex and (request.bounds(name) or name in request.kinds):
            raise UsageError(f"`{name}` is complex, but `domain` and `kinds` are for real numbers")
        low, high = _domain(name, request)
        moves = array.dtype.kind == "f" and (not asking or name in asking)
        if moves and np.any(np.isnan(array)):
            raise UsageError(
                f"`{name}` contains nan, where there is no gradient to check",
                "`wrt` lists what is differentiated: all else is data, which may be nan",
            )
        kind = _kind(name, array, request)
        made[name] = Input(name, array, moves, low, high, kind=kind, is_complex=is_complex)
    return made


def _domain(name: str, request: CheckRequest) -> tuple[float, float]:
    bounds = request.bounds(name) or (float("-inf"), float("inf"))
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        raise UsageError(f"the domain of `{name}` is {bounds!r}", "(low, high)") from None
    if not low < high:
        raise UsageError(f"the domain of `{name}` is ({low}, {high})", "(low, high)")
    return low, high


def _kind(name: str, array: Array, request: CheckRequest) -> str:
    kind = request.kinds.get(name, "")
    if not kind:
        return ""
    if kind not in KINDS:
        raise UsageError(f"there is no kind `{kind}`", f"kinds: {', '.join(KINDS)}")
    why = wrong_shape(kind, array.shape) or wrong_value(kind, array)
    if why:
        raise UsageError(f"`{name}`: {why}")
    return kind


def _dtypes(found: Given) -> tuple[str, ...] | None:
    """Half precision if an input has it, because such a layer may accept no other dtype; otherwise
    the default."""
    half = sorted(set(FORMATS) - set(DTYPES))
    return tuple(name for name in half if name in found.dtypes) or None


def _designs(forms: Sequence[Mapping[str, str]], span: Span) -> Iterator[ByDesign]:
    keys = ("function", "detach", "surrogate", "reason")
    for form in forms:
        stray = sorted(set(form) - set(keys))
        if stray:
            raise UsageError(f"`by_design` has no key `{stray[0]}`", f"keys: {', '.join(keys)}")
        if ("function" in form) == ("detach" in form) or not form.get("reason"):
            raise UsageError("`by_design` needs a `function` or a `detach`, and a `reason`")
        yield ByDesign(
            form["reason"],
            span,
            form.get("function", ""),
            form.get("detach", ""),
            form.get("surrogate"),
        )


def _surrogates(form: Mapping[str, str] | None, span: Span) -> tuple[Surrogate, ...]:
    if form is None:
        return ()
    missing = {"backward", "reason"} - set(form)
    if missing:
        raise UsageError(f"the surrogate lacks `{sorted(missing)[0]}`", "backward and reason")
    return (Surrogate(form["backward"], form["reason"], span, form.get("input")),)


def place_of(layer: Any) -> tuple[Source, Span]:
    """The file that defines the layer, and the line of its definition. The source has no text if it
    is unknown, as for functions that were typed in."""
    for candidate in _candidates(layer):
        written = candidate is not None and not inspect.isbuiltin(candidate)
        place = _definition_place(candidate) if written else None
        if place is not None:
            path, text, span = place
            return Source(path.removeprefix(os.path.join(os.getcwd(), "")), text), span
    return Source(name_of(layer), ""), _NOWHERE


def _definition_place(candidate: Any) -> tuple[str, str, Span] | None:
    """The path and text of the file that defines the object, and the place. Results are cached,
    because finding a class reads its whole file."""
    try:
        if candidate not in _KNOWN:
            _KNOWN[candidate] = _look_up(candidate)
        return _KNOWN[candidate]
    except TypeError:  # it has no hash, or no weak references
        return _look_up(candidate)


_KNOWN: WeakKeyDictionary[Any, tuple[str, str, Span] | None] = WeakKeyDictionary()


def _look_up(candidate: Any) -> tuple[str, str, Span] | None:
    try:
        lines, first = inspect.getsourcelines(candidate)
        path = inspect.getsourcefile(inspect.unwrap(candidate))  # as for the lines
        text = Path(path).read_text("utf-8") if path else ""
    except (OSError, TypeError, UnicodeDecodeError):
        return None
    if not path or not lines:
        return None
    skipped = _decorators(lines)
    line = lines[skipped].rstrip()
    start = len(line) - len(line.lstrip())
    number = first + skipped
    return path, text, Span(number, start + 1, number, len(line) + 1)


def _candidates(layer: Any) -> list[Any]:
    """The objects whose definition may be that of the layer. Metaclasses, the classes of
    functions and wrappers, and a `forward` from a library are left out, because they are defined
    elsewhere."""
    owner = getattr(layer, "__self__", None)
    if inspect.isclass(owner) and layer.__module__ != owner.__module__:  # the `apply` of a Function
        return [owner]
    inner = getattr(layer, "func", None) or getattr(layer, "__func__", None)
    candidates = [layer, inner]
    own = layer if inspect.isclass(layer) else type(layer)
    forward = getattr(layer, "forward", None)
    held = "forward" in getattr(layer, "__dict__", {})
    if held or getattr(forward, "__module__", None) == own.__module__:
        candidates.append(getattr(forward, "__func__", forward))  # which lives as long as its class
    elsewhere = isinstance(layer, type | FunctionType) or hasattr(layer, "__wrapped__")
    return candidates if elsewhere else [*candidates, own]


def _decorators(lines: list[str]) -> int:
    """How many lines stand before the definition itself."""
    for index, line in enumerate(lines):
        if line.lstrip().startswith(("def ", "class ", "async def ")):
            return index
    return 0


def name_of(layer: Any) -> str:
    """The name of the layer in reports."""
    name = getattr(layer, "__name__", None)
    if not isinstance(name, str):
        inner = getattr(layer, "func", None)
        name = getattr(inner, "__name__", None) or type(layer).__name__
    return "lambda" if name == "<lambda>" else str(name)
