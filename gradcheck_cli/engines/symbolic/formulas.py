"""Converts a program to formulas: one expression for each entry, in symbols for the entries of its
inputs."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.keywords import KEYWORDS
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, Node, Program
from gradcheck_cli.engines.errors import NodeFault, Unsupported
from gradcheck_cli.engines.kit.lowerings import Missing
from gradcheck_cli.engines.symbolic.arrays import entrywise
from gradcheck_cli.engines.symbolic.custom_gradients import custom_value
from reference_engine.op import TABLE as ROWS

LARGEST = 256  # entries of an array: nobody reads more formulas, and SymPy takes minutes

_AGAIN_S = 0.2  # the alarm repeats, because code may catch its first exception

Calls = Mapping[str, Any]
Number = Callable[[bool | int | float], Any]


class OutOfTime(BaseException):
    """Raised when SymPy's time is over. It is not an Exception, because SymPy catches many of
    those."""


def exact(value: bool | int | float) -> Any:
    """The number itself. A float becomes a fraction whose denominator is a power of two."""
    import sympy

    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    if isinstance(value, int):
        return sympy.Integer(value)
    if math.isinf(value):
        return sympy.oo if value > 0 else -sympy.oo
    return sympy.nan if math.isnan(value) else sympy.Rational(value)


def decimal(value: bool | int | float) -> Any:
    """The number as it is written: 0.1 becomes 1/10."""
    import sympy

    usual = isinstance(value, float) and math.isfinite(value)
    return sympy.Rational(repr(value)) if usual else exact(value)


def symbols(name: str, shape: tuple[int, ...]) -> Array:
    """A real symbol for each entry, named `x` or `x[0, 1]`."""
    import sympy

    made = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        place = f"[{', '.join(map(str, index))}]" if index else ""
        made[index] = sympy.Symbol(f"{name}{place}", real=True)
    return made


def apply(calls: Calls, node: Node, args: Sequence[Array], number: Number) -> Array:
    """The value of one operation. Raises Unsupported, which names the operation."""
    size = math.prod(node.shape)
    if size > LARGEST:
        raise Unsupported(f"`{node.op}` returns {size} entries; formulas are for up to {LARGEST}")
    if node.op == CUSTOM:
        assert node.custom is not None
        return custom_value(
            node.custom, args, lambda part, fixed: _of_rule(calls, part, fixed, number)
        )
    call = calls.get(node.op)
    if call is None:
        raise Unsupported(f"it has no formula for `{node.op}`")
    if isinstance(call, Missing):
        raise Unsupported(f"it has no formula for `{node.op}`: {call.reason}")
    keywords = {k: _keyword(k, value, number) for k, value in node.keywords.items()}
    if ROWS[node.op].elementwise:
        return _expressions(entrywise(lambda *xs: call(*xs, **keywords), *args))
    given = [
        _as_integers(a, node) if w == "int" else a for a, w in zip(args, node.wants, strict=True)
    ]
    return _expressions(call(*given, **keywords))


def _of_rule(calls: Calls, program: Program, fixed: Values, number: Number) -> list[Array]:
    """The expressions of a custom rule, whose nodes do not belong to the program."""
    try:
        return walk(calls, program, fixed, number)
    except NodeFault as fault:
        raise (fault.__cause__ or fault) from None


def _keyword(name: str, value: Any, number: Number) -> Any:
    if name == "dtype":
        return object
    taking_part = KEYWORDS.get(name) == "number" and value is not None
    return number(value) if taking_part else value


def _as_integers(array: Array, node: Node) -> Array:
    """Indices as integers. Raises Unsupported if they depend on the inputs."""
    if not all(getattr(one, "is_Integer", False) for one in array.flat):
        raise Unsupported(f"`{node.op}` takes indices that depend on the inputs")
    return np.asarray(entrywise(int, array), dtype=np.int64)


def _expressions(result: Any) -> Array:
    import sympy

    def one(value: Any) -> Any:
        return value if isinstance(value, sympy.Basic) else exact(np.asarray(value).item())

    return np.asarray(entrywise(one, result), dtype=object)


def cast(array: Array, kind: str, wanted: str) -> Array:
    """Convert booleans to numbers and numbers to booleans. Integers are numbers already."""
    import sympy

    if kind == "bool" and wanted != "bool":
        array = entrywise(lambda c: sympy.Piecewise((1, c), (0, True)), array)
    elif kind != "bool" and wanted == "bool":
        array = entrywise(lambda x: sympy.Ne(x, 0), array)
    return array


def walk(calls: Calls, program: Program, fixed: Values, number: Number) -> list[Array]:
    """The expressions of every node. Inputs in `fixed` are numbers, the others symbols.

    Raises NodeFault, from Unsupported if an operation has no formula.
    """
    values: list[Array] = []
    for index in range(len(program.nodes)):
        try:
            values.append(_value(calls, program, index, values, fixed, number))
        except Exception as error:
            raise NodeFault(index) from error
    return values


def _value(
    calls: Calls,
    program: Program,
    index: int,
    values: Sequence[Array],
    fixed: Values,
    number: Number,
) -> Array:
    node = program.nodes[index]
    if node.op == CONSTANT:
        assert node.value is not None
        constant = np.empty((), dtype=object)
        constant[()] = number(node.value)
        return constant
    if node.op == INPUT:
        assert node.name is not None
        if node.name in fixed:
            return _expressions(fixed[node.name])
        if math.prod(node.shape) > LARGEST:
            size = math.prod(node.shape)
            raise Unsupported(f"`{node.name}` has {size} entries; formulas are for up to {LARGEST}")
        return symbols(node.name, node.shape)
    return apply(calls, node, arguments(program, node, values), number)


def arguments(program: Program, node: Node, values: Sequence[Array]) -> list[Array]:
    """The arguments of a node, in the kinds that it takes."""
    return [
        cast(values[i], program.nodes[i].kind, wanted)
        for i, wanted in zip(node.args, node.wants, strict=True)
    ]


def derivative(expression: Any, symbol: Any) -> Any:
    """d expression / d symbol. Zero, without asking SymPy, if the symbol does not occur."""
    import sympy

    if symbol not in expression.free_symbols:
        return sympy.Integer(0)
    return sympy.diff(expression, symbol)


def unknown(expressions: Iterable[Any]) -> str:
    """A function in the expressions whose derivative SymPy did not evaluate; empty if there is
    none."""
    import sympy

    for expression in expressions:
        for left in expression.atoms(sympy.Derivative, sympy.Subs):
            return str(left.expr)
    return ""


def simplified(expressions: Sequence[Any], seconds: float) -> tuple[list[Any], int]:
    """The simplest form of each expression, including the one given, and the number of expressions
    for which no time was left."""
    end = time.monotonic() + seconds
    simpler: list[Any] = []
    left = 0
    for expression in expressions:
        try:
            with time_limit(end - time.monotonic()):
                simpler.append(_simplest(expression))
                continue
        except OutOfTime:
            left += 1
        except Exception:  # SymPy cannot simplify it: the expression is right as given
            pass
        simpler.append(expression)
    return simpler, left


def _simplest(expression: Any) -> Any:
    """The shortest form that uses the functions of the expression: 1 / (4*cosh(x/2)**2) is shorter
    than the usual form of the sigmoid's derivative, but an author who wrote exp(x) does not expect
    a cosh."""
    import sympy

    known = _words(expression)

    def strange(form: Any) -> int:
        return len(_words(form) - known)

    def measure(form: Any) -> int:
        return int(sympy.count_ops(form)) * (1 + strange(form))

    forms = [  # if several are equally good, the first
        sympy.powsimp(expression),
        expression,
        sympy.simplify(expression, measure=measure),
        sympy.factor_terms(sympy.together(expression)),
    ]
    return min(forms, key=lambda f: (strange(f), sympy.count_ops(f), f.could_extract_minus_sign()))


def _words(expression: Any) -> set[Any]:
    """The functions of the expression, with sine, cosine and tangent as one, and its irrational
    numbers."""
    import sympy
    from sympy.functions.elementary.trigonometric import TrigonometricFunction as Circular

    functions = expression.atoms(sympy.Function)
    found = {Circular if isinstance(f, Circular) else f.func for f in functions}
    roots = {power for power in expression.atoms(sympy.Pow) if power.is_number}
    return {*found, *expression.atoms(sympy.NumberSymbol), *roots}


def can_limit() -> bool:
    """Whether an alarm can be set, which is impossible in a thread and on Windows."""
    main = threading.current_thread() is threading.main_thread()
    return main and hasattr(signal, "setitimer")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime inside the block after this time. If no alarm can be set, raise it at once:
    no simplification is better than one that never ends."""
    if seconds <= 0 or not can_limit():
        raise OutOfTime

    def ring(number: int, frame: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
