"""The lines of one generated C++ function: its arrays and their names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.errors import Unsupported
from reference_engine.op import TABLE as ROWS


@dataclass(slots=True)
class Pool:
    """Arrays joined into one. Equal arrays are stored once."""

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


@dataclass(slots=True)
class Pools:
    """The arrays that all functions of a translation unit receive besides their inputs."""

    maps: Pool = field(default_factory=Pool)
    constants: Pool = field(default_factory=Pool)
    flags: Pool = field(default_factory=Pool)


class Body:
    """The code of a program in one dtype. `known` has the values of nodes that depend on no
    floating input. Every other node is an array called `n` followed by its number."""

    def __init__(self, program: Program, dtype: str, pools: Pools) -> None:
        self.program = program
        self.dtype = dtype
        self.known: dict[int, Array] = {}
        self.lines: list[str] = []
        self.about: list[int] = []  # the node that a line is about
        self._pools = pools
        self._count = 0

    def line(self, index: int, text: str) -> None:
        self.about.append(index)
        self.lines.append(text)

    def let(self, index: int, expression: str) -> str:
        """Name a new array."""
        self._count += 1
        name = f"a{self._count}"
        self.line(index, f"const auto {name} = {expression};")
        return name

    def name_of(self, index: int, expression: str) -> str:
        """A name for the array, new if the expression is not a name yet."""
        return self.let(index, expression) if "(" in expression else expression

    def shape(self, index: int) -> tuple[int, ...]:
        return self.program.nodes[index].shape

    def size(self, index: int) -> int:
        return math.prod(self.shape(index))

    def evaluated(self, node: Node) -> Array:
        """The value of a node by its row, on plain numbers: known nodes need no derivative."""
        kinds = {"float": np.dtype(self.dtype), "int": np.dtype("int64"), "bool": np.dtype("bool")}
        args = [
            self.known[arg].astype(kinds[wanted])
            if arg in self.known
            else np.zeros(self.program.nodes[arg].shape, dtype=self.dtype)
            for arg, wanted in zip(node.args, node.wants, strict=True)
        ]
        keywords = dict(node.keywords)
        if "dtype" in keywords:
            keywords["dtype"] = kinds[node.kind]
        return np.asarray(ROWS[node.op].value(*args, **keywords))

    # ---- arguments

    def array(self, index: int, kind: str) -> str:
        """The C++ expression for the array of a node. Raises Unsupported if a floating number is
        wanted as a condition or an index."""
        if index not in self.known:
            if kind == self.program.nodes[index].kind:
                return f"n{index}"
            if kind == "float":  # a mask as numbers
                size = self.size(index)
                call = "[](Flag c) -> T { return T(R(c)); }"
                return self.let(index, f"each<T>({size}, {call}, n{index})")
            raise Unsupported("a number cannot stand for a condition or an index here")
        array = self.known[index]
        if kind == "bool":
            place = self._pools.flags.place(array.astype("uint8"))
            return f"flags(given.flags + {place}, {array.size})"
        place = self._pools.constants.place(array.astype(self.dtype))
        return f"constants<T>(given.constants + {place}, {array.size})"

    def map(self, map: Array) -> str:
        """An index map as C++ arguments: its start and its length."""
        return f"given.maps + {self._pools.maps.place(map.astype('int64'))}, {map.size}"

    def rearranged(self, index: int, names: Sequence[str], size: int, map: Array) -> str:
        """The entries of the arrays, `size` in total when joined, rearranged by `map`."""
        if len(names) == 1 and np.array_equal(map.ravel(), np.arange(size)):
            return names[0]
        held = [self.name_of(index, name) for name in names]
        arrays = ", ".join(f"&{name}" for name in held)
        return self.let(index, f"gather<T>({self.map(map)}, {{{arrays}}})")
