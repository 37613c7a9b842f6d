"""Records what JAX executes: the jaxpr of the derivative, evaluated equation by equation.

A derivative is a program of JAX's primitives, known before it runs. Every equation shows for which
node it was made: its name stack holds the scope of the node, inside `transpose` in the backward
pass. Calls are expanded. Of loops and branches, the turns and branches that the numbers choose are
recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.extend import source_info_util as source_info

from gradcheck_cli.domain.dtypes import Array, joined
from gradcheck_cli.domain.evaluation import Phase
from gradcheck_cli.engines.execution import Arrays, Execution, High, Step, format_named
from gradcheck_cli.engines.jax.kernels import (
    CHOSEN,
    DATA_MOVEMENT,
    EXACT_SELECTIONS,
    FUNCTIONS,
    KERNELS,
    MOVED,
    POINTWISE,
    ROWS,
    of_pairs,
)
from gradcheck_cli.engines.jax.kernels.matrices import is_solved_by_factors, solved
from gradcheck_cli.engines.jax.programs import Compiled
from gradcheck_cli.engines.jax.stages import UNOPTIMISED
from gradcheck_cli.engines.jax.startup import EQUATIONS, whole_calls
from gradcheck_cli.engines.jax.wide import (
    AS_THEY_WERE,
    LOOPS,
    as_they_were,
    inner_of,
    is_foreign,
    scanned,
    solving,
    wide_parameters,
)
from gradcheck_cli.engines.jax.xla_rounding import refuse_rewritten, refuse_unknown_rounding
from gradcheck_cli.engines.kit.startup import replaces
from gradcheck_cli.engines.trace.complex_kernels import on_parts
from gradcheck_cli.engines.trace.exact_kernels import OfRun, elementwise, on_balls, on_places
from gradcheck_cli.engines.tracebacks import raise_if_internal

SCOPE = "gradcheck_node_"
"""The start of the name of a node's scope; the node's number follows."""

_NODE = re.compile(SCOPE + r"(\d+)")
_SUMS = "add_any"  # of cotangents
_COMPILED = ("jit", "pjit")
JAX_FOLDER = os.path.dirname(jax.__file__) + os.sep
"""The folder of JAX itself: packages beside it may have names that begin with its own."""
_ALONE = ("div",)  # primitives that are computed in another way beside others
_numbers = Arrays().numpy  # floats in float64, exactly


class _Conversions(Arrays):
    def numpy(self, array: Any) -> Array:
        return super().numpy(jax.random.key_data(array) if _is_key(array) else array)

    def native(self, values: Array, like: Any) -> Any:
        with jax.enable_x64(True):  # otherwise JAX converts float64 to float32
            return jax.numpy.array(super().native(values, like))


class JaxRecorder:
    """Implements `execution.Recorder` for JAX."""

    sees_calls = True
    """Whether each equation outside of a compiled call is one that JAX runs alone."""

    def __init__(self, in_numpy: bool = False) -> None:
        self._in_numpy = in_numpy  # whether operations that NumPy has run in NumPy
        self.execution = Execution(_Conversions())
        self.turns: tuple[int, ...] = ()  # of the loops that are running, outermost first
        self._scopes = ExitStack()
        self._opened: set[Any] = set()  # primitives that are taken apart
        self._stored: list[bool] | None = []  # results of a jaxpr that are kept; None: all are
        self._kept: list[bool] = []  # results of the equation that are
        self._alone = False  # whether its arguments are made outside of its compiled call

    def record(self, function: Callable[..., list[Any]], arrays: Sequence[Any]) -> list[int | None]:
        whole = self.sees_calls and replaces(EQUATIONS)
        with self._scopes:
            jaxpr, is_present = traced(function, arrays, whole)
        if self.execution.is_general:
            refuse_unknown_rounding()
            refuse_rewritten(jaxpr.jaxpr)
        self._stored = None if whole else []
        slots = iter(self._evaluate(jaxpr, [self._slot(array) for array in arrays], None, False))
        self._attribute_sums()
        return [next(slots) if present else None for present in is_present]

    def enter(self, node: int) -> None:
        self._scopes.enter_context(jax.named_scope(f"{SCOPE}{node}"))

    def leave(self, node: int, value: Any) -> Any:
        self._scopes.close()
        return value

    def derive(self) -> None:
        """Do nothing: the name stack of an equation shows that it belongs to the backward pass."""

    def _slot(self, array: Any, structural: bool = False) -> int:
        slot = self.execution.add_slot(array, format_named(array.dtype.name))
        self.execution.slots[slot].structural = structural
        return slot

    def _evaluate(
        self, closed: Any, args: Sequence[int], node: int | None, backward: bool
    ) -> list[int]:
        """Run a jaxpr on the slots `args`, and return the slots of its results."""
        jaxpr = closed.jaxpr
        places: dict[Any, int] = dict(zip(jaxpr.invars, args, strict=True))
        for var, const in zip(jaxpr.constvars, closed.consts, strict=True):
            places[var] = self._slot(jax.numpy.asarray(const), structural=True)

        def place(atom: Any) -> int:
            if isinstance(atom, core.Literal):
                array = jax.numpy.asarray(atom.val, atom.aval.dtype)
                return self._slot(array, structural=True)
            return places[atom]

        live = _live(jaxpr)
        stored = None if self._stored is None else _stored(jaxpr, live, self._stored)
        for equation in live:
            self._kept = [stored is None or x in stored for x in equation.outvars]
            given = (isinstance(x, core.Literal) or x not in jaxpr.invars for x in equation.invars)
            self._alone = stored is None or not any(given)
            stack = str(equation.source_info.name_stack)
            named = _NODE.findall(stack)
            results = self._equation(
                equation,
                [place(x) for x in equation.invars],
                int(named[-1]) if named else node,
                backward or "transpose" in stack,
            )
            places.update(zip(equation.outvars, results, strict=True))
        return [place(x) for x in jaxpr.outvars]

    def _equation(
        self, equation: Any, args: Sequence[int], node: int | None, backward: bool
    ) -> list[int]:
        name, params = equation.primitive.name, equation.params
        # what is compiled as one may compute a number again for each use, but for its results
        self._stored = self._kept if name in _COMPILED else []
        self._kept = [] if inner_of(equation) or name in LOOPS else self._kept
        run = partial(self._evaluate, node=node, backward=backward)
        if name == "cond":
            chosen, *rest = args
            self.execution.deciding.append(chosen)
            return run(params["branches"][int(self._value(chosen))], rest)
        if name == "custom_linear_solve":
            if self.execution.is_general and is_solved_by_factors(params):
                return self._solution(equation, args, node, backward)
            return run(*solving(params, args))
        if name == "while":
            return self._while(params, args, run)
        if name == "scan":
            return scanned(params, args, partial(self._turn, run), self._row, self._stacked)
        function = _function_of(equation)
        if function is not None:
            return self._function(*function, equation, args, node, backward)
        inner = inner_of(equation)
        if inner is not None:
            return run(inner, args)
        written = self._written_in_jax(equation)
        if written is None:
            return self._primitive(equation, args, node, backward)
        self._opened.add(equation.primitive)
        try:
            return run(written, args)
        finally:
            self._opened.remove(equation.primitive)

    def _written_in_jax(self, equation: Any) -> Any:
        """The program that another package's primitive runs, such as a solver of lineax. None if
        the primitive cannot be traced."""
        primitive = equation.primitive
        if primitive in self._opened or not is_foreign(primitive):
            return None
        given = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in equation.invars]

        def results(*xs: Any) -> Any:
            return primitive.impl(*xs, **equation.params)

        try:
            with jax.enable_x64(True), source_info.user_context(equation.source_info.traceback):
                return jax.make_jaxpr(results)(*given)
        except Exception as error:  # the primitive may read numbers
            raise_if_internal(error)
            return None

    def _value(self, slot: int) -> Any:
        return self.execution.slots[slot].native

    def _is_key(self, slot: int) -> bool:
        return _is_key(self._value(slot))

    def _while(
        self, params: Mapping[str, Any], args: Sequence[int], run: Callable[..., list[int]]
    ) -> list[int]:
        first, second = params["cond_nconsts"], params["body_nconsts"]
        of_condition, of_body = args[:first], args[first : first + second]
        state = list(args[first + second :])
        while True:
            going = run(params["cond_jaxpr"], [*of_condition, *state])[0]
            self.execution.deciding.append(going)
            if not np.any(self._value(going)):
                return state
            after = run(params["body_jaxpr"], [*of_body, *state])
            if np.all(self._value(going)):
                state = after
            else:  # some entries of a batch are finished
                state = [
                    self._call("select", _chosen, [going, *pair])
                    for pair in zip(after, state, strict=True)
                ]

    def _turn(
        self, run: Callable[..., list[int]], turn: int, program: Any, args: list[int]
    ) -> list[int]:
        self.turns += (turn,)
        found = run(program, args)
        self.turns = self.turns[:-1]
        return found

    def _row(self, slot: int, turn: int) -> int:
        return self._call("slice", lambda _, x: x[turn], [slot])

    def _stacked(self, rows: list[int], like: Any) -> int:
        if rows:
            return self._call("concatenate", lambda numpy, *xs: numpy.stack(xs), rows)
        return self._slot(jax.numpy.zeros((0, *like.shape), like.dtype), structural=True)

    def _call(self, name: str, function: Callable[..., Any], args: Sequence[int]) -> int:
        """Record an operation of a loop that only moves numbers, as `function` does with the arrays
        of a module. It runs in NumPy, because JAX would compile one for each turn; JAX
        differentiates it."""

        def wide(operands: Sequence[Array]) -> list[Array]:
            return [np.asarray(function(np, *map(np.asarray, operands)))]

        def live(operands: Sequence[Any]) -> list[Any]:
            return [function(jax.numpy, *operands)]

        def low(operands: Sequence[Any]) -> list[Any]:
            with jax.enable_x64(True):  # the user's run in float64 may be over
                return [jax.device_put(y) for y in wide(operands)]

        step = Step(name, tuple(args), (), low, wide, partial(on_places, wide), True, live=live)
        return self._add(step)[0]

    def _solution(
        self, equation: Any, args: Sequence[int], node: int | None, backward: bool
    ) -> list[int]:
        """Record the solution of equations by LU factors, which hold for this matrix alone, as one
        operation on the matrix and the right sides."""
        name, kernel = equation.primitive.name, partial(solved, **equation.params)
        like, wide = self._value(args[-1]).dtype, partial(_in_numpy, kernel)

        def low(operands: Sequence[Any]) -> list[Any]:
            with jax.enable_x64(True):
                return [jax.device_put(y.astype(like)) for y in wide(operands)]

        phase: Phase = "backward" if backward else "forward"
        exact = partial(on_balls, kernel)
        ends = args[0], args[-1]
        return self._add(Step(name, ends, (), low, wide, exact, False, node, phase))

    def _function(
        self,
        name: str,
        kernel: Callable[..., Any],
        equation: Any,
        args: Sequence[int],
        node: int | None,
        backward: bool,
    ) -> list[int]:
        """Record one of JAX's functions of one array, whose constants come first."""
        program = core.jaxpr_as_fun(equation.params["call_jaxpr"])

        def low(operands: Sequence[Any]) -> list[Any]:
            if self._in_numpy:
                return _rounded(equation, wide(list(map(_numbers, operands))))
            with jax.enable_x64(True):
                return list(program(*map(self._value, args[:-1]), *operands))

        phase: Phase = "backward" if backward else "forward"
        exact, wide = partial(on_balls, kernel), partial(_in_numpy, kernel)
        return self._add(Step(name, (args[-1],), (), low, wide, exact, False, node, phase))

    def _primitive(
        self, equation: Any, args: Sequence[int], node: int | None, backward: bool
    ) -> list[int]:
        name, params = equation.primitive.name, equation.params
        runs_alone = is_foreign(equation.primitive) or name in AS_THEY_WERE
        low = partial(_results, equation.primitive, params)
        if self._in_numpy and not runs_alone:
            low = partial(_in_numpy_or_unoptimised, equation)
        if not args:  # a constant
            return [self._slot(y, structural=True) for y in low([])]
        made = all(self.execution.slots[i].structural for i in args)
        wide = partial(_plainly if name in AS_THEY_WERE else _wide, equation)
        results: list[int] = []

        def chosen(*given: Any, **params: Any) -> Any:
            run = OfRun(*[[self.execution.values(i) for i in slots] for slots in (args, results)])
            made = CHOSEN[name](run, *given, **params)
            made = made if isinstance(made, tuple) else (made,)
            return tuple(own if y is None else y for y, own in zip(made, run.results, strict=True))

        keys = {place: slot for place, slot in enumerate(args) if self._is_key(slot)}
        if keys:
            wide = partial(self._with_keys, wide, keys)
        moves = name in DATA_MOVEMENT
        kernel = KERNELS.get(name)
        pairs = [place for place, x in enumerate(equation.invars) if _is_complex(x)]
        if pairs or any(map(_is_complex, equation.outvars)):
            kernel = of_pairs(name)
            kernel = None if kernel is None else on_parts(kernel, pairs)
        exact: Callable[[Sequence[High]], list[High]] | None = None
        if moves:
            exact = partial(on_places, wide)
        elif name in CHOSEN and not pairs:
            exact = partial(on_balls, partial(chosen, **params))
        elif kernel is not None:
            exact = partial(on_balls, partial(kernel, **params))
        moves = moves or name in EXACT_SELECTIONS
        phase: Phase = "backward" if backward else "forward"
        results += self._add(Step(name, tuple(args), (), low, wide, exact, moves, node, phase))
        for slot in results:
            self.execution.slots[slot].structural = made and moves
        return results

    def _with_keys(
        self, wide: Callable[..., list[Array]], keys: Mapping[int, int], args: Sequence[Array]
    ) -> list[Array]:
        """The results of `wide` with the keys of the run, which have these slots, in their
        places."""
        return wide([self._value(keys[i]) if i in keys else x for i, x in enumerate(args)])

    def _add(self, step: Step) -> list[int]:
        """Run a step, and assign slots to its results."""
        results = [self._slot(y) for y in step.low([self._value(i) for i in step.args])]
        step.results = tuple(results)
        step.kept = bool(self._kept) and all(self._kept)
        step.alone = step.kept and self._alone and step.name in _ALONE
        step.elementwise = step.name in POINTWISE or elementwise(ROWS.get(step.name))
        self.execution.add_step(step)
        return results

    def _attribute_sums(self) -> None:
        """Assign a sum of cotangents from several nodes to the node whose result the cotangents
        belong to. The backward pass of that node takes the sum."""
        makers: dict[int, int | None] = {}
        mixed: list[Step] = []
        for step in self.execution.steps:
            nodes = {makers[slot] for slot in step.args if slot in makers}
            if step.name == _SUMS and step.phase == "backward" and len(nodes) > 1:
                mixed.append(step)
            makers.update(dict.fromkeys(step.results, step.node))
        takers: dict[int, int | None] = {}
        for step in reversed(self.execution.steps):
            if mixed and step is mixed[-1]:
                mixed.pop()
                step.node = takers.get(step.results[0])
            takers.update(dict.fromkeys(step.args, step.node))


