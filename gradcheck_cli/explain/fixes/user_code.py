"""Write a fix in the user's own code: the expression to replace, and its replacement in the names
available there.

Variables are matched by value: a variable stands for the node that has its value at both points.
Saturated nodes have equal values at nearby points, so names are also compared far away. A fix in
names must be run before it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.lifting import agree
from gradcheck_cli.engines.layer.rewriting import Seen, atom
from gradcheck_cli.explain.fixes.code import Inline, inline
from gradcheck_cli.truth.plain import PlainFunction

LONGEST = 160  # the most characters of a replacement

Watch = Callable[[Place], Sequence[Sequence[Seen]]]
"""Returns the evaluations of an expression at each of two points; none if it cannot be watched."""


@dataclass(frozen=True, slots=True)
class Rewording:
    """Replaces the expression at `place` in the user's code by `code`. `level` counts the
    operations between the part that differs (0) and the expression."""

    place: Place
    code: Inline
    level: int


def reworded(
    original: Program,
    rewritten: Program,
    points: Sequence[Mapping[str, Array]],
    watch: Watch,
    framework: str,
    beyond: Sequence[Mapping[str, Array]] = (),
) -> Rewording | None:
    """How to turn the original into the rewritten program in the user's code. None if no expression
    there has the value of the part that differs, or the framework cannot express its replacement.
    `points` are the values of the inputs at the two points of `watch`, `beyond` those at others."""
    mine, theirs = ([_numbers(one, at) for at in points] for one in (original, rewritten))
    far = [(at, numbers) for at in beyond if _is_finite(numbers := _numbers(original, at))]
    theirs += [_numbers(rewritten, at) for at, _ in far]
    for level, pairs in enumerate(_differing_nodes(original, rewritten)):
        place = _place(original, [old for old, _ in pairs])
        if place is None:
            continue
        old, new = min(pairs)
        named = _values_of_names(mine, old, watch(place))
        if named is None:
            continue
        named = _extended_values(named, original, mine, [numbers for _, numbers in far])
        code = _code(rewritten, new, theirs, named, framework)
        if code is not None:
            return Rewording(place, code, level)
    return None


def _is_finite(numbers: Sequence[Array]) -> bool:
    return all(bool(np.all(np.isfinite(value))) for value in numbers)


def _extended_values(
    named: Mapping[str, Sequence[Array]],
    program: Program,
    numbers: Sequence[Sequence[Array]],
    far: Sequence[Sequence[Array]],
) -> dict[str, list[Array]]:
    """The values of each name, extended by the values at far points of the node that equals it: of
    several, the one with this name, or else the first."""
    extended = {}
    for text, values in named.items():
        nodes = [i for i in range(len(program.nodes)) if _are(numbers, i, values)]
        own = (i for i in nodes if program.nodes[i].name == text)
        node = next(own, next(iter(nodes), None))
        extended[text] = [*values, *([] if node is None else [at[node] for at in far])]
    return extended


def in_names(
    program: Program,
    points: Sequence[Mapping[str, Array]],
    named: Mapping[str, Sequence[Array]],
    framework: str,
) -> Inline | None:
    """The result of a program as code in variables with the `named` values at the points; None if
    the framework cannot express it, or it is long."""
    numbers = [_numbers(program, at) for at in points]
    return _code(program, program.output, numbers, named, framework)


def _code(
    program: Program,
    root: int,
    numbers: Sequence[Sequence[Array]],
    named: Mapping[str, Sequence[Array]],
    framework: str,
) -> Inline | None:
    part = _part(program, root, numbers, named)
    code = None if part is None else inline(part, framework)
    return code if code is not None and len(code.expression) <= LONGEST else None


def _place(program: Program, nodes: Sequence[int]) -> Place | None:
    """The place of all these nodes in the user's code; None if they have several."""
    places = {(node.source, node.span): node.text for node in (program.nodes[i] for i in nodes)}
    if len(places) != 1:
        return None
    (((source, span), text),) = places.items()
    return None if source is None else Place(source, span, text)


