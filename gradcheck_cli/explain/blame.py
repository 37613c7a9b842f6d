"""Which operation of the formula made the first bad number, going forward or going back.

Works on traces: what every node of the program had, in the judged dtype and in the wider one.
Going forward, the producer is the first node with a bad value whose arguments are all good; going
back, the node with a good cotangent whose argument's cotangent is bad. Everything after it only
passes it on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import Trace
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.domain.report import Cause
from gradcheck_cli.explain.values import application, element, first_index, number

Bad = Callable[[Array, Array | None], Array]

# Digits are called lost in an operation when its result has lost more than a quarter of them (the
# same measure that makes a precision loss worth a warning) although its arguments have not.
LOST_BITS = 0.25


@dataclass(frozen=True, slots=True)
class Traces:
    """`narrow` in the judged dtype, `wide` in float64 (None where the dtype is float64 itself)."""

    program: Program
    fmt: FloatFormat
    narrow: Trace
    wide: Trace | None
    forward_mode: bool


def not_finite(narrow: Array, wide: Array | None) -> Array:
    """Elements that are nan or infinite."""
    return np.asarray(~np.isfinite(narrow))


def vanished(narrow: Array, wide: Array | None) -> Array:
    """Elements that are zero, but not in the wider precision."""
    if wide is None or np.shape(wide) != np.shape(narrow):
        return np.zeros(np.shape(narrow), dtype=bool)
    return np.asarray((np.asarray(narrow) == 0) & (np.asarray(wide) != 0))


def lossy(fmt: FloatFormat) -> Bad:
    """Elements that lost more than LOST_BITS of their digits against the wider precision."""

    def bad(narrow: Array, wide: Array | None) -> Array:
        if wide is None or np.shape(wide) != np.shape(narrow):
            return np.zeros(np.shape(narrow), dtype=bool)
        with np.errstate(all="ignore"):
            ulps = np.abs(np.asarray(narrow) - wide) / fmt.ulp(wide)
        return np.asarray(~(ulps <= 2.0 ** (LOST_BITS * fmt.bits)))

    return bad


@dataclass(frozen=True, slots=True)
class _Blamed:
    """A cause, the node that it speaks of, and whether the exact number would not fit either."""

    cause: Cause
    node: int
    overflows: bool = False


def blame(traces: Traces, bad: Bad, *, backward_first: bool = False) -> Cause | None:
    """The operation that made the first number that is `bad`, or None where the traces show
    none."""
    phases = [_forward, _tangent if traces.forward_mode else _backward]
    for phase in reversed(phases) if backward_first else phases:
        blamed = phase(traces, bad)
        if blamed is not None:
            earlier = _vanished_before(traces, blamed)
            return (earlier or blamed).cause
    return None


def _vanished_before(traces: Traces, blamed: _Blamed) -> _Blamed | None:
    """The operation that underflowed to a zero at which the blamed derivative is taken; not where
    the right derivative does not fit the dtype anyway."""
    args = traces.program.nodes[blamed.node].args
    if blamed.overflows or not any(np.any(_is_bad(traces, vanished, i, False)) for i in args):
        return None
    return _forward(traces, vanished)


def _is_bad(traces: Traces, bad: Bad, index: int, derivative: bool) -> Array:
    narrow = (traces.narrow.derivatives if derivative else traces.narrow.values).get(index)
    if narrow is None:
        return np.zeros((), dtype=bool)
    wide = None
    if traces.wide is not None:
        wide = (traces.wide.derivatives if derivative else traces.wide.values).get(index)
    return bad(np.asarray(narrow, dtype=np.float64), wide)


def _forward(traces: Traces, bad: Bad) -> _Blamed | None:
    for index, node in enumerate(traces.program.nodes):
        if node.op in (INPUT, CONSTANT) or index not in traces.narrow.values:
            continue
        mask = _is_bad(traces, bad, index, derivative=False)
        if np.any(mask) and not any(np.any(_is_bad(traces, bad, i, False)) for i in node.args):
            return _Blamed(_forward_cause(traces, index, first_index(mask)), index)
    return None


def _forward_cause(traces: Traces, index: int, at: tuple[int, ...]) -> Cause:
    node = traces.program.nodes[index]
    values = traces.narrow.values
    args = [values[i] for i in node.args]
    shown = application(node, args, at)
    result = float(np.asarray(values[index])[at])
    story = [f"{shown} = {number(result)}"]
    story += _downstream(traces, index, at)
    detail = _forward_detail(traces, index, at, shown, result)
    back = _backward_story(traces)
    return Cause(
        op=node.op,
        phase="forward",
        span=node.span,
        text=node.text,
        detail=detail,
        story="forward: " + ", ".join(story) + (f"; backward: {back}" if back else ""),
    )


def _forward_detail(
    traces: Traces, index: int, at: tuple[int, ...], shown: str, result: float
) -> str:
    fmt = traces.fmt
    exact = _wide_value(traces, index, at)
    if exact is None:
        return f"{shown} = {number(result)}"
    if np.isinf(result) and np.isfinite(exact) and abs(exact) > fmt.largest:
        return f"overflows {fmt.name}: {shown} = {exact:.3g} > {fmt.largest:.3g}"
    if result == 0 and 0 < abs(exact) < fmt.smallest_normal:
        return f"underflows {fmt.name}: {shown} = {exact:.3g} < {fmt.smallest_normal:.3g}"
    if result == 0 and exact != 0 and np.isfinite(exact):
        return f"becomes zero in {fmt.name}: {shown} = 0, exactly {exact:.3g}"
    if np.isfinite(result) and np.isfinite(exact):
        return f"loses digits in {fmt.name}: {shown} = {result:.9g}, exactly {exact:.9g}"
    return f"{shown} = {number(result)}"


def _wide_value(traces: Traces, index: int, at: tuple[int, ...]) -> float | None:
    if traces.wide is None or index not in traces.wide.values:
        return None
    return float(np.asarray(traces.wide.values[index])[at])


def _downstream(traces: Traces, index: int, at: tuple[int, ...]) -> list[str]:
    """What the next operation made of it, if it takes the same element."""
    for later in range(index + 1, len(traces.program.nodes)):
        node = traces.program.nodes[later]
        if index in node.args and later in traces.narrow.values:
            value = np.asarray(traces.narrow.values[later])
            if value.shape != np.shape(traces.narrow.values[index]):
                return []
            args = [traces.narrow.values[i] for i in node.args]
            return [f"{application(node, args, at)} = {number(float(value[at]))}"]
    return []


def _backward_story(traces: Traces) -> str:
    """The step back that made the first nan or infinity, in numbers."""
    if traces.forward_mode:
        return ""
    found = _backward_place(traces, not_finite)
    if found is None:
        return ""
    index, arg, at = found
    return _step_back(traces, index, arg, at)


def _step_back(traces: Traces, index: int, arg: int, at: tuple[int, ...]) -> str:
    node = traces.program.nodes[index]
    y_bar = element(node, traces.narrow.derivatives[index], at)
    x_bar = float(np.asarray(traces.narrow.derivatives[arg])[at])
    value = element(node, traces.narrow.values[index], at)
    if y_bar is None or value is None:
        return f"the derivative of {node.op} gives {number(x_bar)}"
    if y_bar == 0 and np.isnan(x_bar):
        return f"{number(y_bar)} * {number(value) if np.isinf(value) else 'inf'} = nan"
    args = [traces.narrow.values[i] for i in node.args]
    return (
        f"the derivative of {application(node, args, at)}, upstream {number(y_bar)}, "
        f"gives {number(x_bar)}"
    )


def _backward_place(traces: Traces, bad: Bad) -> tuple[int, int, tuple[int, ...]] | None:
    """(node, argument, element): the node's cotangent is good, what it hands to the argument is
    bad."""
    nodes = traces.program.nodes
    for index in range(len(nodes) - 1, -1, -1):
        if index not in traces.narrow.derivatives or np.any(_is_bad(traces, bad, index, True)):
            continue
        for arg in nodes[index].args:
            if arg in traces.narrow.derivatives:
                mask = _is_bad(traces, bad, arg, True)
                if np.any(mask):
                    return index, arg, first_index(mask)
    return None


def _backward(traces: Traces, bad: Bad) -> _Blamed | None:
    found = _backward_place(traces, bad)
    if found is None:
        return None
    index, arg, at = found
    step = _step_back(traces, index, arg, at)
    return _of_derivative(traces, "backward", index, arg, at, f"backward: {step}")


def _tangent(traces: Traces, bad: Bad) -> _Blamed | None:
    """Forward mode: the first node whose tangent is bad while the tangents and values that go in
    are good."""
    for index, node in enumerate(traces.program.nodes):
        if node.op in (INPUT, CONSTANT) or index not in traces.narrow.derivatives:
            continue
        mask = _is_bad(traces, bad, index, True)
        if not np.any(mask) or any(np.any(_is_bad(traces, bad, i, True)) for i in node.args):
            continue
        at = first_index(mask)
        args = [traces.narrow.values[i] for i in node.args]
        tangent = number(float(np.asarray(traces.narrow.derivatives[index])[at]))
        story = f"tangent: the derivative of {application(node, args, at)} gives {tangent}"
        return _of_derivative(traces, "tangent", index, index, at, story)
    return None


def _of_derivative(
    traces: Traces, what: str, index: int, where: int, at: tuple[int, ...], story: str
) -> _Blamed:
    """Blames the derivative of node `index`, whose bad number is element `at` of the cotangent or
    tangent of node `where`."""
    node, fmt = traces.program.nodes[index], traces.fmt
    computed = float(np.asarray(traces.narrow.derivatives[where])[at])
    exact = np.nan
    if traces.wide is not None and where in traces.wide.derivatives:
        exact = float(np.asarray(traces.wide.derivatives[where])[at])
    overflows = bool(np.isinf(computed) and np.isfinite(exact) and abs(exact) > fmt.largest)
    if not np.isfinite(exact):
        detail = f"its {'tangent becomes' if what == 'tangent' else 'derivative gives'} "
        detail += number(computed)
    elif overflows:
        detail = f"{what} overflows {fmt.name}: {exact:.3g} > {fmt.largest:.3g}"
    elif computed == 0 and abs(exact) < fmt.smallest_normal:
        detail = f"{what} underflows {fmt.name}: {exact:.3g} becomes {number(computed)}"
    else:
        name = node.custom.name if node.custom else node.op
        detail = f"{what} of {name} gives {number(computed)}, exactly {exact:.6g}"
    cause = Cause(
        op=node.op,
        phase="backward" if what == "backward" else "forward",
        span=node.span,
        text=node.text,
        detail=detail,
        story=story,
    )
    return _Blamed(cause, index, overflows)


def traces_of(program: Program, dtype: str, mode: str, narrow: Trace, wide: Trace | None) -> Traces:
    """Traces of one evaluation; a wider precision exists for all but float64."""
    return Traces(
        program=program,
        fmt=FORMATS[dtype],
        narrow=narrow,
        wide=None if dtype == "float64" else wide,
        forward_mode=mode == "forward",
    )
