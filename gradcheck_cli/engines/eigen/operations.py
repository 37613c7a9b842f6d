"""Operations as C++ expressions that use `gradcheck.hpp`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Node
from gradcheck_cli.engines.eigen.body import Body
from gradcheck_cli.engines.eigen.rows import (
    ALONG_AXIS,
    ELEMENTWISE,
    FOLDED,
    LOSSES,
    MATRICES,
    MOVED,
    NONE,
)
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.axes import axes_of
from reference_engine.op import TABLE as ROWS


def expression(body: Body, index: int, node: Node) -> str:
    """The expression for the array that the operation returns. Raises Unsupported, which names the
    operation."""
    if node.op in ELEMENTWISE:
        return _elementwise(body, index, node, ELEMENTWISE[node.op], node.shape)
    if node.op in LOSSES:
        return _loss(body, index, node)
    if node.op in MOVED:
        return _rearrangement(body, index, node)
    if node.op in FOLDED:
        return _fold(body, index, node, FOLDED[node.op])
    if node.op in ALONG_AXIS:
        return _along_axis(body, index, node, ALONG_AXIS[node.op])
    own = _OWN.get(node.op)
    if own is None:
        reason = NONE.get(node.op)
        raise Unsupported(f"it does not support `{node.op}`" + (f": {reason}" if reason else ""))
    return own(body, index, node)


def _elementwise(body: Body, index: int, node: Node, form: str, shape: tuple[int, ...]) -> str:
    """An expression entry by entry. Constants are written into it; other arguments are broadcast to
    the result."""
    out = "Flag" if node.kind == "bool" else "T"
    names, given, words = [], [], []
    for place, (arg, wanted) in enumerate(zip(node.args, node.wants, strict=True)):
        known = body.known.get(arg)
        if known is not None and known.ndim == 0 and wanted != "bool":
            words.append(literal(float(known)))
            continue
        name = body.array(arg, wanted)
        mine = body.shape(arg)
        if mine != shape and math.prod(mine) != 1:
            map = np.broadcast_to(np.arange(math.prod(mine)).reshape(mine), shape)
            name = _moved_kind(body, index, name, math.prod(mine), map, wanted)
        letter = chr(ord("a") + place)
        names.append(body.name_of(index, name))
        given.append(f"{'Flag' if wanted == 'bool' else 'const T&'} {letter}")
        words.append(letter)
    numbers = {
        key: literal(float(value))
        for key, value in node.keywords.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    formed = form.format(*words, **numbers)
    size = math.prod(shape)
    call = f"[&]({', '.join(given)}) -> {out} {{ return {formed}; }}"
    return f"each<{out}>({', '.join([str(size), call, *names])})"


def _moved_kind(body: Body, index: int, name: str, size: int, map: Array, kind: str) -> str:
    if kind != "bool":
        return body.rearranged(index, [name], size, map)
    held = body.name_of(index, name)
    return body.let(index, f"gather<Flag>({body.map(map)}, {{&{held}}})")


def _loss(body: Body, index: int, node: Node) -> str:
    shape = np.broadcast_shapes(*(body.shape(arg) for arg in node.args))
    terms = _elementwise(body, index, node, LOSSES[node.op], shape)
    reduction = node.keywords["reduction"]
    if reduction == "none":
        return terms
    size = math.prod(shape)
    total = f"rows<T>({body.let(index, terms)}, {size}, sum<T>)"
    return _divided(body, index, total, 1, size) if reduction == "mean" else total


def _divided(body: Body, index: int, array: str, count: int, by: int) -> str:
    call = f"[](const T& a) -> T {{ return a / R({by}); }}"
    return f"each<T>({count}, {call}, {body.let(index, array)})"


def _rearrangement(body: Body, index: int, node: Node) -> str:
    """A rearrangement of entries. The row itself, applied to the numbers of the entries, shows
    where each goes."""
    names, numbered, begin = [], [], 1  # 0 is an entry that the row inserts
    for arg, wanted in zip(node.args, node.wants, strict=True):
        if wanted == "int":
            if arg not in body.known:
                raise Unsupported(f"`{node.op}` takes indices that depend on the inputs")
            numbered.append(body.known[arg])
            continue
        mine = body.shape(arg)
        size = math.prod(mine)
        numbered.append(np.arange(begin, begin + size, dtype=np.float64).reshape(mine))
        names.append(body.array(arg, "float"))
        begin += size
    map = np.asarray(ROWS[node.op].value(*numbered, **node.keywords)).astype(np.int64) - 1
    return body.rearranged(index, names, begin - 1, map)


def _rows_of(body: Body, index: int, arg: int, axes: tuple[int, ...]) -> tuple[str, int]:
    """The argument with these axes last, and the number of entries in each row."""
    shape = body.shape(arg)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    kept = [i for i in range(len(shape)) if i not in axes]
    map = numbers.transpose([*kept, *axes])
    count = math.prod(shape[i] for i in axes)
    return body.rearranged(index, [body.array(arg, "float")], numbers.size, map), count


def _fold(body: Body, index: int, node: Node, function: str) -> str:
    (arg,) = node.args
    axes = axes_of(node.keywords.get("axis"), len(body.shape(arg)))
    array, count = _rows_of(body, index, arg, axes)
    folded = f"rows<T>({array}, {count}, {function})"
    if node.op != "mean":
        return folded
    return _divided(body, index, folded, math.prod(node.shape), count)


def _along_axis(body: Body, index: int, node: Node, form: str) -> str:
    """The expression applied along one axis, which is the last one meanwhile."""
    (arg,) = node.args
    shape = body.shape(arg)
    axis = node.keywords["axis"]
    axis = (0 if axis is None else axis) % len(shape)
    array, count = _rows_of(body, index, arg, (axis,))
    held = body.name_of(index, array)
    made = body.let(index, form.format(held, count))
    turned = np.moveaxis(np.empty(shape), axis, -1).shape
    back = np.moveaxis(np.arange(math.prod(shape)).reshape(turned), -1, axis)
    return body.rearranged(index, [made], back.size, back)


def _power(body: Body, index: int, node: Node) -> str:
    base, exponent = (body.known.get(arg) for arg in node.args)
    if exponent is not None and exponent.ndim == 0:
        form = "{0} * {0}" if exponent == 2 else "pow({0}, {1})"
    elif base is not None and base.ndim == 0:
        form = "exp({1} * R(std::log({0})))"
    else:
        form = "exp(T({1} * log({0})))"
    return _elementwise(body, index, node, form, node.shape)


def _clip(body: Body, index: int, node: Node) -> str:
    low, high = node.keywords["min"], node.keywords["max"]
    form = "{0}" if low is None else "max({0}, {min})"
    form = form if high is None else f"min(T({form}), {{max}})"
    return _elementwise(body, index, node, form, node.shape)


def _norm(body: Body, index: int, node: Node) -> str:
    if node.keywords["ord"] != 2:
        raise Unsupported("it supports `norm` of order 2 only")
    (arg,) = node.args
    axes = axes_of(node.keywords["axis"], len(body.shape(arg)))
    array, count = _rows_of(body, index, arg, axes)
    square = "[](const T& a) -> T { return a * a; }"
    squares = body.let(index, f"each<T>({body.size(arg)}, {square}, {array})")
    total = body.let(index, f"rows<T>({squares}, {count}, sum<T>)")
    return _rooted(node, total)


def _var(body: Body, index: int, node: Node) -> str:
    (arg,) = node.args
    axes = axes_of(node.keywords["axis"], len(body.shape(arg)))
    array, count = _rows_of(body, index, arg, axes)
    total = body.let(index, f"rows<T>({array}, {count}, squares_about_mean<T>)")
    return _divided(body, index, total, math.prod(node.shape), count - node.keywords["correction"])


def _rooted(node: Node, array: str) -> str:
    root = "[](const T& a) -> T { return sqrt(a); }"
    return f"each<T>({math.prod(node.shape)}, {root}, {array})"


def _matrices(body: Body, index: int, node: Node) -> str:
    arg = node.args[0]
    return f"{node.op}<T>({body.array(arg, 'float')}, {body.shape(arg)[-1]})"


def _solve(body: Body, index: int, node: Node) -> str:
    matrices, sides = node.args
    (a, x), (b, y), count = _stacks(body, index, _operand(body, matrices), _operand(body, sides))
    halves = {
        None: "solve<T>",
        True: "triangular<T, Eigen::Lower>",
        False: "triangular<T, Eigen::Upper>",
    }
    solve = halves[node.keywords.get("lower")]
    return f"{solve}({a}, {b}, {count}, {x.shape[-1]}, {y.shape[-1]})"


def _trace(body: Body, index: int, node: Node) -> str:
    (arg,) = node.args
    shape = body.shape(arg)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    map = np.diagonal(numbers, node.keywords["offset"], -2, -1)
    entries = body.rearranged(index, [body.array(arg, "float")], numbers.size, map)
    return f"rows<T>({entries}, {map.shape[-1]}, sum<T>)"


def _matmul(body: Body, index: int, node: Node) -> str:
    left, right = node.args
    return _product(body, index, _operand(body, left), _operand(body, right))


def _operand(body: Body, arg: int) -> Operand:
    shape = body.shape(arg)
    return body.array(arg, "float"), np.arange(math.prod(shape)).reshape(shape)


Operand = tuple[str, Array]
"""An array by its name, and its entries' numbers in the shape that it is to have."""


