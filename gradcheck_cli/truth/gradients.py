"""The reference engine's float64 derivatives at the rounded inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.blocks import blocks_in
from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import SECOND, Evaluation, Mode, Projection
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.truth.plain import inlined


@dataclass(frozen=True, slots=True)
class Float64Gradients:
    """Blocks by (mode, name), shape (rows, columns): `true` is the derivative of the forward,
    `stated` follows the custom gradients, `spread` is the distance between two ways of computing
    `true`."""

    true: Mapping[tuple[Mode, str], Array]
    stated: Mapping[tuple[Mode, str], Array]
    spread: Mapping[tuple[Mode, str], Array]
    output: Array
    reason: str


def float64_gradients(request: TruthRequest, engine: ReferenceEngine) -> Float64Gradients:
    """Return every block to be judged, computed by the reference engine in float64."""
    program = inlined(request.program)
    plain = replace(request, program=program)
    answers = {mode: _evaluate(plain, mode, engine) for mode in request.projections}
    stated = answers
    if request.program.has_custom_gradient:
        stated = {mode: _evaluate(request, mode, engine) for mode in request.projections}
    true = _blocks(answers, request)
    spread = {key: _spread(key, true, request) for key in true}
    outputs = [a.output for a in answers.values() if a.output is not None]
    failures = [a.failure.message for a in answers.values() if a.failure is not None]
    return Float64Gradients(
        true=true,
        stated=_blocks(stated, request),
        spread=spread,
        output=outputs[0] if outputs else np.asarray(np.nan),
        reason=failures[0] if failures else "",
    )


def _evaluate(request: TruthRequest, mode: Mode, engine: ReferenceEngine) -> Evaluation:
    return engine.evaluate(request.problem(mode, dtype="float64"))


def _blocks(
    answers: Mapping[Mode, Evaluation], request: TruthRequest
) -> dict[tuple[Mode, str], Array]:
    """The blocks of every answer, with zeros for an input that the output does not depend on."""
    blocks: dict[tuple[Mode, str], Array] = {}
    for mode, answer in answers.items():
        shapes = block_shapes(request, mode)
        for name, shape in shapes.items():
            gradient = answer.gradients.get(name)
            if answer.failure is not None:
                blocks[mode, name] = np.full(shape, np.nan)
            elif gradient is None or gradient.values is None:
                blocks[mode, name] = np.zeros(shape)
            else:
                blocks[mode, name] = gradient.values
    return blocks


def numbers_asked(mode: Mode, projection: Projection) -> object:
    """A key that two modes share if they are requested the same derivatives."""
    parts = (projection.rows, projection.columns, projection.firsts)
    return mode in SECOND, *map(id, parts)


def block_shapes(request: TruthRequest, mode: Mode) -> dict[str, tuple[int, int]]:
    """The shape (rows, columns) of every block of a mode."""
    projection = request.projections[mode]
    columns = counts(request, projection.columns)
    if mode in SECOND:
        blocks, rows_of = blocks_in(mode, request.wrt), counts(request, projection.firsts)
        return {str(block): (rows_of[block.rows], columns[block.columns]) for block in blocks}
    output = request.program.result.shape
    rows = int(np.prod(output)) if projection.rows is None else len(projection.rows)
    return {name: (rows, columns[name]) for name in request.wrt}


def counts(request: TruthRequest, directions: Mapping[str, Array] | None) -> dict[str, int]:
    """The number of directions of each input, or of its entries if no directions are given."""
    given = directions or {}
    return {n: len(given[n]) if n in given else np.size(request.values[n]) for n in request.wrt}


PARTNERS: dict[Mode, Mode] = {
    "reverse": "forward",
    "forward": "reverse",
    "reverse-over-reverse": "forward-over-reverse",
    "forward-over-reverse": "reverse-over-reverse",
    "reverse-over-forward": "forward-over-reverse",
    "forward-over-forward": "forward-over-reverse",
    "reverse-over-reverse-over-reverse": "forward-over-reverse-over-reverse",
    "forward-over-reverse-over-reverse": "reverse-over-reverse-over-reverse",
}


def _spread(
    key: tuple[Mode, str], true: Mapping[tuple[Mode, str], Array], request: TruthRequest
) -> Array:
    """The distance to the other mode's block if both were computed whole, plus a few ulps."""
    mode, name = key
    mine = true[key]
    few = 4 * FORMATS["float64"].ulp(mine)
    theirs = true.get((PARTNERS[mode], name))
    if theirs is None or theirs.shape != mine.shape or not _same_part(mode, request):
        return few
    apart = np.abs(mine - theirs)
    return few + np.where(np.isfinite(apart), apart, 0.0)


def _same_part(mode: Mode, request: TruthRequest) -> bool:
    """Check whether both modes were requested the whole Jacobian, entry by entry."""
    one, other = request.projections[mode], request.projections[PARTNERS[mode]]
    if mode in ("reverse", "forward"):
        parts = (one.rows, one.columns, other.rows, other.columns)
        return all(part is None for part in parts)
    return one.columns is other.columns and one.firsts is other.firsts
