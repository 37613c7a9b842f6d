"""The Hessian of a layer, by the leaves whose first derivative is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import partial

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.shape import moving_size, output_size
from gradcheck_cli.checks.subjects import where_it_runs
from gradcheck_cli.domain.draws import direction
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.scale import tangent_scale
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.truth.second_order import Blocks, SecondTruth

FORWARD: Mode = "forward-over-reverse"
COLUMNS = 16  # entries of all inputs for a whole Hessian; beyond that, DIRECTIONS a leaf
DIRECTIONS = 2  # one Gaussian, one of Rademacher

Given = Mapping[tuple[str, str], Array | None]
"""Blocks (first, second), d(ds/da)/db along the directions of b; None where there is none."""


class Hessian:
    """The Hessian of a random product of the outputs, or of an output that is one number. Of leaves
    whose first derivative is `wrong` (None: nobody knows of which) there is no truth: differences
    of a wrong gradient. `leaves` are the others, `moving` all."""

    def __init__(self, layer: BoundLayer, wrong: Set[str | None]) -> None:
        self.layer = layer
        narrow, problem = layer.narrow, layer.problem
        fmt = FORMATS[problem.dtype]
        rng = np.random.default_rng([problem.seed, 29])
        size = output_size(narrow)
        self.row = np.ones(1) if size == 1 else fmt.round(rng.standard_normal(size))
        self.moving = [leaf for leaf in narrow.leaves if leaf.differentiable]
        self.leaves = [leaf for leaf in self.moving if not {leaf.name, None} & wrong]
        self.whole = moving_size(narrow) <= COLUMNS
        self.directions: dict[str, Array] = {}
        for leaf in self.leaves:
            drawn = np.stack([direction(rng, leaf.size, turn) for turn in range(DIRECTIONS)])
            along = np.eye(leaf.size) if self.whole else drawn * tangent_scale(leaf.value)
            self.directions[leaf.name] = fmt.round(along)

    def blocks(self, subject: Subject, mode: Mode) -> Given:
        """d(ds/da)/db along the directions of b; None where there is none."""
        requested = (
            subject.hvp_forward_over_reverse
            if mode == FORWARD
            else subject.hvp_reverse_over_reverse
        )
        found: dict[tuple[str, str], Array | None] = {}
        for second in self.leaves:
            columns = [
                requested(self.row, {second.name: along.reshape(second.value.shape)})
                for along in self.directions[second.name]
            ]
            for first in self.leaves:
                parts = [column.get(first.name) for column in columns]
                known = [part for part in parts if part is not None]
                zeros = np.zeros(first.size)
                found[first.name, second.name] = (
                    np.stack([zeros if p is None else p for p in parts], axis=1) if known else None
                )
        return found

    def filled(self, blocks: Given) -> Blocks:
        """Zeros where there is nothing: differences tell whether that is right."""
        sizes = {leaf.name: leaf.size for leaf in self.leaves}
        return {
            (first, second): np.zeros((sizes[first], len(self.directions[second])))
            if block is None
            else block
            for (first, second), block in blocks.items()
        }

    def truth(self) -> SecondTruth:
        """Differences of the gradient in the highest precision."""
        layer = self.layer
        return SecondTruth(
            layer.highest, self.row, self.directions, layer.bounds, layer.problem.dtype
        )

    def doubtful(self) -> dict[str, Array]:
        """Entries of the gradient that is differentiated which are contradicted; of large layers
        none is looked for."""
        if not self.whole:
            return {}
        return self.truth().doubtful(dict(self._pushed()))

    def _pushed(self) -> Iterator[tuple[str, Array]]:
        """The gradient by forward mode, of the leaves that it reaches."""
        for leaf in self.leaves:
            units = np.eye(leaf.size).reshape(leaf.size, *leaf.value.shape)
            parts = where_it_runs(partial(self._columns, leaf.name, units), None)
            if parts is not None:  # without a forward mode differences of the value decide alone
                yield leaf.name, parts

    def _columns(self, name: str, units: Array) -> Array:
        """row @ J along the units, (k,)."""
        parts = [self.layer.highest.jvp({name: unit}) for unit in units]
        return np.array([0.0 if part is None else float(self.row @ part) for part in parts])
