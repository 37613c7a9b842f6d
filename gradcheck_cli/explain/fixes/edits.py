"""Small edits of the value that a hand-written derivative returns: a sign, a factor, another name.

An edit is one change of the returned expression, or of an expression that the same function assigns
to a name in it (mutation operators of program repair: Le Goues et al., "GenProg", IEEE TSE 38,
2012). Nothing is run here.
"""

from __future__ import annotations

import ast
import copy
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.custom import Path
from gradcheck_cli.engines.layer.rewriting import with_parts
from gradcheck_cli.engines.layer.source_lines import ReadFunction

_OPPOSITES: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
_COMPARISONS: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
}
_TWINS = (
    *(("sin", "cos"), ("sinh", "cosh"), ("sum", "mean"), ("reduce_sum", "reduce_mean")),
    *(("sqrt", "rsqrt"), ("max", "min"), ("amax", "amin"), ("zeros_like", "ones_like")),
)
_SLOPES = (
    "1 - {}",
    "1 + {}",
    "1 - {0} ** 2",
)  # of sigmoid, exp(x) - 1 and tanh, from their values
_DESCRIPTIONS = ("shape", "size", "numel", "ndim", "dtype", "device")
"""Attributes that say what an array is: an array that is changed to change them is no fix."""
_CONJUGATED_TWICE = ("conj().conj()", "conj(tf.math.conj(")
_OTHER = dict(_TWINS) | {second: first for first, second in _TWINS}


@dataclass(frozen=True, slots=True)
class Notation:
    """How a framework writes what an edit may add, as templates: a transposed matrix, the conjugate
    and the number of entries of an array, and its sum and mean along the last axis, which is
    kept."""

    transposed: str = "{}.T"
    conjugate: str = "{}.conj()"
    count: str = "{}.size"
    reductions: tuple[str, str] = ("({}).sum(-1, keepdims=True)", "({}).mean(-1, keepdims=True)")

    def sizes(self, arrays: Mapping[str, tuple[int, ...]]) -> list[str]:
        """Expressions for the numbers of entries of these arrays and their axes, without
        repeats."""
        texts: dict[int, str] = {1: ""}
        for name, shape in arrays.items():
            texts.setdefault(math.prod(shape), self.count.format(name))
            for axis, size in enumerate(shape):
                texts.setdefault(size, f"{name}.shape[{axis}]")
        return [text for text in texts.values() if text]


