"""Runs programs of JAX equation by equation, and converts programs to float64, including the dtypes
and programs in their parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend import core

from gradcheck_cli.domain.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Pure:
    """A layer as a function `call` of its `leaves`, in this order. `wrt` names the leaves with
    respect to which it is differentiated; `bars` are cotangents of its outputs."""

    call: Callable[..., list[Any]]
    leaves: Mapping[str, Any]
    wrt: Sequence[str]
    bars: Sequence[Any] = ()

    @property
    def arrays(self) -> list[Any]:
        return list(self.leaves.values())

    @property
    def moving(self) -> list[Any]:
        """The leaves with respect to which the layer is differentiated."""
        return [self.leaves[name] for name in self.wrt]

    def at(self, arrays: Sequence[Any]) -> Pure:
        """The layer at other values of its leaves."""
        return replace(self, leaves=dict(zip(self.leaves, arrays, strict=True)))

    def vjp(self, call: Callable[..., list[Any]] | None = None) -> tuple[list[Any], Any]:
        """The outputs and the vjp with respect to `moving`, of `call` if given and otherwise of the
        layer."""
        run = self.call if call is None else call

        def moved(*some: Any) -> list[Any]:
            return run(*{**self.leaves, **dict(zip(self.wrt, some, strict=True))}.values())

        arrays, pull = jax.vjp(moved, *self.moving)
        return arrays, lambda bars: pull(list(bars))

    def gradient(self) -> Pure:
        """The vjp of `bars` as a function of the same leaves."""
        return replace(self, call=lambda *arrays: list(self.at(arrays).vjp()[1](self.bars)))


LOOPS = {"cond": ("branches",), "while": ("cond_jaxpr", "body_jaxpr"), "scan": ("jaxpr",)}
"""Primitives that run inner programs, and the parameters that hold the programs."""

AS_THEY_WERE = ("bitcast_convert_type", "pure_callback", "io_callback")
"""Primitives whose meaning depends on the dtype of their arguments."""

_OWN = ("reduce", "scatter", "select_and")  # their inner programs act on single numbers
_ROUNDING = "reduce_precision"  # to any format, in the same dtype
_PRODUCTS = "precision"  # the precision to which a product may round its factors


def inner_of(equation: Any) -> Any:
    """The program of an equation that only calls one, such as `jit` or `checkpoint`. None for
    loops, branches and everything else."""
    name = equation.primitive.name
    if name in LOOPS or name.startswith(_OWN):
        return None
    for param in equation.params.values():
        if isinstance(param, core.ClosedJaxpr):
            return param
        if isinstance(param, core.Jaxpr):
            return core.ClosedJaxpr(param, ())
    return None


def bound(equation: Any, args: Sequence[Any], params: Mapping[str, Any] | None = None) -> list[Any]:
    """The results of an equation at these arguments, with these parameters in place of its own."""
    primitive = equation.primitive
    given = primitive.get_bind_params(equation.params if params is None else params)
    found = primitive.bind(*args, **given)
    return list(found) if primitive.multiple_results else [found]


def scanned(
    params: Mapping[str, Any],
    args: Sequence[Any],
    run: Callable[[int, Any, list[Any]], Sequence[Any]],
    taken: Callable[[Any, int], Any],
    stacked: Callable[[list[Any], Any], Any],
) -> list[Any]:
    """The results of a scan, turn by turn. `run` returns the results of a program in a turn,
    `taken` the row of an argument for a turn, and `stacked` the array of the rows of all turns.
    `stacked` also takes an abstract value of the row, because there may be no turn."""
    constants, carried = params["num_consts"], params["num_carry"]
    fixed, state = args[:constants], args[constants : constants + carried]
    rows, program = args[constants + carried :], params["jaxpr"]
    turns = range(params["length"])
    kept: dict[int, Sequence[Any]] = {}
    for turn in reversed(turns) if params["reverse"] else turns:
        found = run(turn, program, [*fixed, *state, *(taken(row, turn) for row in rows)])
        state, kept[turn] = found[:carried], found[carried:]
    made = program.out_avals[carried:]
    return [*state, *(stacked([kept[t][i] for t in turns], y) for i, y in enumerate(made))]


class Unrolled:
    """Evaluates jaxprs equation by equation. Loops and branches follow the numbers."""

    def __call__(self, closed: Any, *arrays: Any) -> list[Any]:
        return evaluated(closed.jaxpr, closed.consts, arrays, self.equation)

    def equation(self, equation: Any, args: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        if name == "cond":
            chosen, *rest = args
            return self(params["branches"][int(chosen)], *rest)
        if name == "while":
            return self._while(params, args)
        if name == "scan":
            return scanned(
                params,
                args,
                lambda _, program, given: self(program, *given),
                lambda row, turn: row[turn],
                lambda rows, like: (
                    jax.numpy.stack(rows) if rows else jax.numpy.zeros((0, *like.shape), like.dtype)
                ),
            )
        if name == "custom_linear_solve":
            return bound(equation, args)
        inner = inner_of(equation)
        return self(inner, *args) if inner is not None else bound(equation, args)

    def _while(self, params: Mapping[str, Any], args: list[Any]) -> list[Any]:
        first, second = params["cond_nconsts"], params["body_nconsts"]
        of_condition, of_body = args[:first], args[first : first + second]
        state = args[first + second :]
        while bool(self(params["cond_jaxpr"], *of_condition, *state)[0]):
            state = self(params["body_jaxpr"], *of_body, *state)
        return state


def solving(params: Mapping[str, Any], args: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The program that solves a `custom_linear_solve`, and its arguments. The other three programs
    serve the derivatives, which have equations of their own."""
    lengths = params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    return params["jaxprs"].solve, [
        *args[before : before + lengths.solve],
        *args[sum(lengths) :],
    ]


