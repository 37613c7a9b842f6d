"""Clips beside a pole that cut off the derivative.

log(clip(p, 1e-7, 1)) is constant if p is below the bound. Its derivative is exactly 0 there, while
that of log(p) is not: the bound should keep a number away from the pole, and took the gradient with
it (Zhang et al., Detecting numerical bugs in neural network architectures, ESEC/FSE 2020; Li et
al., Reliability assurance for deep neural network architectures, ICSE 2023). A bound that is not
beside a pole is a choice of the model, and so is a relu. On the pole itself the derivative without
the bound is infinite. At a vertical tangent, as of a square root at 0, the bound is the only
derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.domain.program import INPUT, Program, ProgramCopy
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.truth import Guard, PointKind, TruthBlock
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.truth.certified.enclose import certify
from gradcheck_cli.truth.gradients import float64_gradients
from gradcheck_cli.truth.plain import moving

CLIPS = ("clip", "maximum", "minimum")
SINGULAR = ("pole", "vertical tangent")
_MASK = "beyond the bound"


@dataclass(frozen=True, slots=True)
class _Active:
    """A clip that is beyond its bound where `mask` is true, and the operation with the pole beside
    it."""

    clip: int
    argument: int
    pole: int
    mask: Array


def guards_of(
    request: TruthRequest,
    program: Program,
    at_point: Callable[[], Sequence[Array]],
    blocks: Mapping[tuple[str, str], TruthBlock],
    engine: ReferenceEngine,
) -> tuple[Guard, ...]:
    """Return the clips of `program` (custom gradients inlined) that make entries of the gradient
    exactly 0. Without such a clip these entries would be other numbers, or infinite on a pole.
    `at_point` returns the value of every node; `engine` runs the program if nothing can be
    enclosed."""
    if not any(node.op in CLIPS for node in program.nodes):
        return ()
    modes = {m: p for m, p in request.projections.items() if m in FIRST_ORDER}
    zero = {
        key: block.certified & (block.value == 0) & (block.kind == PointKind.SMOOTH)
        for key, block in blocks.items()
        if key[0] in modes
    }
    if not any(np.any(mask) for mask in zero.values()):
        return ()
    guards = []
    values = [np.asarray(value) for value in at_point()]
    for active in _active(program, values, request.wrt):
        there = replace(
            request,
            program=_unclipped_program(program, active),
            values={**request.values, _MASK: active.mask},
            projections=modes,
        )
        certificates = certify(there)
        lifted = {key: np.where(one.sure, one.value, 0.0) for key, one in certificates.items()}
        unsure = {key: zero[key] & ~one.sure for key, one in certificates.items()}
        if any(map(np.any, unsure.values())) and _has_pole_here(program, values, active.pole):
            for key, plain in float64_gradients(there, engine).true.items():
                lifted[key] = np.where(unsure[key] & np.isinf(plain), plain, lifted[key])
        without: dict[tuple[str, str], Array] = {}
        for key, value in lifted.items():
            lost = zero[key] & (value != 0)
            if np.any(lost):
                without[key] = np.where(lost, value, np.nan)
        if without:
            node = program.nodes[active.clip]
            guards.append(Guard(node.text, node.span, program.nodes[active.pole].op, without))
    return tuple(guards)


def _active(program: Program, values: list[Array], wrt: Sequence[str]) -> Iterator[_Active]:
    """Yield each active clip once, with the first pole beside it."""
    moved = moving(program, wrt)
    for index, node in enumerate(program.nodes):
        arguments = [i for i in node.args if i in moved]
        if node.op not in CLIPS or len(arguments) != 1:
            continue
        beyond = values[index] != values[arguments[0]]
        if not np.any(beyond):
            continue
        for pole, near in _poles_nearby(program, values, index):
            mask = beyond & near if near.shape == beyond.shape else beyond & np.any(near)
            if np.any(mask):
                yield _Active(index, arguments[0], pole, mask)
                break


def _poles_nearby(program: Program, values: list[Array], start: int) -> Iterator[tuple[int, Array]]:
    """Yield the operations that depend on a node and have an argument very near their pole, with a
    mask of these elements."""
    from gradcheck_cli.engines.layer.bounds import NEAR_POLES  # few programs have a guard

    reached = {start}
    for index in range(start + 1, len(program.nodes)):
        node = program.nodes[index]
        if reached.isdisjoint(node.args):
            continue
        reached.add(index)
        for which, at in _singular(node.op):
            if node.args[which] in reached:
                off = np.abs(values[node.args[which]] - at)
                yield index, (off > 0) & (off <= NEAR_POLES)


def has_pole(op: str) -> bool:
    """Check whether an operation is infinite somewhere, not only its derivative. An operation
    without a row in the op table counts as infinite."""
    from reference_engine.traced import ROWS

    row = ROWS.get(op)
    return row is None or any(point.kind == "pole" for point in row.points)


def _has_pole_here(program: Program, values: Sequence[Array], index: int) -> bool:
    """`has_pole` for a node; a power without a negative exponent has no pole."""
    node = program.nodes[index]
    return has_pole(node.op) and (node.op != "power" or bool(np.any(values[node.args[1]] < 0)))


@cache
def _singular(op: str) -> tuple[tuple[int, float], ...]:
    """The poles and vertical tangents of a row: the argument, and its value there."""
    from reference_engine.traced import ROWS

    if op == "divide":
        return ((1, 0.0),)
    if op == "power":
        return ((0, 0.0),)
    if op not in ROWS or not ROWS[op].elementwise or ROWS[op].arity != 1:
        return ()
    points = ROWS[op].points
    return tuple(
        (0, float(p.at[0])) for p in points if p.kind in SINGULAR and np.ndim(p.at[0]) == 0
    )


def _unclipped_program(program: Program, active: _Active) -> Program:
    """The program in which only the operation with the pole takes the argument of the clip instead
    of its result, where a mask is true. The mask is one more input."""
    copy = ProgramCopy(program)
    place = copy.place
    other: dict[int, int] = {}  # by node, the copy without the clip
    mask = -1
    for index, node in enumerate(program.nodes):
        place[index] = copy.add(copy.copied(node))
        if index == active.clip:
            mask = copy.add(replace(node, op=INPUT, args=(), keywords={}, name=_MASK, kind="bool"))
            chosen = (mask, place[active.argument], place[index])
            wants = ("bool", "float", "float")
            where = replace(node, op="where", args=chosen, keywords={}, wants=wants)
            other[index] = copy.add(where)
        elif index <= active.pole and not other.keys().isdisjoint(node.args):
            args = tuple(other.get(i, place[i]) for i in node.args)
            other[index] = copy.add(replace(node, args=args))
        if index == active.pole:
            place[index] = other[index]
    return copy.finished({_MASK: mask})
