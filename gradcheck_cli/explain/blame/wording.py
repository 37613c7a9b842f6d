"""Describe a cause in sentences: what happened, with numbers, how it was recognised and proven."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.domain.evaluation import Operation
from gradcheck_cli.domain.report import CauseKind
from gradcheck_cli.explain.blame.context import absorbed_by, accumulated
from gradcheck_cli.explain.blame.first_bad_op import UNNAMED, backward_place
from gradcheck_cli.explain.blame.traces import FAR, Traces, limit_of, not_finite
from gradcheck_cli.explain.blame.values import application, call_phrase, element, number, two_texts

LONGEST = 40  # the most characters of a formula that a sentence quotes
SHOWN_TERMS = 4  # the most terms of a sum to show
NAMED = 3  # the most operations that a proof names; others are counted


def detail_of(traces: Traces, op: Operation, kind: CauseKind) -> str:
    """A short description for the caret line."""
    shown, name = _operation_words(traces, op), traces.fmt.name
    if kind == "genuine overflow" and traces.target is not None:
        size = f"{abs(traces.target):.3g}" if np.isfinite(traces.target) else "more than 1.8e+308"
        return f"the truth does not fit {name}: {size} > {traces.fmt.largest:.3g}"
    if kind in ("masked branch", "0*inf") and not np.isfinite(op.result):
        whose = "its value" if op.phase == "forward" else "its derivative"
        how = "not selected" if kind == "masked branch" else "multiplied by zero"
        return f"{how}, but {whose} is not finite: {_equation(op, shown)}"
    if kind == "domain edge":
        whose = "" if op.phase == "forward" else " of its derivative"
        return f"at the edge of the domain{whose}: {_equation(op, shown)}"
    if kind == "absorbed epsilon":
        return f"a constant is absorbed in {name}: {_equation(op, shown)}"
    if (index := accumulated(traces, op)) is not None and op.phase == "backward":
        return _parts_cancel(traces, op, index)
    return _wrong_number(traces, op, kind, shown)


def _parts_cancel(traces: Traces, op: Operation, index: int) -> str:
    seen, right = (_sum_of(parts) for parts in (op.inputs, op.exact_inputs))
    right = "" if right == seen else f"{right} = "
    result, exact = two_texts(op.result, op.exact, 9)
    return (
        f"the contributions to {quoted(traces.program.nodes[index].text)} cancel: "
        f"{seen} = {result}; exact: {right}{exact}"
    )


def _wrong_number(traces: Traces, op: Operation, kind: CauseKind, shown: str) -> str:
    exact, result = op.exact, op.result
    if kind == "saturation":
        y = None if op.node is None else traces.number(op.node, op.index)
        told = "" if y is None else f" {number(y, 9)}"
        return f"derivative computed from the rounded result{told}: gives {_computed_and_exact(op)}"
    if kind == "clip that kills the gradient":
        result_told, exact_told = two_texts(result, exact)
        return f"derivative is {result_told} on this side of the bound; exact: {exact_told}"
    if kind == "tie" and result != exact:
        return f"takes a different branch from exact arithmetic: gives {_computed_and_exact(op)}"
    if kind == "sensitivity" and np.isfinite(exact) and op.name != UNNAMED:
        return f"magnifies rounding: {shown} = {_computed_and_exact(op, 9)}"
    if kind == "inaccurate kernel" and op.name == UNNAMED:
        return f"the engine's own formula is off: {shown} = {_computed_and_exact(op)}"
    where = "" if op.phase == "forward" else f"{op.phase} "
    if op.name == UNNAMED and op.phase != "forward":
        return where + _derivative_by_numbers(traces, op)
    return where + _by_numbers(traces, op, shown)


def _sum_of(parts: Sequence[float]) -> str:
    told = [number(x, 9) for x in parts[:SHOWN_TERMS]]
    return " + ".join(told + ["..."] * (len(parts) > SHOWN_TERMS))


def _equation(op: Operation, shown: str) -> str:
    """The operation's result, and the exact one."""
    if op.name == UNNAMED and op.phase != "forward":
        return f"{shown} gives {number(op.result)}"
    return f"{shown} = {_computed_and_exact(op) if np.isfinite(op.exact) else number(op.result)}"


