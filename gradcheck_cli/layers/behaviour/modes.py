"""Other ways of differentiating: forward mode (GC105), and the backward again (GC106)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import SECOND
from gradcheck_cli.engines.base import Unsupported
from gradcheck_cli.layers.behaviour.bench import ELSEWHERE, Bench, Fault, farthest, raised


def modes_agree(bench: Bench) -> Iterator[Fault]:
    """GC105, where the framework's forward mode has the layer and no surrogate is declared."""
    declared = {surrogate.input for surrogate in bench.problem.implementation.surrogates}
    if None in declared or "forward" not in bench.problem.modes:
        return
    tangents = {
        name: tangent
        for name, tangent in _tangents(bench).items()
        if bench.leaves[name].role != "captured" and name not in declared
    }
    if not tangents:
        return
    try:
        pushed = bench.subject.push(tangents)
    except Unsupported:
        return
    except Exception as error:
        yield raised("GC105", "in forward mode, which it has,", error)
        return
    by_forward = float(bench.row @ pushed)
    terms = {n: bench.gradient(bench.first, n) @ t.reshape(-1) for n, t in tangents.items()}
    by_reverse = float(sum(terms.values()))
    bar = sum(
        float(bench.bars.gradients[n] @ np.abs(t.reshape(-1))) for n, t in tangents.items()
    ) + bench.half * float(np.abs(bench.row) @ np.abs(pushed))
    if np.isfinite(by_reverse) and not abs(by_forward - by_reverse) <= bar:
        message = (
            f"<v, J u> is {by_forward:.9g} by forward mode, <J^T v, u> {by_reverse:.9g} by reverse"
        )
        yield Fault("GC105", message)


def twice(bench: Bench) -> Iterator[Fault]:
    """GC106, where second derivatives are asked for and the backward hides that it depends on
    something."""
    if not set(SECOND) & set(bench.problem.modes):
        return
    tangents = _tangents(bench)
    try:
        second = bench.subject.pull_twice(bench.row, tangents)
    except Unsupported:
        return
    except Exception as error:
        yield raised("GC106", "where its gradient is differentiated again", error)
        return
    if any(found is not None for found in second.values()):
        return  # numbers, which the truth judges
    for name, leaf in bench.leaves.items():
        there = bench.ran_at({name: leaf.value * (1 + ELSEWHERE)})
        for other in bench.leaves if there else ():
            assert there is not None
            one, moved = bench.gradient(bench.first, other), bench.gradient(there, other)
            if farthest(one, moved, bench.bars.gradients[other]) is not None:
                message = (
                    f"the gradient of `{other}` changes with `{name}`, and its graph does not say "
                    "so: it cannot be differentiated again"
                )
                yield Fault("GC106", message, other)
                return


def _tangents(bench: Bench) -> dict[str, Array]:
    return {
        name: bench.draw(leaf.size).reshape(leaf.value.shape) for name, leaf in bench.leaves.items()
    }