@dataclass(frozen=True, slots=True)
class Returned:
    """The value that a function returns for one argument: the expression at `place`, with the
    `definitions` of the names that are assigned once."""

    read: ReadFunction
    value: ast.expr
    definitions: Mapping[str, ast.expr]

    @property
    def place(self) -> Place:
        return self.read.place_of(self.value)

    @property
    def places(self) -> list[tuple[Place, str]]:
        """The places at which the value can be rewritten: where a returned variable is assigned,
        with its name, and where it is returned."""
        places = [(self.place, "")]
        if isinstance(self.value, ast.Name) and self.value.id in self.definitions:
            name = self.value.id
            places.insert(0, (self.read.place_of(self.definitions[name]), name))
        return places

    def written_out(self, name: str, definition: ast.expr) -> ast.expr:
        """The expression with another definition of one name."""
        return _Substitute({name: definition}, self.definitions).visit(self.value)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces the expression at `place` by `after`; the function then returns `whole`, in terms of
    the variables available at its return. Edits share the parts of `whole` that they leave."""

    place: Place
    after: str
    whole: ast.expr


def returned_value(read: ReadFunction, path: Path, part: int | None = None) -> Returned | None:
    """The part of the last value that the function returns to which the path leads, or part `part`
    of that; None if it cannot be determined."""
    value = read.returned_expression(*path)
    if part is not None:
        parts = value.elts if isinstance(value, ast.Tuple) else []
        value = parts[part] if part < len(parts) else None
    if value is None:
        return None
    counts: dict[str, int] = {}
    assigned: dict[str, ast.expr] = {}
    for node in read.own:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            counts[node.id] = counts.get(node.id, 0) + 1
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned[node.targets[0].id] = node.value
    again = read.parameters | {name for name, count in counts.items() if count > 1}
    once = {name: one for name, one in assigned.items() if name not in again}
    return Returned(read, value, once)


def edits(
    returned: Returned,
    arrays: Mapping[str, tuple[int, ...]],
    notation: Notation,
    sized: bool,
    are_complex: bool = False,
) -> list[Edit]:
    """All edits, in the order to try: first those that add a number of entries (only if `sized`),
    then by how many new numbers and divisions they add, then signs and factors of the whole, then
    the shortest. `arrays` are the shapes of the variables that are arrays."""
    sizes = notation.sizes(arrays) if sized else []
    maker = _Maker(arrays, sizes, notation, are_complex)
    ordered: list[tuple[tuple[int, bool, int], Edit]] = []

    def add(place: Place, old: ast.expr, new: ast.expr, whole: ast.expr) -> None:
        before, after = ast.unparse(old), ast.unparse(new)
        if any(twice in after for twice in _CONJUGATED_TWICE):
            return  # removing the conjugate is the shorter edit
        adds_size = any(after.count(size) > before.count(size) for size in sizes)
        rank = -1 if adds_size else _added(old, new)
        order = (rank, before not in after, len(after))
        ordered.append((order, Edit(place, after, whole)))

    value = returned.value
    for name in _defined_names(returned):
        definition = returned.definitions[name]
        place = returned.read.place_of(definition)
        is_returned = isinstance(value, ast.Name) and value.id == name
        for new in maker.edited(definition, is_returned):
            add(place, definition, new, returned.written_out(name, new))
    for new in maker.edited(value, True):
        add(returned.place, value, new, new)
    return [edit for _, edit in sorted(ordered, key=lambda one: one[0])]


def _added(old: ast.expr, new: ast.expr) -> int:
    """The number of constants in the new expression that the old one does not have, and twice the
    number of divisions, which fail at zero: x ** (n - 1) comes before x ** n / x."""
    before, after = (
        Counter(repr(node.value) for node in ast.walk(one) if isinstance(node, ast.Constant))
        for one in (old, new)
    )
    divisions = [sum(isinstance(n, ast.Div) for n in ast.walk(one)) for one in (old, new)]
    return sum((after - before).values()) + 2 * max(0, divisions[1] - divisions[0])


def _defined_names(returned: Returned) -> list[str]:
    """The names with a definition that the expression depends on, the nearest first."""
    names: dict[str, None] = {}
    waiting = [returned.value]
    while waiting:
        for node in ast.walk(waiting.pop(0)):
            if isinstance(node, ast.Name) and node.id in returned.definitions:
                if node.id not in names:
                    waiting.append(returned.definitions[node.id])
                names[node.id] = None
    return list(names)


class _Substitute(ast.NodeTransformer):
    """Replaces names with a new definition, and names computed from them, by their definitions."""

    def __init__(self, new: Mapping[str, ast.expr], known: Mapping[str, ast.expr]) -> None:
        self._new, self._known = new, known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._new:
            return self._new[node.id]
        if node.id not in self._known:
            return node
        written: ast.expr = self.visit(self._known[node.id])
        return node if written is self._known[node.id] else written

    def generic_visit(self, node: ast.AST) -> Any:
        return with_parts(node, self.visit)


class _Maker:
    """Creates the edits of one expression."""

    def __init__(
        self,
        names: Mapping[str, tuple[int, ...]],
        sizes: Iterable[str],
        notation: Notation,
        are_complex: bool,
    ) -> None:
        self._names = names
        self._are_complex = are_complex
        self._notation = notation
        self._sizes = [_parsed(text) for text in sizes]
        self._factors = [*map(_parsed, names), *self._sizes]
        self._projections = {name: [*map(_parsed, self._projected(name))] for name in names}
        self._slopes = [_parsed(text.format(name)) for name in names for text in _SLOPES]

    def edited(self, root: ast.expr, is_returned: bool) -> Iterator[ast.expr]:
        """The expression with one edit, for every edit at every place. If it `is_returned` as it
        is, also in its place each variable without its projection, times another variable."""
        yield from self._scaled(root)
        yield from self._edits_within(root)
        if is_returned:
            for projected in chain.from_iterable(self._projections.values()):
                yield from (ast.BinOp(_parsed(one), ast.Mult(), projected) for one in self._names)

    def _scaled(self, term: ast.expr) -> Iterator[ast.expr]:
        """The term with another sign, or with one more factor or summand."""
        if not isinstance(term, ast.UnaryOp):  # another edit removes its sign
            yield ast.UnaryOp(ast.USub(), term)
        yield _twice(term)
        yield ast.BinOp(term, ast.Div(), ast.Constant(2))
        for factor in self._factors:
            yield ast.BinOp(term, ast.Mult(), factor)
            yield ast.BinOp(term, ast.Div(), factor)
        for slope in self._slopes:
            yield ast.BinOp(term, ast.Mult(), slope)
        for name in map(_parsed, self._names):  # the cotangent of another output
            yield ast.BinOp(term, ast.Add(), name)
            yield ast.BinOp(term, ast.Sub(), name)

    def _edits_within(self, node: ast.expr) -> Iterator[ast.expr]:
        yield from self._edits_of(node)
        for field, child in _parts(node):
            for new in self._edits_within(child):
                yield _with(node, field, new)
            if _is_term(node, child):
                for new in self._scaled(child):
                    yield _with(node, field, new)

    def _edits_of(self, node: ast.expr) -> Iterator[ast.expr]:
        match node:
            case ast.BinOp():
                yield from _other_operations(node)
                if isinstance(node.op, ast.Pow) and not isinstance(node.right, ast.Constant):
                    yield from _next_powers(node)
            case ast.UnaryOp(op=ast.USub()):
                yield node.operand
            case ast.Compare(ops=[operator]):
                for other in _COMPARISONS.get(type(operator), ()):
                    yield ast.Compare(node.left, [other()], node.comparators)
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                others = (2 * number, number / 2, -number, number + 1, number - 1)
                yield from (ast.Constant(_short(one)) for one in others if one not in (number, 0))
            case ast.Call():
                yield from _other_calls(node)
                if self._are_complex and getattr(node.func, "attr", "") != "conj":
                    yield _parsed(self._notation.conjugate.format(ast.unparse(node)))
            case ast.Name() if node.id in self._names:
                yield from self._other_names(node)
            case ast.Subscript(value=ast.Attribute(attr="shape")):
                yield from (one for one in self._sizes if ast.dump(one) != ast.dump(node))

    def _other_names(self, node: ast.Name) -> Iterator[ast.expr]:
        yield ast.BinOp(node, ast.Pow(), ast.Constant(2))
        if self._are_complex:
            yield _parsed(self._notation.conjugate.format(node.id))
        if len(self._names[node.id]) == 2:
            yield _parsed(self._notation.transposed.format(node.id))
        for name in self._names:
            if name != node.id:
                yield _parsed(name)
        yield from (_parsed(slope.format(node.id)) for slope in _SLOPES)
        yield from self._projections[node.id]

    def _projected(self, name: str) -> Iterator[str]:
        """The array without its projection on another one, as after a softmax, a division by a
        norm, or a normalisation to mean 0 and variance 1."""
        for other, shape in self._names.items():
            if other == name or not shape or shape != self._names[name]:
                continue
            for reduction in self._notation.reductions:
                along = reduction.format(f"{name} * {other}")
                yield f"{name} - {along}"
                yield f"{name} - {other} * {along}"


def _twice(term: ast.expr) -> ast.BinOp:
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        return ast.BinOp(_twice(term.left), term.op, term.right)
    return ast.BinOp(ast.Constant(2), ast.Mult(), term)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _is_term(node: ast.expr, part: ast.expr) -> bool:
    """Whether a part may lack a factor that the whole has: a summand or an argument."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Sub)
    return isinstance(node, ast.Call) and part in node.args


