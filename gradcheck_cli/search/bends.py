"""Lower bounds on how far half an ulp of a searched number moves its own entry of the gradient.

An error of up to 16 times as much is the problem's own (GC502). For element i the move is u |x_i|
times the size of d2f/dx_i2. This is one term of the sum over all inputs, so it is at most the sum.
The second derivative is written as a program by the rules of the op table, and enclosed over boxes.
"""

from __future__ import annotations

import math

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.search.box import Domain, Ordinals
from gradcheck_cli.search.enclosures.enclosed import Exceeds, Rounding, between
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from gradcheck_cli.truth.batching import NotBatched
from gradcheck_cli.truth.formulas.directional_program import NoDirectional, directional

_MOST = 4  # elements: each needs a program of its own, with a few times the operations


@dataclass(frozen=True, slots=True)
class Bend:
    """The second derivative by element `place` of the input `name`."""

    name: str
    place: int
    program: BoxProgram

    def moves(self, domain: Domain, low: Ordinals, high: Ordinals) -> Array:
        """A lower bound on |x| |d2f/dx2| over boxes (N, D): shape (N,)."""
        lows = domain.arrays(domain.numbers(low))
        highs = domain.arrays(domain.numbers(high))
        (found,) = self.program(lows, highs, len(low))
        assert found is not None
        x = between(lows[self.name], highs[self.name]).least.reshape(len(low), -1)[:, self.place]
        size = x * found.least.reshape(len(low))
        return np.where(np.isfinite(size), size, 0.0)


def bends(program: Program, domain: Domain, wrt: tuple[str, ...], rounding: Rounding) -> list[Bend]:
    """Return a `Bend` for each searched element of a formula with one output; none if there are too
    many elements. Elements whose second derivative cannot be enclosed are left out."""
    if domain.size > _MOST or math.prod(program.result.shape) != 1:
        return []
    found = []
    for name, shape in domain.shapes.items():
        for place in range(math.prod(shape) if name in wrt else 0):
            try:
                found.append(Bend(name, place, _second(program, domain, name, place, rounding)))
            except (Exceeds, NotBatched, NoDirectional):
                continue
    return found


def _second(
    program: Program, domain: Domain, name: str, place: int, rounding: Rounding
) -> BoxProgram:
    """The second derivative by one element."""
    values = domain.values(domain.start)
    unit = np.zeros(np.shape(values[name]))
    unit.reshape(-1)[place] = 1.0
    constants = dict(domain.still)
    for _ in range(2):
        step = directional(program, {**values, **constants}, {name: unit}, domain.dtype)
        program, constants = step.program, {**constants, **step.constants}
    second = BoxProgram(program, constants, domain.format, rounding)
    low, high = (domain.arrays(domain.numbers(end[None])) for end in (domain.low, domain.high))
    second(low, high, 1)  # raises if a rule does not hold for its keywords
    return second