def _stacks(body: Body, index: int, left: Operand, right: Operand) -> tuple[Operand, Operand, int]:
    """Both stacks of matrices, broadcast to each other, and the number of matrices. A vector is a
    row on the left and a column on the right."""
    (a, x), (b, y) = left, right
    rows = x[None, :] if x.ndim == 1 else x
    columns = y[:, None] if y.ndim == 1 else y
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    rows, columns = (np.broadcast_to(m, (*batch, *m.shape[-2:])) for m in (rows, columns))
    a, b = body.rearranged(index, [a], x.size, rows), body.rearranged(index, [b], y.size, columns)
    return (a, rows), (b, columns), math.prod(batch)


def _product(body: Body, index: int, left: Operand, right: Operand) -> str:
    """The product of arrays (..., n, k) and (..., k, m), or of vectors."""
    (a, x), (b, y), count = _stacks(body, index, left, right)
    return f"matmul<T>({a}, {b}, {count}, {x.shape[-2]}, {x.shape[-1]}, {y.shape[-1]})"


def _outer(body: Body, index: int, node: Node) -> str:
    (a, x), (b, y) = (_operand(body, arg) for arg in node.args)
    return _product(body, index, (a, x[:, None]), (b, y[None, :]))


def _cross(body: Body, index: int, node: Node) -> str:
    """The cross product. Each entry comes from the two that follow along the axis, cyclically."""
    axis = node.keywords["axis"]
    factors = []
    for arg, places in zip((0, 1, 0, 1), (-1, -2, -2, -1), strict=True):
        array, numbers = _operand(body, node.args[arg])
        turned = np.broadcast_to(np.roll(numbers, places, axis), node.shape)
        factors.append(body.name_of(index, body.rearranged(index, [array], numbers.size, turned)))
    letters = ("a", "b", "c", "d")
    given = ", ".join(f"const T& {letter}" for letter in letters)
    call = f"[]({given}) -> T {{ return a * b - c * d; }}"
    return f"each<T>({math.prod(node.shape)}, {call}, {', '.join(factors)})"


