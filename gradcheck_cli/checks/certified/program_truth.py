"""Certified truth about a layer, from its model or from its lifted forward."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer, output_shape
from gradcheck_cli.checks.certified.graphs import graph_with_numbers
from gradcheck_cli.checks.layer_case import Evaluations, Gradients
from gradcheck_cli.domain.blocks import HessianBlock, blocks_in
from gradcheck_cli.domain.case import Case, CurveRequest, TruthRequest
from gradcheck_cli.domain.curve import MOST_DRAWN, Curve
from gradcheck_cli.domain.draws import direction, generator
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation, Failure, Mode, Projection, order_of
from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.layer import word_of
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.thresholds import WRITTEN_EXACTLY
from gradcheck_cli.domain.truth import Documented, Truth, TruthBlock
from gradcheck_cli.engines.layer.subject import Call, Subject, output_size
from gradcheck_cli.truth import compute
from gradcheck_cli.truth.certified.enclosed_products import EnclosedArray, EnclosedProducts
from gradcheck_cli.truth.difference_curve import curve
from gradcheck_cli.truth.formulas.directional_program import directional
from gradcheck_cli.truth.layers.callables import projected

T = TypeVar("T")

ROWS = 4  # random cotangents for a large layer, as for a large formula


def is_certified(blocks: Iterable[TruthBlock]) -> bool:
    """Whether every entry of these blocks is certified."""
    return all(bool(block.certified.all()) for block in blocks)


class ProgramTruth:
    """The truth about a program over the leaves of a layer, in terms of the leaves. The inputs of
    `program` are `words` for the leaves (`domain.layer.word_of`), and `constants`."""

    origin = ""  # where the program comes from, if not from the spec
    islands = ""  # operations without a row, whose derivatives are finite differences
    radii: Mapping[str, Array] | None = None  # bounds on the errors of constants
    radii_of_second: Mapping[str, Array] | None = None  # the same, for second derivatives

    def __init__(
        self, layer: BoundLayer, program: Program, constants: Mapping[str, Array] | None = None
    ) -> None:
        self.layer = layer
        self.program = program
        self.constants = constants or {}
        self.words = {leaf.name: word_of(leaf.name) for leaf in layer.narrow.leaves}
        self._leaves = {word: name for name, word in self.words.items()}
        self._known: dict[tuple[str, ...], Truth] = {}  # by modes and leaves, without costs
        self._second: dict[object, Truth] = {}  # by the numbers of a Hessian
        self._bent: dict[tuple[bytes, str, bytes], dict[str, EnclosedArray]] = {}
        self._moving = tuple(leaf.name for leaf in layer.narrow.leaves if leaf.differentiable)

    def truth(
        self,
        projections: Mapping[Mode, Projection],
        costs: bool = False,
        suspects: Mapping[tuple[str, str], Array] | None = None,
    ) -> Truth:
        """The truth about the program, in terms of the leaves. If `costs`, with the cost of
        rounding, for `suspects` alone if they are given (see `TruthRequest`)."""
        computed = self._compute(projections, self._moving, costs, suspects)
        return replace(
            computed,
            origin=self.origin,
            output=computed.output.reshape(output_shape(self.layer.narrow)),
            output_error=computed.output_error.reshape(output_shape(self.layer.narrow)),
            blocks={(m, self._leaves[word]): b for (m, word), b in computed.blocks.items()},
            reasons={(m, self._leaves[w]): r for (m, w), r in computed.reasons.items()},
            uncertified={(m, self._leaves[w]): r for (m, w), r in computed.uncertified.items()},
            tied={(m, self._leaves[word]): mask for (m, word), mask in computed.tied.items()},
            documented=tuple(self._in_leaves(one) for one in computed.documented),
        )

    def block_name(self, rows: str, columns: str) -> str:
        """The name of the block of two leaves in certificates."""
        return str(HessianBlock(self.words[rows], self.words[columns]))

    def second_order(
        self,
        mode: Mode,
        projection: Projection,
        leaves: Sequence[str],
        costs: bool,
        suspects: Mapping[tuple[str, str], Array] | None = None,
    ) -> tuple[Truth, dict[tuple[str, str], TruthBlock]]:
        """The truth about the Hessian in one composition, and its blocks by pairs of `leaves`.
        Compositions that compute the same numbers share it. `suspects` has masks by these pairs."""
        names = {
            (block.rows, block.columns): self.block_name(block.rows, block.columns)
            for block in blocks_in(mode, leaves)
        }
        key = (order_of(mode), _contents(projection), tuple(names))
        known = self._second.get((*key, False))
        if known is not None:
            known = _as_of(mode, known)
        computed = self._second.get((*key, costs)) if suspects is None else None
        if computed is None:
            masks = suspects and {(mode, names[pair]): mask for pair, mask in suspects.items()}
            request = self.request({mode: projection}, tuple(leaves))
            computed = compute(replace(request, conditioning=costs, known=known, suspects=masks))
            if suspects is None:
                self._second[*key, costs] = computed
        computed = _as_of(mode, computed)
        blocks = {pair: computed.blocks[mode, name] for pair, name in names.items()}
        return replace(computed, origin=self.origin), blocks

    def derivative(self, along: Mapping[str, Array]) -> ProgramTruth:
        """The truth about the derivative of the program along a direction, (n,) for each leaf.
        Raises NoDirectional."""
        shapes = {leaf.name: leaf.shape for leaf in self.layer.narrow.leaves}
        direction = {self.words[name]: u.reshape(shapes[name]) for name, u in along.items()}
        found = directional(self.program, self._values(), direction, self.layer.problem.dtype)
        derivative = ProgramTruth(self.layer, found.program, {**self.constants, **found.constants})
        derivative.origin = self.origin
        return derivative

    def bent(self, row: Array, leaf: str, along: Array) -> dict[str, EnclosedArray]:
        """The Hessian of row @ output times `along` (n,), a direction of one leaf, in the highest
        precision: an enclosure (n,) for each differentiable leaf, computed once for all
        compositions. Raises TooManyNumbers, and Undecided and NotInBalls as `EnclosedProducts`
        does."""
        key = row.tobytes(), leaf, along.tobytes()
        if key not in self._bent:
            found = self._twice.bent(row, {self.words[leaf]: along})
            self._bent[key] = {name: found[self.words[name]] for name in self._moving}
        return self._bent[key]

    @cached_property
    def _twice(self) -> EnclosedProducts:
        return self._products(self.radii_of_second)

    def products(self) -> EnclosedProducts:
        """Enclosed products with the layer's Jacobian in the highest precision, by words. Raises
        TooManyNumbers."""
        return self._products(self.radii)

    def _products(self, radii: Mapping[str, Array] | None) -> EnclosedProducts:
        leaves = self.layer.highest.leaves
        values = {self.words[leaf.name]: np.asarray(leaf.value) for leaf in leaves}
        moving = tuple(self.words[name] for name in self._moving)
        return EnclosedProducts(self.program, {**values, **self.constants}, moving, radii)

    def _compute(
        self,
        projections: Mapping[Mode, Projection],
        leaves: tuple[str, ...],
        costs: bool,
        suspects: Mapping[tuple[str, str], Array] | None = None,
    ) -> Truth:
        key = (*projections, *leaves)
        request = replace(
            self.request(projections, leaves), conditioning=costs, known=self._known.get(key)
        )
        if suspects is not None:
            masks = {(mode, self.words[name]): mask for (mode, name), mask in suspects.items()}
            request = replace(request, suspects=masks)
        computed = compute(request)
        if not costs:
            self._known[key] = computed
        return computed

    def gradients_at(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """The Jacobian with respect to each leaf, (m, n), at other values of the leaves; nan where
        it is not certified."""
        request = self.request({"reverse": Projection()})
        there = {self.words[name]: value for name, value in values.items()}
        found = compute(replace(request, values={**request.values, **there})).blocks
        return {
            self._leaves[word]: np.where(block.certified, block.value, np.nan)
            for (_, word), block in found.items()
        }

    def graph(self) -> Graph | Failure | None:
        """The graph of the program with numbers at the leaves; None if no leaf in it moves."""
        problem = self.layer.problem
        wrt = tuple(w for n in self._moving if (w := self.words[n]) in self.program.inputs)
        if not wrt:
            return None
        graph = graph_with_numbers(self.program, self._values(), wrt, problem.dtype)
        if isinstance(graph, Failure):
            return graph
        return replace(graph, lifted=self.layer.name, point=problem.point_number)

    def curve(self) -> Curve | None:
        """The error curve of difference quotients of the program; None if no leaf moves or there
        are too many entries to draw."""
        leaves = self.layer.narrow.leaves
        size = sum(leaf.size for leaf in leaves if leaf.name in self._moving)
        if not 0 < size <= MOST_DRAWN:
            return None
        projections: dict[Mode, Projection] = {"reverse": Projection()}
        known = self._compute(projections, self._moving, costs=False)
        name = self.layer.problem.spec.name
        return curve(CurveRequest(name, self.request(projections), known))

    def _values(self) -> dict[str, Array]:
        leaves = {self.words[leaf.name]: leaf.value for leaf in self.layer.narrow.leaves}
        return {**leaves, **self.constants}

    def _in_leaves(self, one: Documented) -> Documented:
        """The documented approximation in terms of the leaves, at the layer's place in the spec."""
        blocks = {(m, self._leaves[word]): b for (m, word), b in one.blocks.items()}
        return replace(one, blocks=blocks, span=self.layer.problem.implementation.span)

    def request(
        self, projections: Mapping[Mode, Projection], leaves: tuple[str, ...] = ()
    ) -> TruthRequest:
        """The request for the truth about the program, in its words, with respect to `leaves`, or
        to all differentiated leaves."""
        problem, words = self.layer.problem, self.words
        shape = self.program.result.shape
        entries = problem.inputs
        shapes = {leaf.name: leaf.shape for leaf in self.layer.narrow.leaves}

        def in_words(along: Mapping[str, Array] | None) -> dict[str, Array] | None:
            if along is None:
                return None
            return {words[n]: a.reshape(len(a), *shapes[n]) for n, a in along.items()}

        return TruthRequest(
            program=self.program,
            values=self._values(),
            bounds={
                words[leaf.name]: (entries[leaf.name].low, entries[leaf.name].high)
                if leaf.name in entries
                else (-np.inf, np.inf)
                for leaf in self.layer.narrow.leaves
            }
            | dict.fromkeys(self.constants, (-np.inf, np.inf)),
            wrt=tuple(words[name] for name in leaves or self._moving),
            dtype=problem.dtype,
            projections={
                mode: Projection(
                    None if p.rows is None else p.rows.reshape(len(p.rows), *shape),
                    in_words(p.columns),
                    in_words(p.firsts),
                )
                for mode, p in projections.items()
            },
            seed=problem.seed,
            exact=self._exact(),
        )

    def _exact(self) -> frozenset[str]:
        """The constants whose numbers all have so few bits that the user must have written them
        exactly."""
        moving = {self.words[name] for name in self._moving}
        bits = round(WRITTEN_EXACTLY * FORMATS[self.layer.problem.dtype].bits)
        return frozenset(
            name
            for name, value in self._values().items()
            if name not in moving and _has_bits(value, bits)
        )