def traced(
    function: Callable[..., list[Any]], arrays: Sequence[Any], whole: bool = True
) -> tuple[Any, list[bool]]:
    """The jaxpr of a function that returns arrays, and which of its results are not None. `whole`:
    calls that JAX compiles stay calls."""
    is_present: list[bool] = []
    calls: AbstractContextManager[list[Any]] = whole_calls() if whole else nullcontext([])
    with calls as outermost:

        def results(*xs: Any) -> list[Any]:
            outermost.append(xs[0]._trace)
            outputs = function(*xs)
            is_present[:] = [y is not None for y in outputs]
            return [y for y in outputs if y is not None]

        return jax.make_jaxpr(results)(*arrays), is_present


def _function_of(equation: Any) -> tuple[str, Callable[..., Any]] | None:
    """The name and the kernel of the function of JAX that an equation calls, if there are both."""
    if equation.primitive.name != "custom_jvp_call" or _is_complex(equation.invars[-1]):
        return None
    program = equation.params["call_jaxpr"].jaxpr
    about = program.debug_info
    name = about.func_name.removeprefix("_")
    source = str(about.func_src_info).rpartition(" at ")[2]
    if name not in FUNCTIONS or not source.startswith(JAX_FOLDER):
        return None
    if name != "expn":
        return name, FUNCTIONS[name]
    order = program.eqns[0].invars[0]
    known = isinstance(order, core.Literal) and np.ndim(order.val) == 0
    return (name, partial(FUNCTIONS[name], n=int(order.val))) if known else None


