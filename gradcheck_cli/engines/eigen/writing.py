"""A program as C++ over `Eigen::AutoDiffScalar`, and what it is given beside its inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, Node, Program
from gradcheck_cli.engines.axes import axes_of
from gradcheck_cli.engines.base import NodeFault, Unsupported
from gradcheck_cli.engines.eigen.rows import ELEMENTWISE, FOLDED, LOSSES, MADE, MOVED, NONE
from reference_engine.op import TABLE as ROWS

_HEAD = '#include "gradcheck.hpp"\n'
_FUNCTION = (
    "template <typename R, typename T>\n"
    "std::vector<T> program(const gradcheck::Given<R>& given, const std::vector<T>& inputs) {\n"
    "  using namespace gradcheck;\n"
)
_ENTRY = """
extern "C" int gradcheck_{dtype}(
    const {real}* values, gradcheck::Index total, gradcheck::Index first, gradcheck::Index size,
    const {real}* directions, gradcheck::Index count, const gradcheck::Index* maps,
    const {real}* constants, const gradcheck::Flag* flags, {real}* output, {real}* tangents) {{
  const gradcheck::Given<{real}> given{{maps, constants, flags}};
  auto f = [&](const std::vector<gradcheck::Scalar<{real}>>& inputs) {{
    return program<{real}>(given, inputs);
  }};
  return gradcheck::drive<{real}>(
      f, values, total, first, size, directions, count, output, tangents);
}}
"""
REALS = {"float32": "float", "float64": "double"}


@dataclass(slots=True)
class Written:
    """`text` is a translation unit. Line `n` of it (from 1) is about node `nodes[n]`. `places` are
    where inputs begin among all that float; maps, constants and flags are passed along."""

    text: str
    nodes: Mapping[int, int]
    places: Mapping[str, int]
    total: int
    maps: Array
    constants: Array
    flags: Array


@dataclass(slots=True)
class _Pool:
    """Arrays one after the other; the same array twice stands there once."""

    parts: list[Array] = field(default_factory=list)
    known: dict[bytes, int] = field(default_factory=dict)
    size: int = 0

    def place(self, array: Array) -> int:
        flat = np.ascontiguousarray(array).ravel()
        key = flat.tobytes()
        if key not in self.known:
            self.known[key] = self.size
            self.parts.append(flat)
            self.size += flat.size
        return self.known[key]

    def all(self, dtype: str) -> Array:
        empty = np.zeros(0, dtype=dtype)
        return np.concatenate([empty, *(part.astype(dtype) for part in self.parts)])


def write(program: Program, values: Mapping[str, Array], dtype: str) -> Written:
    """The program in one dtype. `values` are needed of inputs that are whole numbers or masks.

    Raises NodeFault from Unsupported, naming an operation that is missing.
    """
    return _Writer(program, values, dtype).written()


class _Writer:
    def __init__(self, program: Program, values: Mapping[str, Array], dtype: str) -> None:
        self._program = program
        self._values = values
        self._dtype = dtype
        self._lines: list[str] = []
        self._about: dict[int, int] = {}
        self._maps, self._constants, self._flags = _Pool(), _Pool(), _Pool()
        self._known: dict[int, Array] = {}  # nodes that depend on no floating input
        self._count = 0

    def written(self) -> Written:
        places: dict[str, int] = {}
        total = 0
        for name, index in self._program.inputs.items():
            node = self._program.nodes[index]
            if node.kind == "float":
                places[name] = total
                size = math.prod(node.shape)
                self._line(index, f"const auto n{index} = part(inputs, {total}, {size});")
                total += size
            else:
                self._known[index] = self._values[name]
        for index, node in enumerate(self._program.nodes):
            if node.op != INPUT:
                try:
                    self._node(index, node)
                except Exception as error:
                    raise NodeFault(index) from error
        output = self._array(self._program.output, "float")
        body = "".join(f"  {line}\n" for line in self._lines) + f"  return {output};\n}}\n"
        before = (_HEAD + "\n" + _FUNCTION).count("\n")
        entry = _ENTRY.format(dtype=self._dtype, real=REALS[self._dtype])
        return Written(
            text=f"{_HEAD}\n{_FUNCTION}{body}{entry}",
            nodes={before + number + 1: index for number, index in self._about.items()},
            places=places,
            total=total,
            maps=self._maps.all("int64"),
            constants=self._constants.all(self._dtype),
            flags=self._flags.all("uint8"),
        )

    def _line(self, index: int, text: str) -> None:
        self._about[len(self._lines)] = index
        self._lines.append(text)

    def _let(self, index: int, expression: str) -> str:
        """A new array with a name."""
        self._count += 1
        name = f"a{self._count}"
        self._line(index, f"const auto {name} = {expression};")
        return name

    def _node(self, index: int, node: Node) -> None:
        if node.op == CONSTANT:
            self._known[index] = np.asarray(node.value)
            return
        if node.op == CUSTOM:
            assert node.custom is not None
            name = node.custom.name
            raise Unsupported(f"Eigen::AutoDiffScalar has no place for the gradient of `{name}`")
        if all(arg in self._known for arg in node.args) or node.op in MADE:
            self._known[index] = self._evaluated(node)
            return
        expression = self._expression(index, node)
        self._line(index, f"const auto n{index} = {expression};")

    def _evaluated(self, node: Node) -> Array:
        """By the row itself, on plain numbers: nothing here is differentiated."""
        kinds = {"float": np.dtype(self._dtype), "int": np.dtype("int64"), "bool": np.dtype("bool")}
        args = [
            self._known[arg].astype(kinds[wanted]) if arg in self._known else self._blank(arg)
            for arg, wanted in zip(node.args, node.wants, strict=True)
        ]
        keywords = dict(node.keywords)
        if "dtype" in keywords:
            keywords["dtype"] = kinds[node.kind]
        return np.asarray(ROWS[node.op].value(*args, **keywords))

    def _blank(self, index: int) -> Array:
        return np.zeros(self._program.nodes[index].shape, dtype=self._dtype)

    # ---- arguments

    def _array(self, index: int, kind: str) -> str:
        """The array of a node, as C++ names it."""
        if index not in self._known:
            if kind == self._program.nodes[index].kind:
                return f"n{index}"
            if kind == "float":  # a mask as numbers
                size = self._size(index)
                call = "[](Flag c) -> T { return T(R(c)); }"
                return self._let(index, f"each<T>({size}, {call}, n{index})")
            raise Unsupported("a number cannot stand for a condition or an index here")
        array = self._known[index]
        if kind == "bool":
            return f"flags(given.flags + {self._flags.place(array.astype('uint8'))}, {array.size})"
        place = self._constants.place(array.astype(self._dtype))
        return f"constants<T>(given.constants + {place}, {array.size})"

    def _size(self, index: int) -> int:
        return math.prod(self._program.nodes[index].shape)

    def _map(self, map: Array) -> str:
        return f"given.maps + {self._maps.place(map.astype('int64'))}, {map.size}"

    def _moved(self, index: int, names: Sequence[str], map: Array) -> str:
        if len(names) == 1 and np.array_equal(map.ravel(), np.arange(map.size)):
            return names[0]
        held = [self._let(index, name) if "(" in name else name for name in names]
        arrays = ", ".join(f"&{name}" for name in held)
        return self._let(index, f"gather<T>({self._map(map)}, {{{arrays}}})")

    # ---- operations

    def _expression(self, index: int, node: Node) -> str:
        if node.op in ELEMENTWISE:
            return self._each(index, node, ELEMENTWISE[node.op], node.shape)
        if node.op in LOSSES:
            return self._loss(index, node)
        if node.op in MOVED:
            return self._moving(index, node)
        if node.op in FOLDED:
            return self._fold(index, node, FOLDED[node.op])
        own = getattr(self, f"_{node.op}", None)
        if own is None:
            reason = NONE.get(node.op)
            raise Unsupported(f"it has nothing for `{node.op}`" + (f": {reason}" if reason else ""))
        text: str = own(index, node)
        return text

    def _each(self, index: int, node: Node, form: str, shape: tuple[int, ...]) -> str:
        """Constants stand in the expression; other arguments are broadcast to the result."""
        out = "Flag" if node.kind == "bool" else "T"
        names, given, words = [], [], []
        for place, (arg, wanted) in enumerate(zip(node.args, node.wants, strict=True)):
            known = self._known.get(arg)
            if known is not None and known.ndim == 0 and wanted != "bool":
                words.append(literal(float(known)))
                continue
            name = self._array(arg, wanted)
            mine = self._program.nodes[arg].shape
            if mine != shape and math.prod(mine) != 1:
                map = np.broadcast_to(np.arange(math.prod(mine)).reshape(mine), shape)
                name = self._moved_kind(index, name, map, wanted)
            letter = chr(ord("a") + place)
            names.append(self._let(index, name) if "(" in name else name)
            given.append(f"{'Flag' if wanted == 'bool' else 'const T&'} {letter}")
            words.append(letter)
        numbers = {
            key: literal(float(value))
            for key, value in node.keywords.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        body = form.format(*words, **numbers)
        size = math.prod(shape)
        call = f"[&]({', '.join(given)}) -> {out} {{ return {body}; }}"
        return f"each<{out}>({', '.join([str(size), call, *names])})"

    def _moved_kind(self, index: int, name: str, map: Array, kind: str) -> str:
        if kind != "bool":
            return self._moved(index, [name], map)
        held = self._let(index, name) if "(" in name else name
        return self._let(index, f"gather<Flag>({self._map(map)}, {{&{held}}})")

    def _loss(self, index: int, node: Node) -> str:
        shape = np.broadcast_shapes(*(self._program.nodes[arg].shape for arg in node.args))
        terms = self._each(index, node, LOSSES[node.op], shape)
        reduction = node.keywords["reduction"]
        if reduction == "none":
            return terms
        size = math.prod(shape)
        total = f"rows<T>({self._let(index, terms)}, {size}, sum<T>)"
        return self._divided(index, total, 1, size) if reduction == "mean" else total

    def _divided(self, index: int, array: str, count: int, by: int) -> str:
        call = f"[](const T& a) -> T {{ return a / R({by}); }}"
        return f"each<T>({count}, {call}, {self._let(index, array)})"

    def _moving(self, index: int, node: Node) -> str:
        """The row itself, on the numbers of the entries, says which go where."""
        names, numbered, begin = [], [], 1  # 0 is what the row puts in by itself
        for arg, wanted in zip(node.args, node.wants, strict=True):
            if wanted == "int":
                if arg not in self._known:
                    raise Unsupported(f"`{node.op}` takes indices that depend on the inputs")
                numbered.append(self._known[arg])
                continue
            mine = self._program.nodes[arg].shape
            size = math.prod(mine)
            numbered.append(np.arange(begin, begin + size, dtype=np.float64).reshape(mine))
            names.append(self._array(arg, "float"))
            begin += size
        map = np.asarray(ROWS[node.op].value(*numbered, **node.keywords)).astype(np.int64) - 1
        return self._moved(index, names, map)

    def _rows_of(self, index: int, arg: int, axes: tuple[int, ...]) -> tuple[str, int]:
        """The argument with the axes last, and how many entries a row has then."""
        shape = self._program.nodes[arg].shape
        numbers = np.arange(math.prod(shape)).reshape(shape)
        kept = [i for i in range(len(shape)) if i not in axes]
        map = numbers.transpose([*kept, *axes])
        count = math.prod(shape[i] for i in axes)
        return self._moved(index, [self._array(arg, "float")], map), count

    def _fold(self, index: int, node: Node, function: str) -> str:
        (arg,) = node.args
        axes = axes_of(node.keywords.get("axis"), len(self._program.nodes[arg].shape))
        array, count = self._rows_of(index, arg, axes)
        folded = f"rows<T>({array}, {count}, {function})"
        if node.op != "mean":
            return folded
        return self._divided(index, folded, math.prod(node.shape), count)

    def _along(self, index: int, node: Node, form: str) -> str:
        """Rows along one axis, made anew and put back where they were."""
        (arg,) = node.args
        shape = self._program.nodes[arg].shape
        axis = node.keywords["axis"]
        axis = (0 if axis is None else axis) % len(shape)
        array, count = self._rows_of(index, arg, (axis,))
        held = self._let(index, array) if "(" in array else array
        made = self._let(index, form.format(held, count))
        turned = np.moveaxis(np.empty(shape), axis, -1).shape
        back = np.moveaxis(np.arange(math.prod(shape)).reshape(turned), -1, axis)
        return self._moved(index, [made], back)

    def _softmax(self, index: int, node: Node) -> str:
        return self._along(index, node, "softmax<T>({0}, {1})")

    def _log_softmax(self, index: int, node: Node) -> str:
        return self._along(index, node, "log_softmax<T>({0}, {1})")

    def _cumsum(self, index: int, node: Node) -> str:
        call = "[](const T& a, const T& b) -> T {{ return a + b; }}"
        return self._along(index, node, f"running<T>({{0}}, {{1}}, {call})")

    def _cumprod(self, index: int, node: Node) -> str:
        call = "[](const T& a, const T& b) -> T {{ return a * b; }}"
        return self._along(index, node, f"running<T>({{0}}, {{1}}, {call})")

    def _power(self, index: int, node: Node) -> str:
        base, exponent = (self._known.get(arg) for arg in node.args)
        if exponent is not None and exponent.ndim == 0:
            form = "{0} * {0}" if exponent == 2 else "pow({0}, {1})"
        elif base is not None and base.ndim == 0:
            form = "exp({1} * R(std::log({0})))"
        else:
            form = "exp(T({1} * log({0})))"
        return self._each(index, node, form, node.shape)

    def _clip(self, index: int, node: Node) -> str:
        low, high = node.keywords["min"], node.keywords["max"]
        form = "{0}" if low is None else "max({0}, {min})"
        form = form if high is None else f"min(T({form}), {{max}})"
        return self._each(index, node, form, node.shape)

    _hardtanh = _clip

    def _norm(self, index: int, node: Node) -> str:
        if node.keywords["ord"] != 2:
            raise Unsupported("it has `norm` of order 2 only")
        (arg,) = node.args
        axes = axes_of(node.keywords["axis"], len(self._program.nodes[arg].shape))
        array, count = self._rows_of(index, arg, axes)
        square = "[](const T& a) -> T { return a * a; }"
        squares = self._let(index, f"each<T>({self._size(arg)}, {square}, {array})")
        total = self._let(index, f"rows<T>({squares}, {count}, sum<T>)")
        root = "[](const T& a) -> T { return sqrt(a); }"
        return f"each<T>({math.prod(node.shape)}, {root}, {total})"

    def _trace(self, index: int, node: Node) -> str:
        (arg,) = node.args
        shape = self._program.nodes[arg].shape
        numbers = np.arange(math.prod(shape)).reshape(shape)
        map = np.diagonal(numbers, node.keywords["offset"], -2, -1)
        entries = self._moved(index, [self._array(arg, "float")], map)
        return f"rows<T>({entries}, {map.shape[-1]}, sum<T>)"

    def _matmul(self, index: int, node: Node) -> str:
        left, right = node.args
        return self._product(index, self._operand(left), self._operand(right))

    _dot = _matmul

    def _operand(self, arg: int) -> tuple[str, Array]:
        shape = self._program.nodes[arg].shape
        return self._array(arg, "float"), np.arange(math.prod(shape)).reshape(shape)

    def _product(self, index: int, left: tuple[str, Array], right: tuple[str, Array]) -> str:
        """Of arrays (..., n, k) and (..., k, m), or vectors; each with its entries' numbers."""
        (a, x), (b, y) = left, right
        x = x[None, :] if x.ndim == 1 else x
        y = y[:, None] if y.ndim == 1 else y
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        x = np.broadcast_to(x, (*batch, *x.shape[-2:]))
        y = np.broadcast_to(y, (*batch, *y.shape[-2:]))
        names = [self._moved(index, [name], map) for name, map in ((a, x), (b, y))]
        sizes = f"{math.prod(batch)}, {x.shape[-2]}, {x.shape[-1]}, {y.shape[-1]}"
        return f"matmul<T>({names[0]}, {names[1]}, {sizes})"

    def _outer(self, index: int, node: Node) -> str:
        (a, x), (b, y) = (self._operand(arg) for arg in node.args)
        return self._product(index, (a, x[:, None]), (b, y[None, :]))

    def _linear(self, index: int, node: Node) -> str:
        x, (w, numbers), (b, biases) = (self._operand(arg) for arg in node.args)
        product = self._let(index, self._product(index, x, (w, numbers.T)))
        bias = self._moved(index, [b], np.broadcast_to(biases, node.shape))
        add = "[](const T& a, const T& b) -> T { return a + b; }"
        return f"each<T>({math.prod(node.shape)}, {add}, {product}, {bias})"


def literal(value: float) -> str:
    """A number, exactly."""
    if math.isnan(value):
        return "std::numeric_limits<R>::quiet_NaN()"
    if math.isinf(value):
        sign = "" if value > 0 else "-"
        return f"({sign}std::numeric_limits<R>::infinity())"
    return f"R({value.hex() if value != int(value) or abs(value) > 1e15 else int(value)})"