def _computed_and_exact(op: Operation, digits: int = 6) -> str:
    """The computed result, and the exact one."""
    result, exact = two_texts(op.result, op.exact, digits)
    return f"{result}; exact: {exact}"


def _derivative_by_numbers(traces: Traces, op: Operation) -> str:
    """The description if only the node of the derivative is known."""
    fmt, exact, result = traces.fmt, op.exact, op.result
    if not np.isfinite(exact):
        return f"derivative gives {number(result)}"
    if np.isinf(result) and abs(exact) > fmt.largest:
        return f"overflows {fmt.name}: {exact:.3g} > {fmt.largest:.3g}"
    assert op.node is not None
    node = traces.program.nodes[op.node]
    name = node.custom.name if node.custom else node.op
    if result == exact:
        return f"of {name} gives {number(result)} in every precision"
    if result == 0 and abs(exact) < fmt.smallest_normal:
        return f"underflows {fmt.name}: {exact:.3g} becomes 0"
    return f"of {name} gives {_computed_and_exact(op)}"


def _by_numbers(traces: Traces, op: Operation, shown: str) -> str:
    fmt, exact, result = traces.fmt, op.exact, op.result
    if np.isinf(result) and np.isfinite(exact) and abs(exact) > limit_of(fmt):
        size = f" = {exact:.3g}" if abs(exact) < FAR else ""
        return f"overflows {fmt.name}: {shown}{size} > {fmt.largest:.3g}"
    if result == 0 and 0 < abs(exact) < fmt.smallest_normal:
        return f"underflows {fmt.name}: {shown} = {exact:.3g} < {fmt.smallest_normal:.3g}"
    if result == 0 and exact != 0 and np.isfinite(exact):
        return f"becomes zero in {fmt.name}: {shown} = 0; exact: {exact:.3g}"
    if np.isfinite(result) and np.isfinite(exact):
        return f"loses digits in {fmt.name}: {shown} = {_computed_and_exact(op, 9)}"
    if np.isfinite(exact):
        return f"{shown} = {_computed_and_exact(op)}"
    return f"{shown} = {number(result)}"


def _operation_words(traces: Traces, op: Operation) -> str:
    """The operation with its inputs: as in the formula if it is the node's own, else with the
    engine's name."""
    if op.node is None:
        return call_phrase(op.name, op.inputs, op.result)
    node = traces.program.nodes[op.node]
    args = [traces.narrow.values.get(i) for i in node.args]
    if any(a is None for a in args):
        return call_phrase(op.name or node.op, op.inputs, op.result)
    own = application(node, [np.asarray(a) for a in args], op.index)
    if op.phase == "forward":
        value = traces.narrow.values.get(op.node)
        whole = value is not None and np.shape(value) and len(op.index) != np.ndim(value)
        return call_phrase(op.name, op.inputs, op.result) if whole else own
    if op.name == UNNAMED:
        return f"the derivative of {own}"
    return call_phrase(op.name, op.inputs, op.result)


def story_of(traces: Traces, op: Operation, kind: CauseKind) -> str:
    """The story of the forward and backward pass, in numbers."""
    if op.phase == "forward":
        story = _absorption_words(traces, op) if kind in ("absorption", "absorbed epsilon") else []
        story.append(f"{_operation_words(traces, op)} = {number(op.result)}")
        if op.node is not None:
            story += _downstream(traces, op.node, op.index)
        if op.node in traces.stated:
            return "in your backward: " + ", ".join(story)
        back = _backward_story(traces)
        return "forward: " + ", ".join(story) + (f"; backward: {back}" if back else "")
    return f"{op.phase}: {_derivative_story(traces, op)}"


def _absorption_words(traces: Traces, op: Operation) -> list[str]:
    """The sum that absorbed one of its terms and is an argument of the operation, if any."""
    lost = absorbed_by(traces, op.node)
    if lost is None or op.node is None:
        return []
    sums = [i for i in traces.program.nodes[op.node].args if lost in traces.program.nodes[i].args]
    node = traces.program.nodes[sums[0]]
    value = element(node, np.asarray(traces.narrow.values[sums[0]]), op.index)
    if value is None:
        return []
    args = [np.asarray(traces.narrow.values[i]) for i in node.args]
    return [f"{application(node, args, op.index)} = {number(value)}"]


