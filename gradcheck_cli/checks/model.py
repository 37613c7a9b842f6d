"""A layer beside the formula that it should equal: its value and its gradients against certified
truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradcheck_cli.checks.forward_mode import Pushes
from gradcheck_cli.checks.shape import output_shape, output_size, with_layer
from gradcheck_cli.checks.spec_errors import BadSpec
from gradcheck_cli.domain.case import Case, TruthRequest
from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.draws import direction
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation, Gradient, Mode, Projection
from gradcheck_cli.domain.layer import LayerProblem, Leaf, word_of
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.report import SHOWN_ENTRIES, Entry, Finding
from gradcheck_cli.domain.thresholds import FEW_ULPS, FIRST_ORDER_SLACK, SAME_ERROR
from gradcheck_cli.domain.truth import Documented, Truth
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.judge.entries import error_in_ulps
from gradcheck_cli.judge.findings import said, severity_of_loss
from gradcheck_cli.judge.outputs import follows_output
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
    """The formula of a problem. `narrow` is the layer in the dtype of the problem, `highest` in the
    highest precision that it runs in, `other` binds it in yet another one."""

    name: str
    problem: LayerProblem
    narrow: Subject
    highest: Subject
    other: Callable[[str], Subject | None]

    def __post_init__(self) -> None:
        self._program = formula_of(self.problem, self.narrow.leaves)
        self._words = {leaf.name: word_of(leaf.name) for leaf in self.narrow.leaves}
        self._leaves = {word: name for name, word in self._words.items()}
        self._known: dict[tuple[Mode, ...], Truth] = {}  # without costs
        self._pushes = Pushes(self.name, self.problem, self.narrow)
        self._evaluations: tuple[Evaluation, ...] = ()

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
            output=found.output.reshape(output_shape(self.narrow)),
            output_error=found.output_error.reshape(output_shape(self.narrow)),
            blocks={(m, self._leaves[word]): b for (m, word), b in found.blocks.items()},
            reasons={(m, self._leaves[w]): r for (m, w), r in found.reasons.items()},
            uncertified={(m, self._leaves[w]): r for (m, w), r in found.uncertified.items()},
            documented=tuple(self._in_leaves(one) for one in found.documented),
        )

    def _in_leaves(self, one: Documented) -> Documented:
        """The same in terms of the leaves; it stands where the layer stands in the spec."""
        blocks = {(m, self._leaves[word]): b for (m, word), b in one.blocks.items()}
        return replace(one, blocks=blocks, span=self.problem.implementation.span)

    def _request(
        self, projections: Mapping[Mode, Projection], costs: bool, known: Truth | None
    ) -> TruthRequest:
        problem, words = self.problem, self._words
        shape = self._program.nodes[self._program.output].shape
        entries = problem.spec.points[problem.point]
        shapes = {leaf.name: leaf.value.shape for leaf in self.narrow.leaves}
        return TruthRequest(
            program=self._program,
            values={words[leaf.name]: leaf.value for leaf in self.narrow.leaves},
            bounds={
                words[leaf.name]: (entries[leaf.name].low, entries[leaf.name].high)
                if leaf.name in entries
                else (-np.inf, np.inf)
                for leaf in self.narrow.leaves
            },
            wrt=tuple(words[leaf.name] for leaf in self.narrow.leaves if leaf.differentiable),
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
        mine = output_shape(self.narrow)
        if shape != mine and (len(self.narrow.outputs) == 1 or np.prod(shape) != np.prod(mine)):
            return self._finding(f"it gives shape {mine}, but the formula has shape {shape}")
        output = np.ravel(self.narrow.value({}))
        truth = self.truth({})
        off = ~self._explained(output, truth, self.problem.dtype)
        if not np.any(off):
            return None
        again = self._again()
        if again is None and self.problem.dtype != "float64":
            return None
        truth = self.truth({}, costs=True)
        if again is not None:
            off = ~self._explained(output, truth, self.problem.dtype)
            off &= self._persists(output, again, truth)
        if not np.any(off):
            return None
        documented = next((one for one in truth.documented if one.engine == self.name), None)
        if documented is not None:
            says = follows_output(output, documented, FORMATS[self.problem.dtype])
            if np.all(says | ~off):
                return self._as_documented(output, truth, off, documented)
            off &= ~says
        return self._shown(output, truth, off)

    def _again(self) -> tuple[str, Array] | None:
        """The value in another precision."""
        if self.highest is not self.narrow:
            return self.highest.dtype, np.ravel(self.highest.value({}))
        other = self.other("float32") if self.narrow.dtype == "float64" else None
        if other is None:
            return None
        try:
            return other.dtype, np.ravel(other.value({}))
        finally:
            other.close()

    def _explained(self, output: Array, truth: Truth, dtype: str) -> Array:
        """Elements that are right but for rounding, or of which nothing is known."""
        exact, bar = np.ravel(truth.output), np.ravel(truth.output_error)
        granted = np.zeros(exact.shape)
        if truth.output_cost is not None:
            cost = truth.output_cost
            granted = np.fmax(np.ravel(cost.known_condition), np.ravel(cost.allowance))
            ratio = FORMATS[dtype].unit_roundoff / FORMATS[self.problem.dtype].unit_roundoff
            granted = granted * ratio
        with np.errstate(all="ignore"):
            right = np.abs(output - exact) <= (
                bar + FEW_ULPS * FORMATS[dtype].ulp(exact) + FIRST_ORDER_SLACK * granted
            )
        unsure = ~np.isfinite(exact) | ~np.isfinite(output)  # what is no number is GC203
        return np.asarray(right | unsure)

    def _persists(self, output: Array, again: tuple[str, Array], truth: Truth) -> Array:
        """Errors that are no matter of rounding: the same in another precision, or larger in ulps
        than a lower one has them."""
        dtype, other = again
        exact = np.ravel(truth.output)
        with np.errstate(all="ignore"):
            error, there = output - exact, other - exact
            same = np.abs(error - there) <= SAME_ERROR * np.abs(error)
        lower = FORMATS[dtype].bits < FORMATS[self.problem.dtype].bits
        return np.asarray(same | (lower & self._explained(other, truth, dtype)))

    def _shown(
        self, output: Array, truth: Truth, off: Array, code: str = Codes.WRONG_OUTPUT
    ) -> Finding:
        exact, bar = np.ravel(truth.output), np.ravel(truth.output_error)
        ulps = error_in_ulps(output, exact, FORMATS[self.problem.dtype])
        places = np.flatnonzero(off)
        places = places[np.argsort(-ulps[places], kind="stable")]
        shape = output_shape(self.narrow)
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
        found = self._finding(f"{many}: not what the formula gives, in any precision", code)
        return replace(found, entries=entries, more=len(places) - len(entries), truth_source=source)

    def _as_documented(
        self, output: Array, truth: Truth, off: Array, documented: Documented
    ) -> Finding:
        found = self._shown(output, truth, off, Codes.DOCUMENTED_APPROXIMATION)
        fmt = FORMATS[self.problem.dtype]
        return replace(
            found,
            message=f"not exactly what the formula gives: {said(documented)}",
            severity=severity_of_loss(
                Codes.DOCUMENTED_APPROXIMATION, found.entries[0].ulps or 0.0, fmt
            ),
        )

    def _finding(self, message: str, code: str = Codes.WRONG_OUTPUT) -> Finding:
        problem = self.problem
        return Finding(
            code=code,
            severity=CODES[code].severity,
            message=message,
            span=problem.implementation.span,
            engine=self.name,
            dtype=problem.dtype,
            point=problem.point if problem.spec.pointed else None,
        )

    # A large layer

    def case(self, costs: bool = False) -> Case:
        """Products of the Jacobian with random cotangents, and those of forward mode with random
        directions and these, in place of the whole one."""
        problem, narrow = self.problem, self.narrow
        self._evaluations = self._evaluations or tuple(self._all())
        projections: dict[Mode, Projection] = {"reverse": Projection(self._rows())}
        truth, directions = self.truth(projections, costs), self._pushes.directions
        if len(self._evaluations) > 1 and directions is not None:
            projections["forward"] = Projection(self._rows(), directions)
            along = {
                ("forward", name): projected(truth.blocks["reverse", name], d)
                for name, d in directions.items()
            }
            truth = replace(truth, blocks={**truth.blocks, **along})
        wide = {}
        if self.highest is not narrow:
            wide[self.name, "reverse"] = self.reverse(self.highest)
            wide |= self.pushed_again(self.highest) if costs else {}
        return Case(
            spec=with_layer(problem, narrow),
            point=problem.point if problem.spec.pointed else None,
            dtype=problem.dtype,
            values={leaf.name: leaf.value for leaf in narrow.leaves},
            projections=projections,
            evaluations=self._evaluations,
            truth=truth,
            wide=wide,
            named=frozenset({self.name} if problem.named else ()),
            named_modes=frozenset(problem.modes if problem.named_modes else ()),
            seed=problem.seed,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return self._pushes.notes

    def _all(self) -> Iterator[Evaluation]:
        yield self.reverse(self.narrow)
        if "forward" in self.problem.modes:
            pushed = self._pushed(self.narrow)
            if pushed is not None:
                yield pushed

    def _pushed(self, subject: Subject) -> Evaluation | None:
        found = self._pushes.evaluation(subject)
        if found is None:
            return None
        rows = self._rows()
        products = {
            name: replace(g, values=None if g.values is None else rows @ g.values)
            for name, g in found.gradients.items()
        }
        return replace(found, gradients=products)

    def pushed_again(self, subject: Subject) -> dict[tuple[str, str], Evaluation]:
        """The products of forward mode in another precision, where there is a forward mode."""
        found = self._pushed(subject) if len(self._evaluations) > 1 else None
        return {} if found is None else {(self.name, "forward"): found}

    def _rows(self) -> Array:
        """Gaussian and of Rademacher in turn."""
        rng = np.random.default_rng([self.problem.seed, 23])
        size = output_size(self.narrow)
        drawn = [direction(rng, size, turn) for turn in range(ROWS)]
        return FORMATS[self.problem.dtype].round(np.stack(drawn))

    def reverse(self, subject: Subject) -> Evaluation:
        """The products by reverse mode."""
        started = time.perf_counter()
        ran = subject.run(Call(cotangents=self._rows()))
        return Evaluation(
            engine=self.name,
            dtype=subject.dtype,
            rounding=self.problem.dtype,
            mode="reverse",
            output=ran.output.reshape(output_shape(self.narrow)),
            gradients={n: Gradient(g, ran.dtypes.get(n)) for n, g in ran.gradients.items()},
            forward=1,
            backward=ROWS,
            duration_s=time.perf_counter() - started,
        )