def equations(program: Any) -> Iterator[Any]:
    """The equations of a program, at any depth."""
    for equation in getattr(program, "jaxpr", program).eqns:
        yield equation
        yield from inner_equations(equation)


def inner_equations(equation: Any) -> Iterator[Any]:
    """The equations of the programs among the parameters of an equation, at any depth."""
    for part in jax.tree.leaves(list(equation.params.values())):
        if isinstance(part, core.Jaxpr | core.ClosedJaxpr):
            yield from equations(part)


def is_foreign(primitive: Any) -> bool:
    """Whether the primitive belongs neither to JAX nor to this engine."""
    function = primitive.impl
    while isinstance(function, partial):
        function = function.func
    package = (getattr(function, "__module__", None) or "jax").partition(".")[0]
    return package not in ("jax", "jaxlib", __name__.partition(".")[0])


def as_they_were(equation: Any, args: Sequence[Any]) -> list[Any]:
    """The arguments in the dtypes for which the equation was made."""
    return [x.astype(y.aval.dtype) for x, y in zip(args, equation.invars, strict=True)]


def widened(closed: Any) -> Any:
    """The program in float64."""
    arrays = [
        jax.ShapeDtypeStruct(x.shape, wide_dtype(x.dtype), weak_type=getattr(x, "weak_type", False))
        for x in closed.in_avals
    ]
    return jax.make_jaxpr(partial(_run, closed))(*arrays)


def wide_parameters(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a primitive of this name for float64 arguments."""
    return {key: _parameter(name, key, value) for key, value in params.items()}


def wide_dtype(dtype: Any) -> Any:
    """float64 and complex128 in place of floating and complex dtypes; other dtypes unchanged."""
    if jax.numpy.issubdtype(dtype, jax.numpy.floating):
        return np.dtype(np.float64)
    complex_ = jax.numpy.issubdtype(dtype, jax.numpy.complexfloating)
    return np.dtype(np.complex128) if complex_ else dtype


def evaluated(
    jaxpr: core.Jaxpr,
    constants: Sequence[Any],
    arrays: Sequence[Any],
    evaluate: Callable[[Any, list[Any]], Sequence[Any]],
    literal: Callable[[core.Literal], Any] = lambda literal: literal.val,
) -> list[Any]:
    """The results of a jaxpr at `arrays`. `evaluate` returns the results of one equation at its
    arguments."""
    known = dict(zip(jaxpr.invars, arrays, strict=True))
    known.update(zip(jaxpr.constvars, constants, strict=True))

    def value(atom: Any) -> Any:
        return literal(atom) if isinstance(atom, core.Literal) else known[atom]

    for equation in jaxpr.eqns:
        args = [value(x) for x in equation.invars]
        with equation.ctx.manager:
            results = evaluate(equation, args)
        known.update(zip(equation.outvars, results, strict=True))
    return [value(x) for x in jaxpr.outvars]


def _run(closed: Any, *arrays: Any) -> list[Any]:
    """The results of a jaxpr, with all floating numbers in float64."""

    def literal(atom: core.Literal) -> Any:
        return _in_float64(jax.numpy.asarray(atom.val, atom.aval.dtype))

    def evaluate(equation: Any, args: list[Any]) -> list[Any]:
        return [_in_float64(y) for y in _equation(equation, args)]

    constants = [_in_float64(value) for value in closed.consts]
    return evaluated(closed.jaxpr, constants, arrays, evaluate, literal)


def _equation(equation: Any, args: list[Any]) -> Sequence[Any]:
    name, params = equation.primitive.name, equation.params
    if name == _ROUNDING:
        return args
    if name == "custom_linear_solve":
        solve, given = solving(params, args)
        return _run(solve, *given)
    inner = inner_of(equation)
    if inner is not None:
        return _run(inner, *args)
    if name in AS_THEY_WERE:
        return bound(equation, as_they_were(equation, args))
    return bound(equation, args, wide_parameters(name, params))


def _parameter(name: str, key: str, value: Any) -> Any:
    if key == _PRODUCTS:
        return None
    if key in LOOPS.get(name, ()) and isinstance(value, tuple):
        return tuple(map(widened, value))
    if isinstance(value, core.ClosedJaxpr):
        return widened(value)
    if isinstance(value, core.Jaxpr):
        return widened(core.ClosedJaxpr(value, ())).jaxpr
    return wide_dtype(value) if isinstance(value, np.dtype) else value


def _in_float64(array: Any) -> Any:
    dtype = wide_dtype(array.dtype)
    return array if dtype == array.dtype else array.astype(dtype)