def _parts(node: ast.expr) -> Iterator[tuple[tuple[str, int | None], ast.expr]]:
    """The operands of an expression: arguments of calls, but no functions, axes or indices."""
    match node:
        case ast.BinOp():
            yield ("left", None), node.left
            yield ("right", None), node.right
        case ast.UnaryOp():
            yield ("operand", None), node.operand
        case ast.Call():
            yield from ((("args", i), arg) for i, arg in enumerate(node.args))
            if isinstance(node.func, ast.Attribute):
                yield ("func", None), node.func
        case ast.Attribute(attr=name) if name not in _DESCRIPTIONS:
            yield ("value", None), node.value
        case ast.Subscript():
            yield ("value", None), node.value


def _with(node: ast.expr, field: tuple[str, int | None], new: ast.expr) -> ast.expr:
    name, place = field
    changed = copy.copy(node)
    value: Any = new
    if place is not None:
        value = list(getattr(node, name))
        value[place] = new
    setattr(changed, name, value)
    return changed


def _other_operations(node: ast.BinOp) -> Iterator[ast.expr]:
    opposite = _OPPOSITES.get(type(node.op))
    if opposite is not None:
        yield ast.BinOp(node.left, opposite(), node.right)
    yield node.left
    if isinstance(node.op, ast.MatMult):
        yield ast.BinOp(node.right, node.op, node.left)
    elif not isinstance(node.op, ast.Div | ast.Pow):
        yield node.right


def _next_powers(node: ast.BinOp) -> Iterator[ast.expr]:
    for operator in (ast.Sub(), ast.Add()):
        exponent = ast.BinOp(node.right, operator, ast.Constant(1))
        yield ast.BinOp(node.left, node.op, exponent)


def _other_calls(node: ast.Call) -> Iterator[ast.expr]:
    """The call of the twin function, and the bare argument of a method or a function."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else ""
    if isinstance(function, ast.Attribute) and name in _OTHER:
        twin = ast.Attribute(function.value, _OTHER[name], ast.Load())
        yield ast.Call(twin, node.args, node.keywords)
    inner: Sequence[ast.expr] = node.args
    if isinstance(function, ast.Attribute) and not node.args:
        inner = [function.value]
    yield from inner[:1]


def _short(number: float) -> float | int:
    return int(number) if number == int(number) else number