def _derivative_story(traces: Traces, op: Operation) -> str:
    if op.node is None:
        return f"{call_phrase(op.name, op.inputs, op.result)} = {number(op.result)}"
    node = traces.program.nodes[op.node]
    shown = call_phrase(op.name, op.inputs, op.result)
    told = f"{shown} = {_computed_and_exact(op, 3) if np.isfinite(op.exact) else number(op.result)}"
    if (index := accumulated(traces, op)) is not None:
        return f"the contributions to {quoted(traces.program.nodes[index].text)}: {told}"
    args = [np.asarray(traces.narrow.values.get(i, np.nan)) for i in node.args]
    own = application(node, args, op.index)
    if op.name == UNNAMED and op.phase == "tangent":
        return f"the derivative of {own} gives {number(op.result)}"
    y_bar = traces.number(op.node, op.index, derivative=True)
    upstream = "" if y_bar is None or op.phase == "tangent" else f", upstream {number(y_bar)}"
    if op.name == UNNAMED:
        return _backward_step(traces, op.node, node.args, op.index, op.result)
    return f"in the derivative of {own}{upstream}: {told}"


def _downstream(traces: Traces, index: int, at: tuple[int, ...]) -> list[str]:
    """The next operation and its result, if it takes the same element."""
    for later in traces.users(index):
        node = traces.program.nodes[later]
        if later in traces.narrow.values:
            value = np.asarray(traces.narrow.values[later])
            if value.shape != np.shape(traces.narrow.values[index]) or value.ndim != len(at):
                return []
            args = [traces.narrow.values[i] for i in node.args]
            return [f"{application(node, args, at)} = {number(float(value[at]))}"]
    return []


def _backward_story(traces: Traces) -> str:
    """The backward step that made the first nan or infinity, in numbers."""
    if traces.forward_mode:
        return ""
    place = backward_place(traces, not_finite)
    if place is None:
        return ""
    index, arg, at = place
    x_bar = float(np.asarray(traces.narrow.derivatives[arg])[at])
    return _backward_step(traces, index, (arg,), at, x_bar)


def _backward_step(
    traces: Traces, index: int, args: Sequence[int], at: tuple[int, ...], x_bar: float
) -> str:
    node = traces.program.nodes[index]
    y_bar = element(node, np.asarray(traces.narrow.derivatives[index]), at)
    value = element(node, np.asarray(traces.narrow.values[index]), at)
    if y_bar is None or value is None:
        return f"the derivative of {node.op} gives {number(x_bar)}"
    if y_bar == 0 and np.isnan(x_bar):
        return f"{number(y_bar)} * {number(value) if np.isinf(value) else 'inf'} = nan"
    numbers = [traces.narrow.values[i] for i in node.args]
    return (
        f"the derivative of {application(node, numbers, at)}, upstream {number(y_bar)}, "
        f"gives {number(x_bar)}"
    )


def quoted(text: str) -> str:
    """A part of the formula, shortened if it is long."""
    plain = " ".join(text.split())
    return f"`{plain}`" if len(plain) <= LONGEST else f"`{plain[: LONGEST - 3]}...`"


def proof_of(traces: Traces, culprits: Sequence[Operation], what: str) -> str:
    """The operations that were done exactly, and that this makes `what` right."""
    names = list(dict.fromkeys(_name(traces, op) for op in culprits))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    told = ", ".join(names[:NAMED]) + more
    if len(names) == 1:
        return f"with only {told} exact, the {what} is right"
    return f"with {told} exact and all else unchanged, the {what} is right"


def _name(traces: Traces, op: Operation) -> str:
    if op.node is None:
        return f"`{op.name}`"
    index = accumulated(traces, op) if op.phase == "backward" else None
    if index is not None:
        return f"the sum of the contributions to {quoted(traces.program.nodes[index].text)}"
    text = quoted(traces.program.nodes[op.node].text)
    return text if op.phase == "forward" else f"the derivative of {text}"
