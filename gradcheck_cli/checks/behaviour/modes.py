"""Check that both modes differentiate the same function: <v, J u> = <J^T v, u> (GC105)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradcheck_cli.checks.behaviour.baseline import Bars, Bench, Fault, raised
from gradcheck_cli.domain.behaviour import OtherRun
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Values
from gradcheck_cli.domain.thresholds import OPERATIONS, Residue
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.truth.layers.callables import own_size
from gradcheck_cli.truth.numerics.noise import largest_of

A_TERM: Residue = 0.5  # tolerance for a product that may lack a term


def modes_agree(bench: Bench) -> Iterator[Fault]:
    """GC105 if both modes disagree. Skipped without forward mode, for declared surrogates of all
    inputs, and for large layers, where each mode is compared with differences instead."""
    declared = {surrogate.input for surrogate in bench.problem.implementation.surrogates}
    if None in declared or "forward" not in bench.problem.modes or bench.is_summed:
        return
    every = {name: bench.draw(leaf.size) for name, leaf in bench.leaves.items()}
    tangents = {
        name: drawn.reshape(bench.leaves[name].shape)
        for name, drawn in every.items()
        if bench.leaves[name].role != "captured" and name not in declared
    }
    if not tangents:
        return
    try:
        pushed = bench.subject.jvp(tangents)
    except Unsupported:
        return
    except Exception as error:
        yield raised(Codes.MODES_DISAGREE, "in forward mode", error, OtherRun("forward mode"))
        return
    if pushed is None:  # a missing gradient is another finding
        return
    by_forward = float(bench.row @ pushed)
    terms = [bench.gradient(bench.first, name) @ every[name] for name in tangents]
    by_reverse = float(sum(terms))
    gap = abs(by_forward - by_reverse)
    open_part = A_TERM if _is_below_last_digit(bench) else bench.half
    rest = open_part * float(np.abs(bench.row) @ np.abs(pushed)) + _rounding(bench, tangents)
    agree = gap <= _directional_bar(bench.tight_bars, tangents) + rest
    agree = agree or gap <= _directional_bar(bench.bars, tangents) + rest  # `bars` takes more runs
    if np.isfinite(by_reverse) and not agree:
        message = (
            f"<v, J u> is {by_forward:.9g} by forward mode, <J^T v, u> {by_reverse:.9g} by reverse"
        )
        yield Fault(Codes.MODES_DISAGREE, message, other_run=OtherRun("forward mode"))


def _directional_bar(bars: Bars, tangents: Values) -> float:
    """How far apart products of the gradients with tangents may be."""
    return sum(bars.gradients[n] * float(np.sum(np.abs(t))) for n, t in tangents.items())


def _is_below_last_digit(bench: Bench) -> bool:
    """Whether all outputs are smaller than an ulp of the largest input. Both modes may then lack a
    term, and not the same one."""
    output = np.where(np.isfinite(bench.first.output), bench.first.output, 0.0)
    digit = FORMATS[bench.subject.dtype].unit_roundoff
    size = max(largest_of(leaf.kept) for leaf in bench.leaves.values())
    return largest_of(output) <= digit * size


def _rounding(bench: Bench, tangents: Values) -> float:
    """The rounding error of <v, J u> if the derivatives are far smaller than the terms they are
    computed from, as 1 - p in a softmax that is nearly certain."""
    unit = OPERATIONS * FORMATS[bench.subject.dtype].unit_roundoff
    output = np.where(np.isfinite(bench.first.output), bench.first.output, 0.0)
    size = float(np.abs(bench.row) @ np.abs(output))
    moves = sum(  # numbers may be nearly 0
        float(np.sum(np.abs(tangent.reshape(-1)) / own_size(bench.leaves[name].value)))
        for name, tangent in tangents.items()
    )
    return unit * size * moves
