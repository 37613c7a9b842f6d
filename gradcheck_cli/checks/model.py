"""Compare a layer with the formula in its spec: the value, and the gradients against the certified
derivative of the formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer, output_shape
from gradcheck_cli.checks.certified.program_truth import ProgramTruth
from gradcheck_cli.checks.findings import BadSpec
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.layer import LayerProblem, Leaf, word_of
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.thresholds import SAME_ERROR
from gradcheck_cli.domain.truth import Documented, Truth
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.judge.findings import severity_of_loss
from gradcheck_cli.judge.measures import error_in_ulps, within_rounding
from gradcheck_cli.judge.outputs import follows_output, output_entries, worst_first
from gradcheck_cli.judge.wording import documented_words


def formula_of(problem: LayerProblem, leaves: Sequence[Leaf]) -> Program:
    """The model of the spec as a program over the leaves. Raises BadSpec if it does not parse."""
    spec = problem.spec
    assert spec.model is not None
    words = {leaf.name: word_of(leaf.name) for leaf in leaves}
    arguments = {words[leaf.name]: Argument.of(leaf.kept) for leaf in leaves}
    parsed = parse(spec.model.text, spec.model.place, constants=spec.constants, inputs=arguments)
    if parsed.program is None:
        raise BadSpec(parsed.errors)
    return parsed.program


class Model(ProgramTruth):
    """The formula of a problem, compared with its layer."""

    def __init__(self, layer: BoundLayer) -> None:
        super().__init__(layer, formula_of(layer.problem, layer.narrow.leaves))

    # The value

    def wrong_output(self) -> Finding | None:
        """GC104 if the layer computes a different function from the formula in every precision;
        GC305 if its framework documents the difference."""
        shape = self.program.result.shape
        mine = output_shape(self.layer.narrow)
        if shape != mine and (
            len(self.layer.narrow.outputs) == 1 or np.prod(shape) != np.prod(mine)
        ):
            return self.layer.finding(
                Codes.WRONG_OUTPUT, f"it returns shape {mine}, but the formula has shape {shape}"
            )
        output = np.ravel(self.layer.narrow.value({}))
        truth = self.truth({})
        off = ~self._within_rounding(output, truth, self.layer.problem.dtype)
        if not np.any(off):
            return None
        again = self._value_in_other_dtype()
        if again is None and self.layer.problem.dtype != "float64":
            return None
        truth = self.truth({}, costs=True)
        if again is not None:
            off = ~self._within_rounding(output, truth, self.layer.problem.dtype)
            off &= self._persists(output, again, truth)
        if not np.any(off):
            return None
        documented = next((one for one in truth.documented if one.engine == self.layer.name), None)
        if documented is not None:
            says = follows_output(output, documented, FORMATS[self.layer.problem.dtype])
            if np.all(says | ~off):
                return self._as_documented(output, truth, off, documented)
            off &= ~says
        return self._finding_of_outputs(output, truth, off)

    def _value_in_other_dtype(self) -> tuple[str, Array] | None:
        """The dtype and flat value of the layer in another precision, or None."""
        if self.layer.highest is not self.layer.narrow:
            return self.layer.highest.dtype, np.ravel(self.layer.highest.value({}))
        with self.layer.coarser() as other:
            return None if other is None else (other.dtype, np.ravel(other.value({})))

    def _within_rounding(self, output: Array, truth: Truth, dtype: str) -> Array:
        """A mask of the elements that are right within rounding, or that nothing is known about."""
        exact, bar = np.ravel(truth.output), np.ravel(truth.output_error)
        granted = np.zeros(exact.shape)
        if truth.output_cost is not None:
            cost = truth.output_cost
            granted = np.fmax(np.ravel(cost.known_condition), np.ravel(cost.allowance))
            ratio = FORMATS[dtype].unit_roundoff / FORMATS[self.layer.problem.dtype].unit_roundoff
            granted = granted * ratio
        right = within_rounding(output, exact, bar, FORMATS[dtype], granted)
        unsure = ~np.isfinite(exact) | ~np.isfinite(output)  # GC203 reports nan and inf
        return np.asarray(right | unsure)

    def _persists(self, output: Array, again: tuple[str, Array], truth: Truth) -> Array:
        """A mask of the errors that rounding does not cause: the error is the same in another
        precision, or the other precision is lower and right within its own rounding."""
        dtype, other = again
        exact = np.ravel(truth.output)
        error, there = output - exact, other - exact
        same = np.abs(error - there) <= SAME_ERROR * np.abs(error)
        lower = FORMATS[dtype].bits < FORMATS[self.layer.problem.dtype].bits
        return np.asarray(same | (lower & self._within_rounding(other, truth, dtype)))

    def _finding_of_outputs(
        self, output: Array, truth: Truth, off: Array, code: str = Codes.WRONG_OUTPUT
    ) -> Finding:
        ulps = error_in_ulps(output, np.ravel(truth.output), FORMATS[self.layer.problem.dtype])
        places = worst_first(off, ulps)
        entries = output_entries(output, truth, ulps, places, output_shape(self.layer.narrow))
        many = "the output" if output.size == 1 else f"{len(places)} of {output.size} outputs"
        source = "certified" if truth.output_certified else "confirmed"
        found = self.layer.finding(code, f"{many}: differs from the formula, in every precision")
        return replace(found, entries=entries, more=len(places) - len(entries), truth_source=source)

    def _as_documented(
        self, output: Array, truth: Truth, off: Array, documented: Documented
    ) -> Finding:
        found = self._finding_of_outputs(output, truth, off, Codes.DOCUMENTED_APPROXIMATION)
        fmt = FORMATS[self.layer.problem.dtype]
        return replace(
            found,
            message=f"differs from the formula: {documented_words(documented)}",
            severity=severity_of_loss(
                Codes.DOCUMENTED_APPROXIMATION, found.entries[0].ulps or 0.0, fmt
            ),
        )