def _in_numpy(kernel: Callable[..., Any], operands: Sequence[Array]) -> list[Array]:
    found = kernel(*map(np.asarray, operands))
    return [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]


def _live(jaxpr: Any) -> list[Any]:
    """The equations that the results depend on, in order."""
    wanted = {x for x in jaxpr.outvars if not isinstance(x, core.Literal)}
    used: list[Any] = []
    for equation in reversed(jaxpr.eqns):
        if not wanted.isdisjoint(equation.outvars):
            wanted.update(x for x in equation.invars if not isinstance(x, core.Literal))
            used.append(equation)
    return used[::-1]


def _stored(jaxpr: Any, live: Sequence[Any], results: Sequence[bool]) -> set[Any]:
    """Which variables are the numbers of these results, and nothing else within the jaxpr takes."""
    pairs = zip(jaxpr.outvars, results, strict=False)
    found = {x for x, is_stored in pairs if is_stored and not isinstance(x, core.Literal)}
    return found.difference(
        x for equation in live for x in equation.invars if not isinstance(x, core.Literal)
    )


def _in_numpy_or_unoptimised(equation: Any, args: Sequence[Any]) -> list[Any]:
    """The results by NumPy in float64, rounded to the dtypes of the run. If NumPy does not have the
    operation, JAX compiles it without optimising."""
    found = None if any(map(_is_key, args)) else _by_kernel(equation, list(map(_numbers, args)))
    if found is not None:
        return _rounded(equation, found)
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
    return _results(equation.primitive, equation.params, arrays, unoptimised=True)


