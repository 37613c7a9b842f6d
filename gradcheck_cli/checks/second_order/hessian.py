"""The Hessian of a layer with respect to the leaves whose first derivatives are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import partial

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer, moving_size
from gradcheck_cli.domain.blocks import PAIRED_ENTRIES, HessianBlock, blocks_in
from gradcheck_cli.domain.draws import direction, generator
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode, modes_in, order_of
from gradcheck_cli.domain.scale import tangent_scale
from gradcheck_cli.domain.truth import TruthBlock
from gradcheck_cli.engines.layer.subject import Subject, output_size
from gradcheck_cli.engines.tracebacks import where_it_runs
from gradcheck_cli.truth.layers.callables import projected, transposed
from gradcheck_cli.truth.layers.second_order import Blocks, RowGradients, SecondTruth

REVERSE: Mode = "reverse-over-reverse"
PAIRED: Mode = "forward-over-forward"
COLUMNS = 16  # the most entries for a whole Hessian; beyond that, DIRECTIONS a leaf
DIRECTIONS = 2  # one Gaussian, one of Rademacher

Given = Mapping[tuple[str, str], Array | None]
"""Blocks (a, b) of d(ds/da)/db along the directions of b; None if no derivative arrives."""


class Hessian:
    """The Hessian of a random product of the outputs, or of a single output, by one composition of
    modes.

    Leaves whose first derivative is `wrong` are left out, all of them if it contains None, because
    differences of a wrong gradient are no truth. `leaves` are the others, `moving` all.
    `directions` (k, n) of a leaf replace its entries as the columns of a block. Forward over
    forward needs a pass for each pair, so `firsts` (k, n) replace the entries as rows, too. For
    third order, the product is first differentiated `along` a direction (n,) of all `leaves`.
    `of_row` caches the gradients of the product that other compositions computed.
    """

    def __init__(
        self,
        layer: BoundLayer,
        wrong: Set[str | None],
        mode: Mode,
        of_row: RowGradients | None = None,
    ) -> None:
        self.layer = layer
        self.of_row = of_row or RowGradients(layer.highest)
        self.mode = mode
        narrow, problem = layer.narrow, layer.problem
        fmt = FORMATS[problem.dtype]
        rng = generator(problem.seed, 29)
        size = output_size(narrow)
        self.row = np.ones(1) if size == 1 else fmt.round(rng.standard_normal(size))
        self.moving = [leaf for leaf in narrow.leaves if leaf.differentiable and leaf.size]
        self.leaves = [leaf for leaf in self.moving if not {leaf.name, None} & wrong]
        self.whole = moving_size(narrow) <= (PAIRED_ENTRIES if mode == PAIRED else COLUMNS)
        paired = mode == PAIRED and not self.whole
        self.directions: dict[str, Array] = {}
        self.firsts: dict[str, Array] = {}
        self.along: dict[str, Array] = {}
        for leaf in self.leaves:
            scale = tangent_scale(leaf.value)
            drawn = np.stack([direction(rng, leaf.size, turn) for turn in range(DIRECTIONS)])
            drawn = fmt.round(drawn * scale)
            self.directions[leaf.name] = np.eye(leaf.size) if self.whole else drawn
            if paired:
                self.firsts[leaf.name], self.directions[leaf.name] = drawn[:1], drawn[1:]
            if order_of(mode) > 2:
                one = moving_size(narrow) == 1
                self.along[leaf.name] = (
                    np.ones(1) if one else fmt.round(direction(rng, leaf.size, 0) * scale)
                )

    def passes(self, mode: Mode) -> int:
        """The number of passes of a first-order mode in one evaluation."""
        count = sum(len(directions) for directions in self.directions.values())
        if self.mode == PAIRED:
            count = len(self.keys) if self.firsts else count**2
        return count * modes_in(self.mode).count(mode)

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The blocks that the composition computes, as pairs of leaves."""
        names = [leaf.name for leaf in self.leaves]
        return [(block.rows, block.columns) for block in blocks_in(self.mode, names)]

    def blocks(self, subject: Subject) -> Given:
        """d(ds/da)/db along the directions of b, and along the directions of a if `firsts` has any;
        None if no derivative arrives."""
        return (
            self._by_pairs(subject) if self.mode == PAIRED else self._by_columns(subject, self.mode)
        )

    def of_every_entry(self, subject: Subject) -> Given:
        """The blocks with a row for each entry: by reverse over reverse if the composition has a
        row for each direction."""
        return self._by_columns(subject, REVERSE) if self.firsts else self.blocks(subject)

    def along_rows(
        self, blocks: Mapping[tuple[str, str], TruthBlock]
    ) -> dict[tuple[str, str], TruthBlock]:
        """Project the truth by entries to the rows of `blocks`, with the same keys."""
        return {
            key: transposed(projected(transposed(block), self.firsts[key[0]]))
            if self.firsts
            else block
            for key, block in blocks.items()
            if key in self.keys
        }

    def _by_pairs(self, subject: Subject) -> Given:
        leaves = {leaf.name: leaf for leaf in self.leaves}
        found: dict[tuple[str, str], Array | None] = {}
        for a, b in self.keys:
            rows = self.firsts[a] if self.firsts else np.eye(leaves[a].size)
            parts = [
                [
                    subject.second_tangent(
                        self.row,
                        {a: first.reshape(leaves[a].shape)},
                        {b: along.reshape(leaves[b].shape)},
                    )
                    for along in self.directions[b]
                ]
                for first in rows
            ]
            none = all(part is None for row in parts for part in row)
            numbers = [[0.0 if part is None else part for part in row] for row in parts]
            found[a, b] = None if none else np.array(numbers)
        return found

    def _by_columns(self, subject: Subject, mode: Mode) -> Given:
        found: dict[tuple[str, str], Array | None] = {}
        shapes = {leaf.name: leaf.shape for leaf in self.leaves}
        firsts = {name: along.reshape(shapes[name]) for name, along in self.along.items()}
        for second in self.leaves:
            units = self.directions[second.name].reshape(-1, *shapes[second.name])
            columns = [subject.hvp(mode, self.row, {second.name: unit}, firsts) for unit in units]
            for first in self.leaves:
                parts = [column.get(first.name) for column in columns]
                known = [part for part in parts if part is not None]
                zeros = np.zeros(first.size)
                found[first.name, second.name] = (
                    np.stack([zeros if p is None else p for p in parts], axis=1) if known else None
                )
        return found

    def filled(self, blocks: Given) -> Blocks:
        """The blocks with zeros in place of None: differences decide whether zero is right."""
        sizes = {leaf.name: leaf.size for leaf in self.leaves}
        return {
            (first, second): np.zeros((sizes[first], len(self.directions[second])))
            if block is None
            else block
            for (first, second), block in blocks.items()
        }

    def truth(self) -> SecondTruth:
        """The truth by differences of the gradient in the highest precision."""
        layer = self.layer
        return SecondTruth(
            self.of_row, self.row, self.directions, layer.bounds, layer.problem.dtype, self.along
        )

    def doubtful(self, truth: SecondTruth) -> dict[str, Array]:
        """Entries of the differentiated gradient that differences contradict; none for a large
        layer, where they are not searched for."""
        return truth.doubtful(dict(self._gradient_by_jvps())) if self.whole else {}

    def _gradient_by_jvps(self) -> Iterator[tuple[str, Array]]:
        """The gradient by forward mode, for the leaves where it runs."""
        for leaf in self.leaves:
            units = np.eye(leaf.size).reshape(leaf.size, *leaf.shape)
            parts = where_it_runs(partial(self._columns, leaf.name, units), None)
            if parts is not None:  # without forward mode, differences of the value decide alone
                yield leaf.name, parts

    def _columns(self, name: str, units: Array) -> Array:
        """row @ J along the unit vectors, (k,)."""
        parts = [self.layer.highest.jvp({name: unit}) for unit in units]
        return np.array([0.0 if part is None else float(self.row @ part) for part in parts])


def plain_name(leaf: str) -> str:
    """The name of a leaf without dots, because a block is named "a.b"."""
    return leaf.replace(".", "_")


def block_name(key: tuple[str, str]) -> str:
    return str(HessianBlock(*map(plain_name, key)))
