"""Enclose the Hessian of a large lifted layer along directions, in float64 balls or with more
bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.certified.enclosed_rows import slack_of
from gradcheck_cli.checks.certified.program_truth import ProgramTruth
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.truth.certified.enclose import certify
from gradcheck_cli.truth.certified.enclosed_products import EnclosedArray, TooManyNumbers

MODE: Mode = "reverse-over-reverse"  # all compositions have the same Hessian

EnclosedBlocks = dict[tuple[str, str], EnclosedArray]
"""Enclosures (n, directions) by pairs of leaves."""


def enclosed_hessian(program: ProgramTruth, row: Array, directions: Values) -> EnclosedBlocks:
    """The Hessian of row @ output along directions (k, n) of each leaf; nothing if the program is
    too large or at a jump."""
    from reference_engine.arithmetic.arbs import NotInBalls, Undecided

    found = {}
    try:
        for second, along in directions.items():
            columns = [program.bent(row, second, u) for u in along]
            for first in directions:
                parts = [column[first] for column in columns]
                found[first, second] = EnclosedArray(
                    np.stack([part.value for part in parts], axis=1),
                    np.stack([part.radius for part in parts], axis=1),
                )
    except (NotInBalls, TooManyNumbers, Undecided):
        return {}
    return found


def with_more_bits(
    program: ProgramTruth, row: Array, directions: Values, found: EnclosedBlocks
) -> EnclosedBlocks:
    """Replace wide entries of `enclosed_hessian` by entries of the certified Hessian, if the
    program is small. Cancelling terms leave no digits in float64, nor in the finite differences
    that would be the truth instead."""
    if is_settled(found) or program.radii:  # more bits do not narrow radii
        return found
    projection = Projection(row[None], directions)
    request = replace(program.request({MODE: projection}, tuple(directions)), dtype="float64")
    certificates = certify(replace(request, program=rounded(request.program, request.dtype)))
    blocks = {}
    for (first, second), wide in found.items():
        one = certificates[MODE, program.block_name(first, second)]
        better = one.sure & ~_is_narrow(wide)
        blocks[first, second] = EnclosedArray(
            np.where(better, one.value, wide.value),
            np.where(better, one.radius, wide.radius),
        )
    return blocks


def is_settled(blocks: EnclosedBlocks) -> bool:
    """Whether every entry has a narrow enclosure."""
    return all(bool(np.all(_is_narrow(block))) for block in blocks.values())


def along_firsts(found: EnclosedBlocks, firsts: Values) -> EnclosedBlocks:
    """The rows of each block along directions (k, n) of its first leaf. Terms may cancel, so they
    are added up before an error is accepted."""
    blocks = {}
    for key, block in found.items():
        rows = firsts[key[0]]
        size = np.abs(rows)
        roundings = (rows.shape[1] + 1) * FORMATS["float64"].unit_roundoff  # of a sum of products
        radius = size @ (block.radius + roundings * np.abs(block.value))
        blocks[key] = EnclosedArray(rows @ block.value, radius)
    return blocks


def accepted(found: EnclosedArray) -> EnclosedArray:
    """The enclosure with the accepted error as radius."""
    return EnclosedArray(found.value, slack_of(found))


def truth_of_enclosure(found: EnclosedArray) -> TruthBlock:
    """The enclosure as truth; entries with wide error bars are undecided."""
    narrow = _is_narrow(found)
    kind = np.where(narrow, int(PointKind.SMOOTH), int(PointKind.UNDECIDED))
    error = np.where(narrow, slack_of(found), np.inf)
    return TruthBlock.of(found.value, error, kind=kind, certified=narrow)


def _is_narrow(found: EnclosedArray) -> Array:
    return accepted(found).is_narrow(np.zeros(found.value.shape))
