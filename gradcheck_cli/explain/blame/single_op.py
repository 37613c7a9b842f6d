"""One call of a program as a program of its own, at given numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import INPUT, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.truth.plain import elementwise


@dataclass(frozen=True, slots=True)
class SingleOp:
    """A `program` of one call whose arguments are the inputs a0, a1, ...; `wrt` are the
    floating-point ones."""

    program: Program
    values: Mapping[str, Array]
    wrt: tuple[str, ...]


def single_op(node: Node, args: Sequence[Array]) -> SingleOp:
    """The call `node` with these arrays as its arguments."""
    names = [f"a{k}" for k in range(len(args))]
    inputs = [
        Node(
            op=INPUT, args=(), keywords={}, span=node.span, text=name, name=name, shape=np.shape(a)
        )
        for name, a in zip(names, args, strict=True)
    ]
    shape = np.broadcast_shapes(*map(np.shape, args)) if elementwise(node.op) else node.shape
    call = replace(node, args=tuple(range(len(args))), name=None, shape=shape)
    values = {
        n: np.asarray(a, dtype=np.float64) if np.asarray(a).dtype.kind == "f" else np.asarray(a)
        for n, a in zip(names, args, strict=True)
    }
    wrt = tuple(n for n in names if values[n].dtype.kind == "f")
    program = Program(
        (*inputs, call), {n: k for k, n in enumerate(names)}, (len(names),), node.text
    )
    return SingleOp(program, values, wrt)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The value and slopes of a row at given numbers, exactly or nearly so. The slope along an
    argument without a derivative is 0; nan means that there is no value, inf that it is beyond
    float64."""

    value: float
    slopes: tuple[float, ...]

    @property
    def singular(self) -> bool:
        """Whether the row has no finite value or derivative, in any precision."""
        return bool(np.any(np.isnan([self.value, *self.slopes])))

    def condition(self, numbers: Sequence[float]) -> float:
        """By how much the row magnifies a relative error of its arguments: sum |x f'(x) / f(x)|.

        Higham, Accuracy and Stability of Numerical Algorithms, section 1.6.
        """
        moved = np.abs(np.asarray(self.slopes) * np.asarray(numbers))
        return float(np.sum(moved) / abs(self.value))


_BITS = 256  # keeps 1e-76 next to 1; cheap for scalars


def behaviour(op: str, keywords: Mapping[str, Any], numbers: Sequence[float]) -> Behaviour | None:
    """The behaviour of an elementwise row at scalar arguments, in balls, or in float64 if it has no
    enclosure; None for any other operation."""
    from reference_engine.op import TABLE

    row = TABLE.get(op)
    if row is None or not row.elementwise or not np.all(np.isfinite(numbers)):
        return None
    if row.arity not in (len(numbers), -1):
        return None
    whole = [
        np.asarray(int(x) if row.kinds.get(i) == "int" else bool(x)) if i in row.kinds else None
        for i, x in enumerate(numbers)
    ]
    moving = [i for i, one in enumerate(whole) if one is None]
    if not moving:
        return None

    def call(*xs: Any) -> Any:
        args: list[Any] = list(whole)
        for i, x in zip(moving, xs, strict=True):
            args[i] = x
        return row(*args, **keywords)

    xs = [np.asarray(float(numbers[i])) for i in moving]
    value, found = _in_balls(call, xs) or _in_floats(call, xs)
    slopes = dict(zip(moving, found, strict=True))
    return Behaviour(value, tuple(slopes.get(i, 0.0) for i in range(len(numbers))))


def _in_balls(call: Callable[..., Any], xs: Sequence[Array]) -> tuple[float, list[float]] | None:
    from reference_engine.arithmetic.arbs import NotInBalls, Undecided, precision
    from reference_engine.enclosing import ball_vjp

    try:
        with precision(_BITS):
            y, pull = ball_vjp(call, xs)
            found = [np.ravel(x_bar)[0] for x_bar in pull(np.ones(()))]
            numbers = [np.ravel(y)[0], *found]
    except (NotInBalls, Undecided):
        return None
    value, *slopes = (float(one.mid()) if one.is_finite() else np.nan for one in numbers)
    return value, slopes


def _in_floats(call: Callable[..., Any], xs: Sequence[Array]) -> tuple[float, list[float]]:
    from reference_engine import vjp

    y, pull = vjp(call, *xs)
    found = [float(np.asarray(x_bar)) for x_bar in pull(np.ones(()))]
    value, *slopes = (x if np.isfinite(x) else np.nan for x in [float(np.asarray(y)), *found])
    return value, slopes
