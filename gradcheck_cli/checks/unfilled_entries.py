"""Tell entries that a layer's backward never fills from entries that rounding makes zero at this
point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values, ValuesOrNone
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.thresholds import Step
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.engines.tracebacks import where_it_runs
from gradcheck_cli.judge.measures import Mask, is_hidden

# If 1 - tanh(x)^2 is absorbed or exp(-x) underflows at x, neither happens at x / 16.
SMALLER: tuple[Step, ...] = (2.0**-4, 2.0**-8)


Elsewhere = Callable[[Values], ValuesOrNone]


def with_never_filled(
    case: Case, mode: Mode, elsewhere: Elsewhere, leaves: tuple[Leaf, ...]
) -> Case:
    """The case with 0 as the layer's own derivative (`TruthBlock.stated`) for entries that are zero
    here and elsewhere although the truth is not: no precision will fill them. `elsewhere` gives the
    blocks of this mode at other values of the leaves."""
    given = next((e for e in case.evaluations if e.mode == mode), None)
    if given is None or given.failure is not None or case.truth is None:
        return case
    zeros = {
        name: zero
        for name, gradient in given.gradients.items()
        if gradient.values is not None
        for zero in (suspicious(gradient.values, case.truth.blocks[mode, name]),)
        if np.any(zero)
    }
    if not zeros:
        return case
    never = never_filled(zeros, elsewhere, leaves, case.seed)
    blocks = {
        key: block.at(never[key[1]], stated=0.0) if key[0] == mode and key[1] in never else block
        for key, block in case.truth.blocks.items()
    }
    return replace(case, truth=replace(case.truth, blocks=blocks))


def suspicious(g: Array, block: TruthBlock) -> Mask:
    """A mask (m, n) of the entries that are zero although the truth is not, unless the truth is so
    small that cancellation of float64 terms could hide it."""
    off = np.abs(block.value) > block.error
    off &= (g == 0) & (block.kind == PointKind.SMOOTH)
    return np.asarray(off & ~is_hidden(g, block, FORMATS["float64"])) if np.any(off) else off


def never_filled(
    zeros: Mapping[str, Mask], pulled: Elsewhere, leaves: tuple[Leaf, ...], seed: int
) -> dict[str, Mask]:
    """The entries of `zeros` that are zero at every other place where the layer has finite
    gradients, if there is one: with all numbers closer to zero, and at random numbers."""
    never = dict(zeros)
    seen = {name: np.zeros(zero.shape, dtype=np.bool_) for name, zero in zeros.items()}
    for values in _other_points(leaves, seed):
        nothing: ValuesOrNone = {}
        there = where_it_runs(partial(pulled, values), nothing)
        for name in zeros:
            gradient = there.get(name)
            if gradient is not None:
                seen[name] |= np.isfinite(gradient)
                never[name] = never[name] & ((gradient == 0) | ~np.isfinite(gradient))
    return {name: never[name] & seen[name] for name in zeros}


def _other_points(leaves: tuple[Leaf, ...], seed: int) -> Iterator[dict[str, Array]]:
    moving = [leaf for leaf in leaves if leaf.differentiable]
    for factor in SMALLER:
        yield {leaf.name: leaf.value * factor for leaf in moving}
    rng = generator(seed, 53)
    yield {leaf.name: rng.standard_normal(leaf.shape) for leaf in moving}
