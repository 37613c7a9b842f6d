"""A program as formulas: one expression an entry, of symbols for the entries of its inputs."""

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
from gradcheck_cli.engines.symbolic.arrays import each
from gradcheck_cli.engines.symbolic.stated import stated
from reference_engine.op import TABLE as ROWS

LARGEST = 256  # entries of an array: more formulas than that nobody reads, and SymPy takes minutes

_AGAIN_S = 0.2  # the alarm rings again where somebody caught its first exception

Calls = Mapping[str, Any]
Number = Callable[[bool | int | float], Any]


class OutOfTime(BaseException):
    """The time that SymPy was given is over. (SymPy survives many an Exception of its own.)"""


def exact(value: bool | int | float) -> Any:
    """The number itself: a float is a fraction with a power of two below."""
    import sympy

    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    if isinstance(value, int):
        return sympy.Integer(value)
    if math.isinf(value):
        return sympy.oo if value > 0 else -sympy.oo
    return sympy.nan if math.isnan(value) else sympy.Rational(value)


def decimal(value: bool | int | float) -> Any:
    """The number as it is written: 0.1 is a tenth."""
    import sympy

    usual = isinstance(value, float) and math.isfinite(value)
    return sympy.Rational(repr(value)) if usual else exact(value)


def symbols(name: str, shape: tuple[int, ...]) -> Array:
    """One real symbol an entry, called `x` or `x[0, 1]`."""
    import sympy

    made = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        place = f"[{', '.join(map(str, index))}]" if index else ""
        made[index] = sympy.Symbol(f"{name}{place}", real=True)
    return made


def apply(calls: Calls, node: Node, args: Sequence[Array], number: Number) -> Array:
    """The value of one operation. Raises Unsupported, naming it."""
    size = math.prod(node.shape)
    if size > LARGEST:
        raise Unsupported(f"`{node.op}` returns {size} entries; formulas are for up to {LARGEST}")
    if node.op == CUSTOM:
        assert node.custom is not None
        return stated(node.custom, args, lambda part, fixed: _of_rule(calls, part, fixed, number))
    call = calls.get(node.op)
    if call is None:
        raise Unsupported(f"it has no formula for `{node.op}`")
    if isinstance(call, Missing):
        raise Unsupported(f"it has no formula for `{node.op}`: {call.reason}")
    keywords = {k: _keyword(k, value, number) for k, value in node.keywords.items()}
    if ROWS[node.op].elementwise:
        return _expressions(each(lambda *xs: call(*xs, **keywords), *args))
    given = [_whole(a, node) if w == "int" else a for a, w in zip(args, node.wants, strict=True)]
    return _expressions(call(*given, **keywords))


def _of_rule(calls: Calls, program: Program, fixed: Values, number: Number) -> list[Array]:
    """The expressions of a stated rule, whose nodes are no nodes of the program."""
    try:
        return walk(calls, program, fixed, number)
    except NodeFault as fault:
        raise (fault.__cause__ or fault) from None


def _keyword(name: str, value: Any, number: Number) -> Any:
    if name == "dtype":
        return object
    taking_part = KEYWORDS.get(name) == "number" and value is not None
    return number(value) if taking_part else value


def _whole(array: Array, node: Node) -> Array:
    """Indices, which no formula can depend on."""
    if not all(getattr(one, "is_Integer", False) for one in array.flat):
        raise Unsupported(f"`{node.op}` takes indices that depend on the inputs")
    return np.asarray(each(int, array), dtype=np.int64)


def _expressions(result: Any) -> Array:
    import sympy

    def one(value: Any) -> Any:
        return value if isinstance(value, sympy.Basic) else exact(np.asarray(value).item())

    return np.asarray(each(one, result), dtype=object)


def cast(array: Array, kind: str, wanted: str) -> Array:
    """Booleans as numbers and numbers as booleans; whole numbers are numbers already."""
    import sympy

    if kind == "bool" and wanted != "bool":
        array = each(lambda c: sympy.Piecewise((1, c), (0, True)), array)
    elif kind != "bool" and wanted == "bool":
        array = each(lambda x: sympy.Ne(x, 0), array)
    return array


def walk(calls: Calls, program: Program, fixed: Values, number: Number) -> list[Array]:
    """The expressions of every node. Inputs that are `fixed` are numbers, the others symbols.

    Raises NodeFault, from Unsupported where an operation cannot be expressed.
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
    """The arguments of a node, in the kinds that it wants."""
    return [
        cast(values[i], program.nodes[i].kind, wanted)
        for i, wanted in zip(node.args, node.wants, strict=True)
    ]


def derivative(expression: Any, symbol: Any) -> Any:
    """d expression / d symbol; zero without asking where the symbol does not occur."""
    import sympy

    if symbol not in expression.free_symbols:
        return sympy.Integer(0)
    return sympy.diff(expression, symbol)


def unknown(expressions: Iterable[Any]) -> str:
    """A function whose derivative SymPy leaves standing in one of them; empty where it has all."""
    import sympy

    for expression in expressions:
        for left in expression.atoms(sympy.Derivative, sympy.Subs):
            return str(left.expr)
    return ""


def simplified(expressions: Sequence[Any], seconds: float) -> tuple[list[Any], int]:
    """The simplest of each expression and what SymPy makes of it, and how many had no time left."""
    end = time.monotonic() + seconds
    found: list[Any] = []
    left = 0
    for expression in expressions:
        try:
            with time_limit(end - time.monotonic()):
                found.append(_simplest(expression))
                continue
        except OutOfTime:
            left += 1
        except Exception:  # of SymPy's own: what it cannot simplify is right as it is
            pass
        found.append(expression)
    return found, left


def _simplest(expression: Any) -> Any:
    """The shortest form in the expression's own words: 1 / (4*cosh(x/2)**2) is shorter than what
    the sigmoid's derivative is as a rule, but nobody who wrote exp(x) looks for a cosh there."""
    import sympy

    known = _words(expression)

    def strange(form: Any) -> int:
        return len(_words(form) - known)

    def measure(form: Any) -> int:
        return int(sympy.count_ops(form)) * (1 + strange(form))

    forms = [  # of those that are equally good, the first
        sympy.powsimp(expression),
        expression,
        sympy.simplify(expression, measure=measure),
        sympy.factor_terms(sympy.together(expression)),
    ]
    return min(forms, key=lambda f: (strange(f), sympy.count_ops(f), f.could_extract_minus_sign()))


def _words(expression: Any) -> set[Any]:
    """Its functions, sine and cosine and tangent as one, and its irrational numbers."""
    import sympy
    from sympy.functions.elementary.trigonometric import TrigonometricFunction as Circular

    functions = expression.atoms(sympy.Function)
    found = {Circular if isinstance(f, Circular) else f.func for f in functions}
    roots = {power for power in expression.atoms(sympy.Pow) if power.is_number}
    return {*found, *expression.atoms(sympy.NumberSymbol), *roots}


def can_limit() -> bool:
    """Whether an alarm can be set: not in a thread, and not on Windows."""
    main = threading.current_thread() is threading.main_thread()
    return main and hasattr(signal, "setitimer")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises OutOfTime inside the context when its time is over. Where no alarm can be set, there
    is no time at all: better no simplification than one that never ends."""
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