def _rounded(equation: Any, numbers: Sequence[Array]) -> list[Array]:
    return [y.astype(x.aval.dtype) for x, y in zip(equation.outvars, numbers, strict=True)]


def _by_kernel(equation: Any, operands: Sequence[Array]) -> list[Array] | None:
    """The results by NumPy, which compiles nothing. None if it does not have the operation for
    these operands."""
    name = equation.primitive.name
    kernel = KERNELS.get(name, MOVED.get(name))
    if kernel is None or any(map(_is_complex, (*equation.invars, *equation.outvars))):
        return None
    try:
        return _in_numpy(partial(kernel, **equation.params), operands)
    except TypeError:  # the kernel does not support these arguments
        return None


def _results(
    primitive: Any, params: Mapping[str, Any], args: Sequence[Any], unoptimised: bool = False
) -> list[Any]:
    with jax.enable_x64(True):  # the user's run in float64 is over by now
        call = _call(primitive, params)
        if unoptimised:
            call = Compiled(call, primitive.bind, UNOPTIMISED)
        found = call(*args)
    return list(found) if primitive.multiple_results else [found]


def _call(primitive: Any, params: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that runs the primitive. A primitive that is a loop in Python, such as a gamma
    sampler, would be traced and compiled at each call, so it is compiled once for each shape and
    dtype."""
    settings = tuple(params.items())
    if all(isinstance(value, bool | int | float | str) for _, value in settings):
        inner = getattr(primitive.impl, "func", primitive.impl)  # of a partial
        if inner.__name__ != "apply_primitive":
            return _compiled(primitive, settings)
    return partial(primitive.bind, **params)


@lru_cache(maxsize=64)
def _compiled(primitive: Any, params: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    return jax.jit(partial(primitive.bind, **dict(params)))


def _is_key(array: Any) -> bool:
    """Whether the array holds keys of random numbers, which NumPy cannot represent."""
    return bool(jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key))


def _chosen(numpy: Any, going: Any, after: Any, before: Any) -> Any:
    """The state after a turn of a loop for entries that continue, and the state before it for the
    others."""
    going = going.reshape(going.shape + (1,) * (after.ndim - going.ndim))
    return numpy.where(going, after, before)


def _plainly(equation: Any, args: Sequence[Array]) -> list[Array]:
    """The results in the dtypes of the run."""
    given = list(map(np.asarray, _with_complex(equation, args)))
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(x) for x in as_they_were(equation, given)]
    return list(map(_numbers, _results(equation.primitive, equation.params, arrays)))


def _wide(equation: Any, args: Sequence[Array]) -> list[Array]:
    """The results in float64, by NumPy if it has the operation. A primitive of another package that
    only works in its own dtypes runs in these."""
    primitive = equation.primitive
    operands = _with_complex(equation, args)
    found = _by_kernel(equation, operands)
    if found is not None:
        return found
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(x) for x in operands]
    wider = wide_parameters(primitive.name, equation.params)
    try:
        return list(map(_numbers, _results(primitive, wider, arrays)))
    except (TypeError, ValueError):
        return _plainly(equation, args)


def _with_complex(equation: Any, args: Sequence[Array]) -> list[Array]:
    """The arguments, with complex numbers in place of pairs."""
    return [
        joined(np.asarray(x)) if _is_complex(atom) else x
        for atom, x in zip(equation.invars, args, strict=True)
    ]


def _is_complex(atom: Any) -> bool:
    return getattr(getattr(atom.aval, "dtype", None), "kind", "") == "c"