def _as_of(mode: Mode, truth: Truth) -> Truth:
    """The truth about one composition, relabelled for another with the same numbers."""

    def of_mode(by_key: Mapping[tuple[str, str], T]) -> dict[tuple[str, str], T]:
        return {(mode, name): value for (_, name), value in by_key.items()}

    return replace(
        truth,
        blocks=of_mode(truth.blocks),
        reasons=of_mode(truth.reasons),
        uncertified=of_mode(truth.uncertified),
        tied=of_mode(truth.tied),
        hulls={mode: ()},  # hulls exist for first derivatives only
        documented=tuple(replace(one, blocks=of_mode(one.blocks)) for one in truth.documented),
    )


def _contents(projection: Projection) -> object:
    """The numbers of a projection, as a hashable key."""
    parts = (projection.columns, projection.firsts)
    rows = None if projection.rows is None else projection.rows.tobytes()
    return rows, *(
        part if part is None else tuple((name, along.tobytes()) for name, along in part.items())
        for part in parts
    )


def _has_bits(value: Array, bits: int) -> bool:
    """Whether each of these numbers fits into this many bits."""
    scaled = np.ldexp(np.frexp(value.astype(np.float64))[0], bits)
    return bool(np.all(scaled == np.rint(scaled)))


class ProgramProducts(Gradients):
    """Products of the Jacobian with random cotangents, and in forward mode also with random
    directions, for layers whose whole Jacobian is too large."""

    def __init__(self, layer: BoundLayer, truth: ProgramTruth) -> None:
        super().__init__(layer)
        self.program: ProgramTruth | None = truth
        self._truth = truth
        self._rows = self._random_cotangents()
        self.evaluate()

    def _random_cotangents(self) -> Array:
        """The cotangents (ROWS, m), Gaussian and Rademacher in turn."""
        problem = self.layer.problem
        rng = generator(problem.seed, 23)
        size = output_size(self.layer.narrow)
        drawn = [direction(rng, size, turn) for turn in range(ROWS)]
        return FORMATS[problem.dtype].round(np.stack(drawn))

    @property
    def cotangents(self) -> Array:
        return self._rows

    @property
    def unsure(self) -> bool:
        return False  # the truth is certified

    def make_case(self, costs: bool = False) -> Case:
        layer, directions = self.layer, self.pushes.directions
        projections: dict[Mode, Projection] = {"reverse": Projection(self._rows)}
        truth = self._truth.truth(projections, costs)
        if self.has_forward and directions is not None:
            projections["forward"] = Projection(self._rows, directions)
            along = {
                ("forward", name): projected(truth.blocks["reverse", name], d)
                for name, d in directions.items()
            }
            truth = replace(truth, blocks={**truth.blocks, **along})
        wide: Evaluations = {}
        if layer.highest is not layer.narrow:
            wide[layer.name, "reverse"] = self.reverse(layer.highest)
            wide |= self.in_forward(layer.highest) if costs else {}
        return layer.case(projections, self.evaluations, truth, wide)

    def forward(self, subject: Subject) -> Evaluation | None:
        evaluation = self.pushes.evaluation(subject)
        if evaluation is None:
            return None
        products = {
            name: replace(g, values=None if g.values is None else self._rows @ g.values)
            for name, g in evaluation.gradients.items()
        }
        return replace(evaluation, gradients=products)

    def reverse(self, subject: Subject) -> Evaluation:
        """The products by reverse mode."""
        started = time.perf_counter()
        ran = subject.run(Call(cotangents=self._rows))
        return self.evaluation(subject, ran, time.perf_counter() - started)
