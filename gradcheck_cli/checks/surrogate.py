"""Check backwards that are declared to differ from the derivative against what is declared."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.admissible import kinds_of
from gradcheck_cli.checks.bound_layer import BoundLayer, output_shape
from gradcheck_cli.checks.small import ENTRIES, PASSES
from gradcheck_cli.domain.case import Case, TruthRequest
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation, Projection
from gradcheck_cli.domain.implementation import STRAIGHT_THROUGH, Surrogate
from gradcheck_cli.domain.layer import LayerProblem, Leaf, word_of
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.domain.thresholds import NOTE_BITS
from gradcheck_cli.domain.truth import Truth, TruthBlock
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.layer.subject import Call, Subject, output_size
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.judge import judge
from gradcheck_cli.truth import compute

ROWS = 4  # random cotangents for a large layer: each of them shows every entry of an input
DIRECTIONS = 2  # along which the declared backward is compared with the slope of the layer


class BadSurrogate(EngineFault):
    """The declared surrogate does not fit the layer. The message says why."""


def covered(problem: LayerProblem, subject: Subject) -> dict[str, Surrogate]:
    """The surrogate of every leaf that has one. Raises BadSurrogate for an input without a
    gradient."""
    moving = {leaf.name: leaf for leaf in subject.leaves if leaf.differentiable}
    kinds = kinds_of(problem.inputs)
    surrogates_of: dict[str, Surrogate] = {}
    for surrogate in problem.implementation.surrogates:
        if surrogate.input is not None and surrogate.input not in moving:
            known = ", ".join(moving) or "none"
            raise BadSurrogate(
                f"the surrogate's input `{surrogate.input}` has no gradient; those that have one: "
                f"{known}"
            )
        names = [n for n, leaf in moving.items() if leaf.role == "input"]
        names = [surrogate.input] if surrogate.input else names
        of_a_kind = [name for name in names if name in kinds]
        if of_a_kind:
            raise BadSurrogate(f"`{of_a_kind[0]}` has a kind, and cannot have a surrogate as well")
        surrogates_of.update(dict.fromkeys(names, surrogate))
    return surrogates_of


@dataclass
class Declared:
    """The leaves of a layer that have a surrogate."""

    layer: BoundLayer
    surrogates: Mapping[str, Surrogate]

    def examine(self) -> tuple[tuple[Check, ...], tuple[Finding, ...], tuple[str, ...]]:
        """Checks, findings and notes about these leaves. Raises BadSurrogate."""
        started = time.perf_counter()
        names = tuple(self.surrogates)
        leaves = {leaf.name: leaf for leaf in self.layer.narrow.leaves}
        rows = self._rows(sum(leaves[name].size for name in names))
        ran = self.layer.narrow.run(Call(cotangents=rows, wrt=names))
        narrow, seconds = self.layer.narrow, time.perf_counter() - started
        evaluation = self.layer.evaluation(narrow, ran, narrow.mode, len(rows), seconds)
        wide = self.layer.highest.run(Call(cotangents=rows, wrt=names))
        blocks = {name: self._block(leaves[name], rows, wide.gradients[name]) for name in names}
        checks, findings = judge(self._case(rows, evaluation, wide.output, blocks))
        return (
            tuple(replace(check, truth="declared") for check in checks),
            tuple(
                self._with_declaration(finding) for finding in findings if finding.input in blocks
            ),
            tuple(self._remarks(rows, blocks)),
        )

    def _rows(self, entries: int) -> Array:
        size = output_size(self.layer.narrow)
        if size <= PASSES and size * entries <= ENTRIES:
            return np.eye(size)
        rng = generator(self.layer.problem.seed, 11)
        return FORMATS[self.layer.problem.dtype].round(rng.standard_normal((ROWS, size)))

    def _case(
        self, rows: Array, evaluation: Evaluation, output: Array, blocks: Mapping[str, TruthBlock]
    ) -> Case:
        layer = self.layer
        whole = len(rows) == rows.shape[1]
        shape, mode = output_shape(layer.narrow), layer.narrow.mode
        projection = Projection() if whole else Projection(rows.reshape(len(rows), *shape))
        truth = Truth(
            dtype=layer.problem.dtype,
            output=output,
            output_error=np.full(output.shape, np.inf),  # the layer's own checks judge the output
            blocks={(mode, name): block for name, block in blocks.items()},
        )
        case = layer.case({mode: projection}, (evaluation,), truth, {})
        return replace(case, spec=replace(case.spec, wrt=tuple(blocks)))

    def _block(self, leaf: Leaf, rows: Array, wide: Array | None) -> TruthBlock:
        """The declared backward as truth, and as `stated` the layer's gradient in its highest
        precision: rounding does not cause an error that both precisions have."""
        if self.surrogates[leaf.name].formula == STRAIGHT_THROUGH:
            block = self._straight_through(leaf, rows)
        else:
            block = self._of_formula(leaf, rows)
        return block if wide is None else replace(block, stated=wide)

    def _straight_through(self, leaf: Leaf, rows: Array) -> TruthBlock:
        if leaf.size != rows.shape[1]:
            raise BadSurrogate(
                "straight_through passes the upstream gradient through unchanged, but "
                f"`{leaf.name}` has {leaf.size} entries and the output {rows.shape[1]}"
            )
        known = np.ones(rows.shape, dtype=np.bool_)
        return TruthBlock.of(rows, np.zeros(rows.shape), scale=np.abs(rows), certified=known)

    def _of_formula(self, leaf: Leaf, rows: Array) -> TruthBlock:
        """The derivative of the declared formula by this leaf. Raises BadSurrogate if it does not
        fit."""
        spec, problem = self.layer.problem.spec, self.layer.problem
        text = self.surrogates[leaf.name].formula
        words = {one.name: word_of(one.name) for one in self.layer.narrow.leaves}
        values = {words[one.name]: one.value for one in self.layer.narrow.leaves}
        arguments = {name: Argument.of(value) for name, value in values.items()}
        parsed = parse(text, constants=spec.constants, inputs=arguments)
        if parsed.program is None:
            raise BadSurrogate(f"the surrogate `{text}`: {parsed.errors[0].message}")
        output = parsed.program.result.shape
        if output != (shape := output_shape(self.layer.narrow)):
            raise BadSurrogate(
                f"the surrogate `{text}` has shape {output}, but the layer has shape {shape}"
            )
        bounds = {words[name]: (entry.low, entry.high) for name, entry in problem.inputs.items()}
        request = TruthRequest(
            program=parsed.program,
            values=values,
            bounds=bounds,
            wrt=(words[leaf.name],),
            dtype=problem.dtype,
            projections={"reverse": Projection(rows.reshape(len(rows), *output))},
            seed=problem.seed,
            conditioning=True,
        )
        return compute(request).blocks["reverse", words[leaf.name]]

    # For people

    def _with_declaration(self, finding: Finding) -> Finding:
        assert finding.input is not None
        declared = self.surrogates[finding.input].formula
        message = finding.message
        if finding.code in (Codes.WRONG_GRADIENT, Codes.MISSING_GRADIENT):
            message += f"; `{declared}` was declared"
        return replace(finding, message=message, truth_source="declared")

    def _remarks(self, rows: Array, blocks: Mapping[str, TruthBlock]) -> Iterator[str]:
        for name, surrogate in self.surrogates.items():
            yield f"`{name}`: its backward is declared as {surrogate.formula}: {surrogate.reason}"
            if self._is_the_derivative(name, rows, blocks[name].value):
                yield f"`{name}`: the declared surrogate equals the derivative: it is not needed"

    def _is_the_derivative(self, name: str, rows: Array, declared: Array) -> bool:
        """Whether the declared backward equals the layer's slope along random signs, to a quarter
        of the digits. A central difference whose step is the cube root of the unit roundoff has two
        thirds of the digits."""
        leaf = next(leaf for leaf in self.layer.narrow.leaves if leaf.name == name)
        bits = FORMATS[self.layer.highest.dtype].bits
        rng = generator(self.layer.problem.seed, 13)
        size = np.max(np.abs(leaf.value), initial=0.0) or 1.0
        step = size * 2.0 ** -round(bits / 3)
        entry = self.layer.problem.inputs.get(name)
        for _ in range(DIRECTIONS):
            along = signs(rng, leaf.shape)
            ends = [leaf.value + side * step * along for side in (1.0, -1.0)]
            if entry is not None and any(
                np.any((end < entry.low) | (end > entry.high)) for end in ends
            ):
                return False  # the layer must not be evaluated outside the domain
            above, below = (self.layer.highest.value({name: end}) for end in ends)
            slope = rows @ ((above - below) / (2 * step))
            expected = declared @ along.reshape(-1)
            scale = np.abs(declared) @ np.ones(leaf.size)
            if not np.all(np.abs(slope - expected) <= 2.0 ** -(NOTE_BITS * bits) * scale):
                return False
        return True


def leave_out(subject: Subject, names: Mapping[str, Surrogate]) -> None:
    """Stop comparing the leaves with these names with the derivative."""
    subject.differentiate(
        [leaf.name for leaf in subject.leaves if leaf.differentiable and leaf.name not in names]
    )
