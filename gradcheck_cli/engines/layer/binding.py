"""Turns inputs with names into the arguments of a call, and results into a list of arrays."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from operator import is_not
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from gradcheck_cli.engines.errors import EngineFault, SpecMistake

Arranged = Callable[[Mapping[str, Any]], tuple[list[Any], dict[str, Any]]]
"""From arrays by name to positional and keyword arguments."""

NO_TYPES: Mapping[str, type] = MappingProxyType({})
_EMPTY = inspect.Parameter.empty
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class BadCall(EngineFault):
    """The inputs do not fit the signature of the layer. The message says which."""


OWN = "self."  # before the name of an array of the layer that an argument has, too


class MissingArgument(SpecMistake):
    """The layer requires an argument that is neither an input nor fixed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the layer takes `{name}`, which has no value",
            f"make `{name}` an input, or a keyword argument (kwargs) of the layer",
        )


def called(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls a user's `function` and returns its result. Every layer is called here: an exception
    whose traceback ends here is known to come from the function itself, even if it has no lines in
    Python (`tracebacks.without_lines`). Callers restore NumPy's error handling, because Dynamo
    cannot trace that."""
    return function(*args, **kwargs)


def arrange(
    function: Any,
    names: Sequence[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    skip: int = 0,
    keywords: bool = True,
    types: Mapping[str, type] = NO_TYPES,
) -> Arranged:
    """How to call `function` with the inputs `names` and the fixed `args` and `kwargs`.

    Inputs are passed by name if each is the name of a parameter, or if the function takes any name,
    no further positions, and no parameter stays empty; the fixed `args` then take the remaining
    positions. Otherwise inputs come first, in their order. The first `skip` parameters ("ctx") are
    not filled. Without `keywords` everything is passed by position. Inputs "state[0]" and
    "state['h']" are parts of one argument, a tuple, or a named tuple if `types` has one for it, or
    a dictionary. Raises MissingArgument.
    """
    wholes = list(dict.fromkeys(name.partition("[")[0] for name in names))
    if wholes != list(names):
        arranged = arrange(function, wholes, args, kwargs, skip=skip, keywords=keywords)
        return lambda arrays: arranged(joined(arrays, types))
    fixed = dict(kwargs)
    parameters = parameters_of(function)
    if parameters is not None:
        parameters = parameters[skip:]
    known = {p.name for p in parameters or () if p.kind not in _VARIADIC}
    kinds = {p.kind for p in parameters or ()}
    required = {p.name for p in parameters or () if p.kind in _BY_PLACE and p.default is _EMPTY}
    takes_any_name = kinds & set(_VARIADIC) == {inspect.Parameter.VAR_KEYWORD}
    takes_any_name &= required <= {*names, *fixed}
    if parameters is None or not (set(names) <= known or takes_any_name):
        order: list[tuple[str, Any]] = [("input", name) for name in names]
        order += [("fixed", value) for value in args]
        named: list[tuple[str, Any]] = []
        return _call(order, named, fixed)
    return _by_name(parameters, names, args, fixed, keywords)


def for_the_call(
    cls: Any, kwargs: Mapping[str, Any], method: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keyword arguments for the constructor of a class, and those for the call of its objects
    or their `method` (default: `call` in Keras, `forward` in PyTorch), such as `training`."""
    named = (getattr(cls, name, None) for name in ([method] if method else ("call", "forward")))
    call = next((method for method in named if method is not None), cls.__call__)
    known = {p.name for p in parameters_of(call) or ()}
    own = {p.name for p in parameters_of(cls) or ()}
    later = {name: v for name, v in kwargs.items() if name in known and name not in own}
    return {n: v for n, v in kwargs.items() if n not in later}, later


def joined(arrays: Mapping[str, Any], types: Mapping[str, type] = NO_TYPES) -> dict[str, Any]:
    """Arrays by name. Those named "state[0]" and "state['h']" are joined to tuples, to the named
    tuples in `types`, and to dictionaries; `flattened` took them apart."""
    wholes: dict[str, Any] = {}
    for name, array in arrays.items():
        whole, bracket, rest = name.partition("[")
        path = [ast.literal_eval(key) for key in _KEYS.findall(bracket + rest)]
        level = wholes
        for key in (whole, *path[:-1]) if path else ():
            level = level.setdefault(key, {})
        level[path[-1] if path else whole] = array
    return {name: _gathered(name, value, types) for name, value in wholes.items()}


def _gathered(name: str, part: Any, types: Mapping[str, type]) -> Any:
    if not isinstance(part, dict):
        return part
    inside = {key: _gathered(f"{name}[{key!r}]", value, types) for key, value in part.items()}
    if not all(isinstance(key, int) for key in part):
        return inside
    ordered = [inside[key] for key in sorted(inside)]
    return types[name](*ordered) if name in types else tuple(ordered)


_KEYS = re.compile(r"\[([^\]]+)\]")
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


_READ: WeakKeyDictionary[Any, tuple[tuple[object, ...], list[inspect.Parameter] | None]]
_READ = WeakKeyDictionary()


def parameters_of(function: Any) -> list[inspect.Parameter] | None:
    """The parameters of the signature of a function, or None if it has no signature. Do not modify
    the list. The parameters of a plain or built-in function are cached, because a check of a small
    layer needs them several times, and reading them takes as long as a call of the layer."""
    if type(function) is MethodType:
        of_all = parameters_of(function.__func__)
        return of_all[1:] if of_all and of_all[0].kind in _BY_PLACE else _own_parameters(function)
    if type(function) is BuiltinFunctionType:
        stated: tuple[object, ...] = (BuiltinFunctionType,)  # it never changes
    elif type(function) is not FunctionType or vars(function):  # it may state those of another
        return _own_parameters(function)
    else:
        stated = (function.__code__, function.__defaults__, function.__kwdefaults__)
    before, parameters = _READ.get(function, ((), None))
    if not before or any(map(is_not, before, stated)):
        parameters = _own_parameters(function)
        _READ[function] = stated, parameters
    return parameters


def _own_parameters(function: Any) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def required_of(function: Any) -> set[str]:
    """The names of the parameters without a default."""
    return {one.name for one in parameters_of(function) or () if one.default is one.empty}


def _by_name(
    parameters: Sequence[inspect.Parameter],
    names: Sequence[str],
    args: Sequence[Any],
    fixed: dict[str, Any],
    keywords: bool,
) -> Arranged:
    order: list[tuple[str, Any]] = []
    named: list[tuple[str, Any]] = []
    left = list(args)
    by_place = True  # until a parameter is left to its default
    for parameter in parameters:
        if parameter.kind in _VARIADIC:
            continue
        name = parameter.name
        if name in names:
            part: tuple[str, Any] = ("input", name)
        elif name in fixed:
            part = ("fixed", fixed.pop(name))
        elif left and parameter.kind in _BY_PLACE:
            part = ("fixed", left.pop(0))
        elif parameter.default is not _EMPTY:
            if keywords:
                by_place = False
                continue
            part = ("fixed", parameter.default)
        else:
            raise MissingArgument(name)
        if by_place and parameter.kind in _BY_PLACE:
            order.append(part)
        else:
            named.append((name, part))
    order += [("fixed", value) for value in left]
    known = {parameter.name for parameter in parameters}
    named += [(name, ("input", name)) for name in names if name not in known]
    return _call(order, named, fixed)


def _call(
    order: Sequence[tuple[str, Any]], named: Sequence[tuple[str, Any]], fixed: Mapping[str, Any]
) -> Arranged:
    def arguments(arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        args = [arrays[what] if kind == "input" else what for kind, what in order]
        keywords = {n: arrays[what] if kind == "input" else what for n, (kind, what) in named}
        return args, {**keywords, **fixed}

    return arguments
