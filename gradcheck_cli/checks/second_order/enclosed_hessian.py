"""The Hessian of a large lifted layer along directions, enclosed: in balls of float64, or with more
bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.certified.enclosed_rows import granted
from gradcheck_cli.checks.certified.program_truth import ProgramTruth
from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.truth.certified.enclose import certify
from gradcheck_cli.truth.certified.enclosed_products import EnclosedArray, TooManyNumbers

MODE: Mode = "reverse-over-reverse"  # of any composition, as all have the same Hessian

EnclosedBlocks = dict[tuple[str, str], EnclosedArray]
"""By leaf and leaf, (n, directions)."""


def enclosed_hessian(program: ProgramTruth, row: Array, directions: Values) -> EnclosedBlocks:
    """The Hessian of row @ output along directions (k, n) of each leaf, with the error that is not
    looked into; nothing where the program is too large, or stands on a jump."""
    from reference_engine.arithmetic.arbs import NotInBalls, Undecided

    words, found = program.words, {}
    try:
        products = program.products(again=True)
        for second, along in directions.items():
            columns = [products.bent(row, {words[second]: u}) for u in along]
            for first in directions:
                parts = [column[words[first]] for column in columns]
                found[first, second] = EnclosedArray(
                    np.stack([part.value for part in parts], axis=1),
                    np.stack([granted(part) for part in parts], axis=1),
                )
    except (NotInBalls, TooManyNumbers, Undecided):
        return {}
    return found


def with_more_bits(
    program: ProgramTruth, row: Array, directions: Values, found: EnclosedBlocks
) -> EnclosedBlocks:
    """The blocks that `enclosed_hessian` found, with entries of the certified Hessian in place of
    wide ones, where few operations give it: terms that cancel leave float64 no digits, and neither
    do they leave the differences that would be the truth instead."""
    if is_settled(found) or program.radii:  # radii: numbers that no bits make narrower
        return found
    projection = Projection(row[None], directions)
    request = replace(program.request({MODE: projection}, tuple(directions)), dtype="float64")
    certificates = certify(replace(request, program=rounded(request.program, request.dtype)))
    blocks = {}
    for (first, second), wide in found.items():
        one = certificates[MODE, program.block_name(first, second)]
        better = one.sure & ~_is_narrow(wide)
        exact = EnclosedArray(one.value, one.radius)
        blocks[first, second] = EnclosedArray(
            np.where(better, one.value, wide.value), np.where(better, granted(exact), wide.radius)
        )
    return blocks


def is_settled(blocks: EnclosedBlocks) -> bool:
    """Whether every entry has a narrow bar."""
    return all(bool(np.all(_is_narrow(block))) for block in blocks.values())


def enclosed_alone(found: EnclosedArray) -> TruthBlock:
    """What is enclosed as the truth; undecided where its bar is wide."""
    narrow = _is_narrow(found)
    kind = np.where(narrow, int(PointKind.SMOOTH), int(PointKind.UNDECIDED))
    error = np.where(narrow, found.radius, np.inf)
    return TruthBlock.of(found.value, error, kind=kind, certified=narrow)


def _is_narrow(found: EnclosedArray) -> Array:
    return found.is_narrow(np.zeros(found.value.shape))