class _Identities:
    """Numbers nodes so that equal operations on equal arguments have the same number."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def of(self, program: Program) -> list[int]:
        identities: list[int] = []
        for node in program.nodes:
            args = tuple(identities[arg] for arg in node.args)
            name = node.name if node.op == INPUT else None
            keywords = repr(sorted(node.keywords.items()))
            key = (node.op, args, keywords, repr(node.value), name, id(node.custom))
            identities.append(self._known.setdefault(key, len(self._known)))
        return identities


def _differing_nodes(original: Program, rewritten: Program) -> Iterator[list[tuple[int, int]]]:
    """The nodes at which the programs differ, the smallest parts first; several, if a loop or a
    function was rewritten in each of its runs."""
    ids = _Identities()
    mine, theirs = ids.of(original), ids.of(rewritten)
    level = [(original.output, rewritten.output)]
    levels = [level]
    while True:
        below = [
            pair
            for old, new in level
            for pair in _differing_arguments(
                original.nodes[old], rewritten.nodes[new], mine, theirs
            )
            or [(old, new)]
        ]
        if below == level:
            return reversed(levels)
        level = list(dict.fromkeys(below))
        levels.append(level)


def _differing_arguments(
    old: Node, new: Node, mine: Sequence[int], theirs: Sequence[int]
) -> list[tuple[int, int]]:
    """The arguments in which two nodes differ; none if the nodes themselves differ."""
    if (old.op, len(old.args), repr(old.keywords)) != (new.op, len(new.args), repr(new.keywords)):
        return []
    return [(i, j) for i, j in zip(old.args, new.args, strict=True) if mine[i] != theirs[j]]


def _numbers(program: Program, values: Mapping[str, Array]) -> list[Array]:
    """The value of every node; nan if it depends on a function with a custom gradient."""
    nodes, inputs = list(program.nodes), dict(program.inputs)
    unknown: dict[str, Array] = {}
    for index, node in enumerate(nodes):
        if node.op == CUSTOM:
            name = f"custom gradient {index}"
            nodes[index] = replace(node, op=INPUT, args=(), name=name, custom=None)
            inputs[name] = index
            unknown[name] = np.full(node.shape, np.nan)
    plain = PlainFunction(replace(program, nodes=tuple(nodes), inputs=inputs), "float64")
    return [np.asarray(value) for value in plain.nodes({**values, **unknown})]


def _values_of_names(
    numbers: Sequence[Sequence[Array]], root: int, seen: Sequence[Sequence[Seen]]
) -> dict[str, list[Array]] | None:
    """The values of the names at the points, in an evaluation of the expression that equals node
    `root`; None if there is none."""
    if len({len(at) for at in seen}) != 1:
        return None
    for evaluations in zip(*seen, strict=True):
        if _are(numbers, root, [one.value for one in evaluations]):
            return named_in_all(evaluations)
    return None


def named_in_all(evaluations: Sequence[Seen]) -> dict[str, list[Array]]:
    """The values of the names that every evaluation has."""
    first, *others = (one.named for one in evaluations)
    texts = [text for text in first if all(text in other for other in others)]
    return {text: [one.named[text] for one in evaluations] for text in texts}


def _are(numbers: Sequence[Sequence[Array]], index: int, values: Sequence[Array]) -> bool:
    """Whether a node has these values at the first points of `numbers`."""
    return all(
        at[index].shape == value.shape
        and bool(np.any(np.isfinite(value)))
        and agree(value, at[index])
        for at, value in zip(numbers, values, strict=False)
    )


def _part(
    program: Program,
    root: int,
    numbers: Sequence[Sequence[Array]],
    named: Mapping[str, Sequence[Array]],
) -> Program | None:
    """The program that computes one node from names, or their negatives; None if an input has no
    name."""
    texts: dict[int, tuple[str, bool]] = {}
    needed, waiting = {root}, [root]
    while waiting:
        index = waiting.pop()
        node = program.nodes[index]
        known = None if index == root or node.op == CONSTANT else _text(numbers, index, named)
        if known is not None:
            texts[index] = known
        elif node.op == INPUT:
            return None
        else:
            waiting += set(node.args) - needed
            needed.update(node.args)
    nodes: list[Node] = []
    places: dict[int, int] = {}
    inputs: dict[str, int] = {}
    for index in sorted(needed):
        node = replace(program.nodes[index], name=None)
        if index in texts:
            text, negative = texts[index]
            if text not in inputs:
                inputs[text] = len(nodes)
                nodes.append(replace(node, op=INPUT, args=(), keywords={}, name=text, custom=None))
            places[index] = inputs[text]
            if not negative:
                continue
            node = replace(node, op="negative", args=(inputs[text],), keywords={})
        else:
            node = replace(node, args=tuple(places[arg] for arg in node.args))
        places[index] = len(nodes)
        nodes.append(node)
    return Program(tuple(nodes), inputs, (places[root],), "")


def _text(
    numbers: Sequence[Sequence[Array]], index: int, named: Mapping[str, Sequence[Array]]
) -> tuple[str, bool] | None:
    """The shortest name of a node, and whether the node is its negative; None if it has no name."""
    for negative in (False, True):
        for text in sorted(named, key=len):
            if any(one.dtype.kind != "f" for one in named[text]):
                continue
            values = [-one if negative else one for one in named[text]]
            if _are(numbers, index, values):
                return atom(text), negative
    return None
