"""Helper functions of a formula. They are inlined at each call, or kept if they have a custom
gradient."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.program import CUSTOM, CustomGradient, Program
from gradcheck_cli.domain.synonyms import did_you_mean
from gradcheck_cli.formula.context import (
    POISON,
    Context,
    Frame,
    Function,
    Items,
    Poison,
    Ref,
    Static,
    Value,
)
from gradcheck_cli.formula.evaluation import evaluate, run, without_docstring
from gradcheck_cli.formula.program import Builder
from gradcheck_cli.formula.shapes import Shape

_Argument = tuple[str, Shape, str]  # name, shape, kind
DECORATOR = "custom_gradient"


def define(frame: Frame, node: ast.FunctionDef) -> None:
    """`def name(...)`: the name can be called from here on."""
    context = frame.context
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        context.fail(node, "parameters are plain names: def f(x, y):")
    for i, repeated in enumerate(arguments.args):
        if repeated.arg in {before.arg for before in arguments.args[:i]}:
            context.fail(repeated, f"`{node.name}` has two parameters named `{repeated.arg}`")
            repeated.arg += "'" * i  # a name that nobody can write, so that calls keep their count
    parameters = tuple(argument.arg for argument in arguments.args)
    first = len(parameters) - len(arguments.defaults)
    defaults: dict[str, Value] = {}
    for name, default in zip(parameters[first:], arguments.defaults, strict=True):
        value = evaluate(frame, default)
        if isinstance(value, Ref | Items):
            value = context.fail(default, "a default must be known before the run")
        defaults[name] = value
    function = Function(node.name, node, parameters, defaults, dict(frame.functions))
    context.functions.append(function)
    if node.decorator_list:
        _decorate(frame, function)
    frame.functions[node.name] = function


def _decorate(frame: Frame, function: Function) -> None:
    """Handles @custom_gradient(vjp, jvp=jvp) above a function."""
    context = frame.context
    usage = "write @custom_gradient(rule_vjp) or @custom_gradient(rule_vjp, jvp=rule_jvp)"
    decorator = function.node.decorator_list[0]
    if len(function.node.decorator_list) > 1:
        context.fail(function.node.decorator_list[1], "a function has one decorator", usage)
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    if not isinstance(name, ast.Name) or name.id != DECORATOR:
        context.fail(decorator, "the only decorator is custom_gradient", usage)
        return
    rules: dict[str, ast.expr] = {}
    well_formed = isinstance(decorator, ast.Call) and len(decorator.args) <= 2
    if isinstance(decorator, ast.Call) and well_formed:
        rules.update(zip(("vjp", "jvp"), decorator.args, strict=False))
        for keyword in decorator.keywords:
            well_formed &= keyword.arg in ("vjp", "jvp") and keyword.arg not in rules
            rules[str(keyword.arg)] = keyword.value
    if not well_formed or "vjp" not in rules:
        context.fail(decorator, "custom_gradient needs the rule of its gradient", usage)
        return
    count = len(function.parameters)
    arguments = ", ".join(function.parameters)
    x_dots = ", ".join(f"{name}_dot" for name in function.parameters)
    takes = {"vjp": f"upstream, {arguments}", "jvp": f"{x_dots}, {arguments}"}
    wanted = {"vjp": count + 1, "jvp": 2 * count}
    found = {
        kind: _rule(frame, rules[kind], wanted[kind], takes[kind])
        for kind in ("vjp", "jvp")
        if kind in rules
    }
    function.vjp, function.jvp = found["vjp"], found.get("jvp")
    if None in found.values():
        function.broken = True


def _rule(frame: Frame, node: ast.expr, count: int, takes: str) -> Function | None:
    """The function that a decorator names, if it is defined and takes the arguments of a rule."""
    context = frame.context
    if not isinstance(node, ast.Name):
        context.fail(node, "a rule is the name of a function that is defined before")
        return None
    rule = frame.functions.get(node.id)
    if rule is None:
        help = did_you_mean(node.id, frame.functions) or f"define it above: def {node.id}({takes}):"
        context.fail(
            node,
            f"there is no function `{node.id}` before this line",
            help,
            code=Codes.UNKNOWN_NAME,
        )
        return None
    if len(rule.parameters) != count:
        message = f"the rule `{rule.name}` has {len(rule.parameters)} parameters, not {count}"
        context.fail(node, message, f"it is called with ({takes})")
        return None
    return rule


def call_function(frame: Frame, function: Function, node: ast.Call) -> Value:
    """A call: the inlined body, or one CUSTOM node if the function has a custom gradient."""
    given = _bound(frame, function, node)
    if given is None:
        return POISON
    context = frame.context
    context.calls.append((function.name, node))
    try:
        if function.vjp is not None or function.broken:
            return _call_custom(frame, function, given, node)
        values = {name: value for name, (value, _) in given.items()}
        returned = run_body(_inner(context, function, frame.builder, values), function)
    finally:
        context.calls.pop()
    results = tuple(value for value, _ in returned)
    if len(results) == 1:
        return results[0]
    return POISON if any(isinstance(one, Poison) for one in results) else Items(results)


def _bound(
    frame: Frame, function: Function, node: ast.Call
) -> dict[str, tuple[Value, ast.expr]] | None:
    """The arguments by the parameters of the function; None after a mistake, which is reported."""
    context = frame.context
    usage = f"{function.name}({', '.join(function.parameters)})"
    given: dict[str, tuple[Value, ast.expr]] = {}
    values = [evaluate(frame, part) for part in node.args]
    if len(values) > len(function.parameters):
        count = len(function.parameters)
        known = "1 argument" if count == 1 else f"{count} arguments"
        message = f"`{function.name}` takes {known}, not {len(values)}"
        context.fail(node, message, usage)
        return None
    given.update(zip(function.parameters, zip(values, node.args, strict=True), strict=False))
    for keyword in node.keywords:
        value = evaluate(frame, keyword.value)
        name = str(keyword.arg)
        if name not in function.parameters or name in given:
            twice = name in given
            message = f"`{name}` is given twice" if twice else f"`{function.name}` has no `{name}`"
            context.fail(keyword, message, usage)
            return None
        given[name] = (value, keyword.value)
    for name, default in function.defaults.items():
        given.setdefault(name, (default, node))
    missing = [name for name in function.parameters if name not in given]
    if missing:
        context.fail(node, f"`{function.name}` needs {' and '.join(missing)}", usage)
        return None
    return {name: given[name] for name in function.parameters}


def _inner(
    context: Context, function: Function, builder: Builder, values: dict[str, Value]
) -> Frame:
    """The scope of the body of a function: its parameters, and the functions before it."""
    outside = frozenset(context.outer_names) - values.keys()
    return Frame(context, builder, values, dict(function.visible), function.name, outside)


_Returned = list[tuple[Value, ast.expr]]


def run_body(frame: Frame, function: Function) -> _Returned:
    """Runs the statements of a function. Returns every value of its `return`, with its place."""
    function.checked = True
    body = without_docstring(function.node.body)
    last = body[-1] if body else None
    run(frame, body[:-1] if isinstance(last, ast.Return) else body)
    if not isinstance(last, ast.Return) or last.value is None:
        message = f"`{function.name}` does not end with `return value`"
        frame.context.fail(last or function.node, message)
        return [(POISON, ast.Constant(None))]
    if isinstance(last.value, ast.Tuple) and last.value.elts:
        return [(evaluate(frame, part), part) for part in last.value.elts]
    return [(evaluate(frame, last.value), last.value)]


def check_uncalled(context: Context) -> None:
    """Checks every function that is never called, whose names may be wrong, too."""
    for function in context.functions:
        if not function.checked:
            values: dict[str, Value] = dict.fromkeys(function.parameters, POISON)
            run_body(_inner(context, function, Builder(context.memory), values), function)


def _call_custom(
    frame: Frame, function: Function, given: dict[str, tuple[Value, ast.expr]], node: ast.Call
) -> Value:
    """One node for the whole function. It holds the forward and the custom gradient."""
    refs = [frame.node_of(value, part) for value, part in given.values()]
    indices = [ref.index for ref in refs if isinstance(ref, Ref)]
    if len(indices) < len(refs) or function.broken:
        return POISON
    nodes = [frame.builder.nodes[index] for index in indices]
    key = tuple((argument.shape, argument.kind) for argument in nodes)
    context = frame.context
    if key in function.lowered:
        rule, steps = function.lowered[key]
        context.spend(node, steps)
    else:
        before = context.steps
        arguments = [(name, n.shape, n.kind) for name, n in zip(given, nodes, strict=True)]
        rule = _lower_custom(context, function, arguments)
        function.lowered[key] = rule, context.steps - before
    if rule is None:
        return POISON
    positions = frame.context.positions
    span, text = positions.span(node), positions.fragment(node)
    return Ref(frame.builder.custom(rule, CUSTOM, indices, span, text))


def _lower_custom(
    context: Context, function: Function, arguments: Sequence[_Argument]
) -> CustomGradient | None:
    assert function.vjp is not None
    forward = _subprogram(context, function, arguments, 1)
    if forward is None:
        return None
    output = forward.result
    types = [(shape, kind) for _, shape, kind in arguments]
    vjp = _subprogram(
        context,
        function.vjp,
        _named_arguments(function.vjp, [(output.shape, "float"), *types]),
        len(arguments),
        may_be_none=True,
    )
    if function.jvp is None:
        return CustomGradient(function.name, forward, vjp) if vjp is not None else None
    tangents = [(shape, "float") for shape, _ in types]
    jvp = _subprogram(context, function.jvp, _named_arguments(function.jvp, [*tangents, *types]), 1)
    if vjp is None or jvp is None:
        return None
    return CustomGradient(function.name, forward, vjp, jvp)


def _named_arguments(rule: Function, types: Sequence[tuple[Shape, str]]) -> list[_Argument]:
    """The types of the arguments of a rule, with the names of its parameters."""
    return [(name, *type_) for name, type_ in zip(rule.parameters, types, strict=True)]


def _subprogram(
    context: Context,
    function: Function,
    arguments: Sequence[_Argument],
    outputs: int,
    may_be_none: bool = False,
) -> Program | None:
    """The body of a function as a program of its own; None after a mistake, which is reported."""
    builder = Builder(context.memory)
    values: dict[str, Value] = {}
    for (name, shape, kind), part in zip(arguments, function.node.args.args, strict=True):
        values[name] = Ref(builder.input(name, shape, kind, context.positions.span(part)))
    frame = _inner(context, function, builder, values)
    returned = run_body(frame, function)
    if len(returned) != outputs:
        wanted = f"{outputs}" if outputs == 1 else f"{outputs}, one for each argument"
        message = f"`{function.name}` returns {len(returned)} values, not {wanted}"
        if len(returned) == 1:
            message = f"`{function.name}` returns 1 value, not {wanted}"
        context.fail(function.node.body[-1], message)
        return None
    ends: list[int | None] = []
    for value, written in returned:
        if may_be_none and value == Static(None):
            ends.append(None)
            continue
        ref = frame.node_of(value, written)
        if isinstance(ref, Poison):
            return None
        ends.append(ref.index)
    start, end = context.positions.ends(function.node)
    return builder.program(ends, context.positions.text[start:end])
