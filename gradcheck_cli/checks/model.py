"""A layer beside the formula that it should equal: its value and its gradients against certified
truth."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.layer_case import Evaluations, Gradients
from gradcheck_cli.checks.shape import output_shape, output_size
from gradcheck_cli.checks.spec_errors import BadSpec
from gradcheck_cli.domain.case import Case, TruthRequest
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.draws import direction
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation, Mode, Projection
from gradcheck_cli.domain.layer import LayerProblem, Leaf, word_of
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import SHOWN_ENTRIES, Entry, Finding
from gradcheck_cli.domain.thresholds import FEW_ULPS, FIRST_ORDER_SLACK, SAME_ERROR
from gradcheck_cli.domain.truth import Documented, Truth
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.judge.findings import severity_of_loss
from gradcheck_cli.judge.measures import error_in_ulps
from gradcheck_cli.judge.outputs import follows_output
from gradcheck_cli.judge.wording import said
from gradcheck_cli.truth import compute
from gradcheck_cli.truth.of_layers import projected

ROWS = 4  # cotangents in place of all outputs of a large layer, as for formulas
_KINDS = {"f": "float", "i": "int", "u": "int", "b": "bool"}


def formula_of(problem: LayerProblem, leaves: Sequence[Leaf]) -> Program:
    """The model of the spec as a program over the leaves. Raises BadSpec."""
    spec = problem.spec
    assert spec.model is not None
    words = {leaf.name: word_of(leaf.name) for leaf in leaves}
    arguments = {
        words[leaf.name]: Argument(leaf.value.shape, _KINDS[leaf.value.dtype.kind])
        for leaf in leaves
    }
    parsed = parse(spec.model.text, spec.model.place, constants=spec.constants, inputs=arguments)
    if parsed.program is None:
        raise BadSpec(parsed.errors)
    return parsed.program


@dataclass
class Model:
    """The formula of a problem, beside its layer."""

    layer: BoundLayer

    def __post_init__(self) -> None:
        self._program = formula_of(self.layer.problem, self.layer.narrow.leaves)
        self._words = {leaf.name: word_of(leaf.name) for leaf in self.layer.narrow.leaves}
        self._leaves = {word: name for name, word in self._words.items()}
        self._known: dict[tuple[Mode, ...], Truth] = {}  # without costs

    # The truth

    def truth(self, projections: Mapping[Mode, Projection], costs: bool = False) -> Truth:
        """The truth about the formula, in terms of the leaves; `costs`: with what rounding may
        cost."""
        modes = tuple(projections)
        found = compute(self._request(projections, costs, self._known.get(modes)))
        if not costs:
            self._known[modes] = found
        return replace(
            found,
            output=found.output.reshape(output_shape(self.layer.narrow)),
            output_error=found.output_error.reshape(output_shape(self.layer.narrow)),
            blocks={(m, self._leaves[word]): b for (m, word), b in found.blocks.items()},
            reasons={(m, self._leaves[w]): r for (m, w), r in found.reasons.items()},
            uncertified={(m, self._leaves[w]): r for (m, w), r in found.uncertified.items()},
            documented=tuple(self._in_leaves(one) for one in found.documented),
        )

    def _in_leaves(self, one: Documented) -> Documented:
        """The documented approximation in terms of the leaves, at the place of the layer."""
        blocks = {(m, self._leaves[word]): b for (m, word), b in one.blocks.items()}
        return replace(one, blocks=blocks, span=self.layer.problem.implementation.span)

    def _request(
        self, projections: Mapping[Mode, Projection], costs: bool, known: Truth | None
    ) -> TruthRequest:
        problem, words = self.layer.problem, self._words
        shape = self._program.nodes[self._program.output].shape
        entries = problem.spec.points[problem.point]
        shapes = {leaf.name: leaf.value.shape for leaf in self.layer.narrow.leaves}
        return TruthRequest(
            program=self._program,
            values={words[leaf.name]: leaf.value for leaf in self.layer.narrow.leaves},
            bounds={
                words[leaf.name]: (entries[leaf.name].low, entries[leaf.name].high)
                if leaf.name in entries
                else (-np.inf, np.inf)
                for leaf in self.layer.narrow.leaves
            },
            wrt=tuple(words[leaf.name] for leaf in self.layer.narrow.leaves if leaf.differentiable),
            dtype=problem.dtype,
            projections={
                mode: Projection(
                    None if p.rows is None else p.rows.reshape(len(p.rows), *shape),
                    None
                    if p.columns is None
                    else {words[n]: c.reshape(len(c), *shapes[n]) for n, c in p.columns.items()},
                )
                for mode, p in projections.items()
            },
            seed=problem.seed,
            conditioning=costs,
            known=known,
        )

    # The value

    def wrong_output(self) -> Finding | None:
        """GC104 where the layer computes something else than the formula, in every precision; GC305
        where it is what its framework says that it gives."""
        shape = self._program.nodes[self._program.output].shape
        mine = output_shape(self.layer.narrow)
        if shape != mine and (
            len(self.layer.narrow.outputs) == 1 or np.prod(shape) != np.prod(mine)
        ):
            return self.layer.finding(
                Codes.WRONG_OUTPUT, f"it gives shape {mine}, but the formula has shape {shape}"
            )
        output = np.ravel(self.layer.narrow.value({}))
        truth = self.truth({})
        off = ~self._explained(output, truth, self.layer.problem.dtype)
        if not np.any(off):
            return None
        again = self._again()
        if again is None and self.layer.problem.dtype != "float64":
            return None
        truth = self.truth({}, costs=True)
        if again is not None:
            off = ~self._explained(output, truth, self.layer.problem.dtype)
            off &= self._persists(output, again, truth)
        if not np.any(off):
            return None
        documented = next((one for one in truth.documented if one.engine == self.layer.name), None)
        if documented is not None:
            says = follows_output(output, documented, FORMATS[self.layer.problem.dtype])
            if np.all(says | ~off):
                return self._as_documented(output, truth, off, documented)
            off &= ~says
        return self._shown(output, truth, off)

    def _again(self) -> tuple[str, Array] | None:
        """The value in another precision."""
        if self.layer.highest is not self.layer.narrow:
            return self.layer.highest.dtype, np.ravel(self.layer.highest.value({}))
        if self.layer.narrow.dtype != "float64":
            return None
        with self.layer.elsewhere("float32", {}) as other:
            return None if other is None else (other.dtype, np.ravel(other.value({})))

    def _explained(self, output: Array, truth: Truth, dtype: str) -> Array:
        """Elements that are right but for rounding, or of which nothing is known."""
        exact, bar = np.ravel(truth.output), np.ravel(truth.output_error)
        granted = np.zeros(exact.shape)
        if truth.output_cost is not None:
            cost = truth.output_cost
            granted = np.fmax(np.ravel(cost.known_condition), np.ravel(cost.allowance))
            ratio = FORMATS[dtype].unit_roundoff / FORMATS[self.layer.problem.dtype].unit_roundoff
            granted = granted * ratio
        with np.errstate(all="ignore"):
            right = np.abs(output - exact) <= (
                bar + FEW_ULPS * FORMATS[dtype].ulp(exact) + FIRST_ORDER_SLACK * granted
            )
        unsure = ~np.isfinite(exact) | ~np.isfinite(output)  # what is no number is GC203
        return np.asarray(right | unsure)

    def _persists(self, output: Array, again: tuple[str, Array], truth: Truth) -> Array:
        """Errors that rounding does not cause: the same in another precision, or larger in ulps
        than a lower one has them."""
        dtype, other = again
        exact = np.ravel(truth.output)
        with np.errstate(all="ignore"):
            error, there = output - exact, other - exact
            same = np.abs(error - there) <= SAME_ERROR * np.abs(error)
        lower = FORMATS[dtype].bits < FORMATS[self.layer.problem.dtype].bits
        return np.asarray(same | (lower & self._explained(other, truth, dtype)))

    def _shown(
        self, output: Array, truth: Truth, off: Array, code: str = Codes.WRONG_OUTPUT
    ) -> Finding:
        exact, bar = np.ravel(truth.output), np.ravel(truth.output_error)
        ulps = error_in_ulps(output, exact, FORMATS[self.layer.problem.dtype])
        places = np.flatnonzero(off)
        places = places[np.argsort(-ulps[places], kind="stable")]
        shape = output_shape(self.layer.narrow)
        many = "the output" if output.size == 1 else f"{len(places)} of {output.size} outputs"
        entries = tuple(
            Entry(
                index=tuple(int(i) for i in np.unravel_index(place, shape)) if shape else (),
                computed=float(output[place]),
                truth=float(exact[place]),
                truth_error=float(bar[place]),
                finite_difference=None,
                finite_difference_error=None,
                ulps=float(ulps[place]),
            )
            for place in places[:SHOWN_ENTRIES]
        )
        source = "certified" if truth.output_certified else "confirmed"
        found = self.layer.finding(code, f"{many}: not what the formula gives, in any precision")
        return replace(found, entries=entries, more=len(places) - len(entries), truth_source=source)

    def _as_documented(
        self, output: Array, truth: Truth, off: Array, documented: Documented
    ) -> Finding:
        found = self._shown(output, truth, off, Codes.DOCUMENTED_APPROXIMATION)
        fmt = FORMATS[self.layer.problem.dtype]
        return replace(
            found,
            message=f"not exactly what the formula gives: {said(documented)}",
            severity=severity_of_loss(
                Codes.DOCUMENTED_APPROXIMATION, found.entries[0].ulps or 0.0, fmt
            ),
        )


class ModelProducts(Gradients):
    """Products of the Jacobian with random cotangents, and those of forward mode with random
    directions and these, in place of the whole one."""

    def __init__(self, layer: BoundLayer, model: Model) -> None:
        super().__init__(layer)
        self._model = model
        self._rows = self._drawn()
        self.evaluate()

    def _drawn(self) -> Array:
        """Gaussian and of Rademacher in turn."""
        problem = self.layer.problem
        rng = np.random.default_rng([problem.seed, 23])
        size = output_size(self.layer.narrow)
        drawn = [direction(rng, size, turn) for turn in range(ROWS)]
        return FORMATS[problem.dtype].round(np.stack(drawn))

    @property
    def cotangents(self) -> Array:
        return self._rows

    @property
    def unsure(self) -> bool:
        return False  # its truth is certified

    def made(self, costs: bool = False) -> Case:
        layer, directions = self.layer, self.pushes.directions
        projections: dict[Mode, Projection] = {"reverse": Projection(self._rows)}
        truth = self._model.truth(projections, costs)
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
            wide |= self.pushed_again(layer.highest) if costs else {}
        return layer.case(projections, self.evaluations, truth, wide)

    def pushed(self, subject: Subject) -> Evaluation | None:
        found = self.pushes.evaluation(subject)
        if found is None:
            return None
        products = {
            name: replace(g, values=None if g.values is None else self._rows @ g.values)
            for name, g in found.gradients.items()
        }
        return replace(found, gradients=products)

    def reverse(self, subject: Subject) -> Evaluation:
        """The products by reverse mode."""
        started = time.perf_counter()
        ran = subject.run(Call(cotangents=self._rows))
        return self.evaluation(subject, ran, time.perf_counter() - started)
