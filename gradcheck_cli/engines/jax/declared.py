"""What a spec declares as intended in a JAX layer (`layer.declared`). The equations run one by one;
those that stop gradients or have custom gradients run as declared."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gradcheck_cli.domain.dtypes import Array, are_equal, joined
from gradcheck_cli.domain.layer import word_of
from gradcheck_cli.engines.jax.custom_functions import in_parts, is_floating
from gradcheck_cli.engines.jax.trees import is_complex
from gradcheck_cli.engines.jax.walk import CUSTOM_JVP, CUSTOM_VJP, STOP
from gradcheck_cli.engines.jax.wide import Unrolled, bound
from gradcheck_cli.engines.layer.declared import Declared, Given, Pull, joined_results, separate
from gradcheck_cli.engines.layer.source_lines import Places, displayed_path, lines
from gradcheck_cli.engines.tracebacks import LIBRARIES


class DeclaredRun(Unrolled):
    """Evaluates jaxprs, with declared equations sent to `declared`."""

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._places = Places(__name__)

    def equation(self, equation: Any, args: list[Any]) -> list[Any]:
        name = equation.primitive.name
        if name == STOP:
            return self._detach_declared(equation, args)
        if name in (CUSTOM_JVP, CUSTOM_VJP):
            return self._custom_call(equation, args)
        return super().equation(equation, args)

    # What is declared

    def _detach_declared(self, equation: Any, args: list[Any]) -> list[Any]:
        which = self._declared.line(iter(_lines(equation)))
        if which is None:
            return args
        place = self._place(equation)
        return [self._declared.detach(which, args[0], lambda y: y, are_equal, place, True)]

    def _custom_call(self, equation: Any, args: list[Any]) -> list[Any]:
        params = equation.params
        about = params["call_jaxpr"].jaxpr.debug_info
        name, source = about.func_name, _source(about.func_src_info)
        theirs = source is None or not source[0].startswith(LIBRARIES)
        which = self._declared.function(name) if theirs else None
        if which is None:
            return self(params["call_jaxpr"], *args)
        places = [i for i, a in enumerate(args) if is_floating(a)]
        names = _names(about, source, len(args), params["num_consts"])
        results = self(params["call_jaxpr"], *args)
        floating = [i for i, y in enumerate(results) if is_floating(y)]
        given = Given(
            {names[i]: in_parts(args[i]) for i in places},
            {names[i]: np.asarray(a) for i, a in enumerate(args) if i not in places},
            joined_results((results[i] for i in floating), in_parts),
        )
        pull = _pull(equation, args, places, floating)
        found = self._declared.declared_results(which, given, pull, self._place(equation))
        if found is None:
            return results
        for i, y in zip(floating, _arrays(found, [results[i] for i in floating]), strict=True):
            results[i] = y
        return results

    def _place(self, equation: Any) -> str:
        found = _lines(equation)
        return f"{displayed_path(found[-1][0])}:{found[-1][1]}" if found else ""


def _lines(equation: Any) -> list[tuple[str, int]]:
    traceback = equation.source_info.traceback
    return list(lines(zip(*traceback.raw_frames(), strict=True))) if traceback else []


def _pull(equation: Any, args: list[Any], places: list[int], floating: list[int]) -> Pull:
    """The vjp of this call alone, by its own rule."""

    def alone(*arrays: Any) -> list[Any]:
        filled = list(args)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        results = bound(equation, filled)
        return [results[i] for i in floating]

    def pull(row: Array) -> list[Array | None]:
        results, back = jax.vjp(alone, *[args[i] for i in places])
        # conj: JAX's convention for cotangents of complex numbers
        cotangents = [y_bar.conj() for y_bar in _arrays(row, results)]
        return [in_parts(g.conj()) for g in back(cotangents)]

    return pull


def _source(text: str | None) -> tuple[str, int] | None:
    """The file and line of a function, read from JAX's form "f at layers.py:3"."""
    path, _, line = (text or "").partition(" at ")[2].rpartition(":")
    return (os.path.abspath(path), int(line)) if path and line.isdigit() else None


def _names(about: Any, source: tuple[str, int] | None, count: int, constants: int) -> list[str]:
    """The function's names for its arguments. JAX loses them when it maps over the function."""
    known = about.arg_names
    if known is None and source is not None:
        known = _parameters(*source, about.func_name)
    mine = [word_of(name) for name in known or () if name]
    if len(mine) == count:
        return mine
    if len(mine) != count - constants:
        mine = [f"argument {i}" for i in range(count - constants)]
    return [f"captured {i}" for i in range(constants)] + mine


@cache
def _parameters(path: str, line: int, name: str) -> tuple[str, ...]:
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first <= line <= node.lineno:
                return tuple(one.arg for one in (*node.args.posonlyargs, *node.args.args))
    return ()


def _arrays(flat: Array, likes: Sequence[Any]) -> list[Any]:
    """The numbers as arrays of the same shapes and dtypes as `likes`."""
    return [
        jax.numpy.asarray(joined(part) if is_complex(like) else part, like.dtype)
        for part, like in separate(flat, likes, is_complex)
    ]