def _gelu(body: Body, index: int, node: Node) -> str:
    if not node.keywords["approximate"]:
        raise Unsupported(
            "Eigen::AutoDiffScalar has no erf: it supports `gelu` with approximate=True"
        )
    inner = f"({{0}} + R(0.044715) * {{0}} * {{0}} * {{0}}) * {literal(math.sqrt(2 / math.pi))}"
    form = f"{{0}} * (R(1) + tanh(T({inner}))) / R(2)"
    return _elementwise(body, index, node, form, node.shape)


def _pad(body: Body, index: int, node: Node) -> str:
    if node.keywords["value"] != 0:
        raise Unsupported("it supports `pad` with zeros only")
    return _rearrangement(body, index, node)


def _linear(body: Body, index: int, node: Node) -> str:
    x, (w, numbers), (b, biases) = (_operand(body, arg) for arg in node.args)
    product = body.let(index, _product(body, index, x, (w, numbers.T)))
    bias = body.rearranged(index, [b], biases.size, np.broadcast_to(biases, node.shape))
    add = "[](const T& a, const T& b) -> T { return a + b; }"
    return f"each<T>({math.prod(node.shape)}, {add}, {product}, {bias})"


_OWN: Mapping[str, Callable[[Body, int, Node], str]] = {
    **dict.fromkeys(MATRICES, _matrices),
    "clip": _clip,
    "cross": _cross,
    "dot": _matmul,
    "gelu": _gelu,
    "hardtanh": _clip,
    "linear": _linear,
    "matmul": _matmul,
    "norm": _norm,
    "outer": _outer,
    "pad": _pad,
    "power": _power,
    "solve": _solve,
    "std": lambda body, index, node: _rooted(node, body.let(index, _var(body, index, node))),
    "trace": _trace,
    "triangular_solve": _solve,
    "var": _var,
}


def literal(value: float) -> str:
    """The number in C++, exactly."""
    if math.isnan(value):
        return "std::numeric_limits<R>::quiet_NaN()"
    if math.isinf(value):
        sign = "" if value > 0 else "-"
        return f"({sign}std::numeric_limits<R>::infinity())"
    return f"R({value.hex() if value != int(value) or abs(value) > 1e15 else int(value)})"
