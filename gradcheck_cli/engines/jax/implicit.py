"""Calls of `jax.lax.custom_root`, `custom_linear_solve` and `linear_call`. Their derivatives hold
only if the functions that the user gives to them keep a promise that JAX does not check."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import jax
import numpy as np

from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.capture import of_a_library
from gradcheck_cli.engines.tracebacks import where_it_runs

ROOT, LINEAR, TRANSPOSED = "custom_root", "custom_linear_solve", "linear_call"
_RULES = {ROOT: "tangent_solve", LINEAR: "solve", TRANSPOSED: "fun_transpose"}
_WITHIN = 4  # frames between JAX's function and what it calls

Numbers = Callable[[Any], Any]
"""The numbers of a value that is being differentiated."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that is not kept: `rule` is the user's function that breaks it, or None if an
    argument does, and `reason` says how."""

    rule: Any
    reason: str


def broken_promise(name: str, results: Sequence[Any], of: Numbers) -> Broken | None:
    """The promise that the running call of a user breaks; None if it is a library's call or keeps
    every promise."""
    frame = _frame_of(name)
    if frame is None:
        return None
    given = frame.f_locals
    if of_a_library(_module_of(given[_RULES[name]])):
        return None
    look = {ROOT: _of_root, LINEAR: _of_linear, TRANSPOSED: _of_transposed}[name]
    return where_it_runs(lambda: look(given, results, of), None)


def _frame_of(name: str) -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_WITHIN):
        if frame is None or frame.f_code.co_name == name:
            return frame
        frame = frame.f_back
    return None


def _module_of(function: Any) -> str | None:
    return getattr(getattr(function, "func", function), "__module__", None)


def _of_root(given: dict[str, Any], results: Sequence[Any], of: Numbers) -> Broken | None:
    structure = jax.tree.structure(given["initial_guess"])
    solution = jax.tree.unflatten(structure, results[: structure.num_leaves])
    value, tangent = jax.linearize(given["f"], solution)
    y = _drawn(solution)
    back = tangent(given["tangent_solve"](tangent, y))
    off = _difference(back, y, of, _flat(y, of))
    if off is not None:
        said = "`g(tangent_solve(g, y))` is {} where `y` is {}".format(*off)
        reason = f"`tangent_solve` does not solve its equation: {said}"
        return Broken(given["tangent_solve"], reason)
    moved = _flat(tangent(solution), of)  # rounding of the solution moves `f` by a part of this
    off = _difference(value, jax.tree.map(jax.numpy.zeros_like, value), of, moved)
    if off is not None:
        return Broken(given["solve"], f"`solve` does not end at a root: `f` is {off[0]} there")
    return None


def _of_linear(given: dict[str, Any], results: Sequence[Any], of: Numbers) -> Broken | None:
    b, matvec = given["b"], given["matvec"]
    structure = jax.tree.structure(b)
    solution = jax.tree.unflatten(structure, results[: structure.num_leaves])
    off = _difference(matvec(solution), b, of, _flat(b, of))
    if off is not None:
        said = "`matvec(solve(matvec, b))` is {} where `b` is {}".format(*off)
        return Broken(given["solve"], f"`solve` does not solve its equation: {said}")
    u = _drawn(b)
    (transposed,) = jax.linear_transpose(matvec, b)(u)
    if given["symmetric"]:
        off = _difference(matvec(u), transposed, of, _flat(transposed, of))
        said = "an entry of `matvec(v)` is {}, and {} in the product with the transpose"
        reason = "`symmetric=True`, but `matvec` is not symmetric: " + said
        return None if off is None else Broken(None, reason.format(*off))
    solve = given["transpose_solve"]
    if solve is None:
        return None

    def vecmat(v: Any) -> Any:
        return jax.linear_transpose(matvec, b)(v)[0]

    back = vecmat(_without_aux(solve(vecmat, u), given))
    off = _difference(back, u, of, _flat(u, of))
    if off is None:
        return None
    said = "`vecmat(transpose_solve(vecmat, c))` is {} where `c` is {}".format(*off)
    return Broken(solve, f"`transpose_solve` does not solve the transposed equation: {said}")


def _of_transposed(given: dict[str, Any], results: Sequence[Any], of: Numbers) -> Broken | None:
    residual, linear, rule = given["residual_args"], given["linear_args"], given["fun_transpose"]
    y_bar = _drawn(jax.tree.unflatten(given["out_tree"](), results))
    (right,) = jax.linear_transpose(lambda x: given["fun"](residual, x), linear)(y_bar)
    off = _difference(rule(residual, y_bar), right, of, _flat(right, of))
    if off is None:
        return None
    said = "an entry of its result is {}, and {} by the transpose of `fun`".format(*off)
    return Broken(rule, f"`fun_transpose` is not the transpose of `fun`: {said}")


def _without_aux(result: Any, given: dict[str, Any]) -> Any:
    return result[0] if given.get("has_aux") else result


def _drawn(like: Any) -> Any:
    rng = generator(0, 53)
    return jax.tree.map(lambda x: jax.numpy.asarray(rng.uniform(0.5, 1.5, x.shape), x.dtype), like)


def _flat(tree: Any, of: Numbers) -> Array:
    parts = [np.asarray(of(x)) for x in jax.tree.leaves(tree)]
    return np.concatenate([np.zeros(0), *(part.reshape(-1) for part in parts)])


def _difference(found: Any, right: Any, of: Numbers, sizes: Array) -> tuple[str, str] | None:
    """The two numbers that differ most; None if they agree in half of their digits, relative to the
    largest of `sizes`."""
    half = max(float(jax.numpy.finfo(x.dtype).eps) ** 0.5 for x in jax.tree.leaves(found))
    found, right = _flat(found, of), _flat(right, of)
    with np.errstate(all="ignore"):
        off = np.abs(found - right)
    worst = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
    if off[worst] <= half * np.max(np.abs(sizes), initial=0.0):
        return None
    return f"{found[worst]:.3g}", f"{right[worst]:.3g}"
