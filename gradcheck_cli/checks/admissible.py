"""A layer whose inputs have kinds: each moves only so that it stays of its kind, as a rotation
turns.

Callers move an input by adding to it. For an input with a kind, the addend is a vector of
coordinates of another value of that kind, and gradients are with respect to the coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.domain.spec import Input
from gradcheck_cli.domain.truth import Truth
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.custom import GradientBarrier, UnclippedGradients
from gradcheck_cli.engines.layer.subject import Call, CallResult, Subject, each_jvp, output_size
from gradcheck_cli.specfile.kinds import KINDS, Kind

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.recording import Recording

SECOND = "second derivatives are not checked for an input with a kind"
WHOLE = "not traced: an input has a kind"


def kinds_of(inputs: Mapping[str, Input]) -> dict[str, Kind]:
    """The kind of each input that has one."""
    return {name: KINDS[one.kind] for name, one in inputs.items() if one.kind}


def moved_within_kind(
    kinds: Mapping[str, Kind], own: Mapping[str, Array], values: Mapping[str, Array]
) -> dict[str, Array]:
    """The values, with those of a kind read as `own` plus coordinates and moved accordingly."""
    return {
        name: kinds[name].moved(own[name], value - own[name])
        if name in kinds and not np.array_equal(value, own[name])
        else value
        for name, value in values.items()
    }


class Admissible:
    """A subject (`subject.Subject`) whose inputs of these `kinds` stay of their kind. `origin` has
    the values at which all coordinates are zero."""

    def __init__(
        self, subject: Subject, kinds: Mapping[str, Kind], origin: Mapping[str, Array]
    ) -> None:
        self._subject = subject
        self.dtype, self.outputs, self.stencils = subject.dtype, subject.outputs, subject.stencils
        self.first_value = subject.first_value
        self.stages, self.at_stage = subject.stages, subject.at_stage
        self.traced_stage = subject.traced_stage
        self.is_fresh, self.shows_pairs = subject.is_fresh, subject.shows_pairs
        self.copies, self.chosen = subject.copies, subject.chosen
        self.differentiate, self.assume_digits = subject.differentiate, subject.assume_digits
        self.replacing, self.casts, self.functions = (
            subject.replacing,
            subject.casts,
            subject.functions,
        )
        self.lift, self.record_forward = subject.lift, subject.record_forward
        self.lines, self.evaluations_of = subject.lines, subject.evaluations_of
        self.solvers, self.samplers = subject.solvers, subject.samplers
        self.hold, self.close = subject.hold, subject.close
        self._kinds = kinds
        self._origin = origin
        self._own = {leaf.name: leaf.value for leaf in subject.leaves if leaf.name in kinds}
        self.notes = (
            *subject.notes,
            *(
                f"`{name}` stays of its kind ({kind.name}): entry "
                f"{'[i, j]' if kind.axes == 2 else '[i]'} of its gradient is along the motion "
                f"that {kind.motion}"
                for name, kind in kinds.items()
            ),
        )

    @property
    def runs_once(self) -> bool:
        return self._subject.runs_once

    @runs_once.setter
    def runs_once(self, value: bool) -> None:
        self._subject.runs_once = value

    @property
    def digits(self) -> str:
        return self._subject.digits

    @property
    def user_function(self) -> Any:
        return self._subject.user_function

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return self._subject.leaves

    @property
    def mode(self) -> Mode:
        return self._subject.mode

    def _values(self, values: Mapping[str, Array]) -> dict[str, Array]:
        return moved_within_kind(self._kinds, self._origin, values)

    def value(self, values: Mapping[str, Array]) -> Array:
        return self._subject.value(self._values(values))

    def several(self, many: Sequence[Mapping[str, Array]]) -> Array:
        return self._subject.several([self._values(values) for values in many])

    def run(self, call: Call) -> CallResult:
        values = self._values(call.values)
        between, earlier = call.interleaved_inputs, call.earlier_inputs
        ran = self._subject.run(
            replace(
                call,
                values=values,
                each=None,
                interleaved_inputs=None if between is None else self._values(between),
                earlier_inputs=None if earlier is None else self._values(earlier),
            )
        )
        return replace(ran, gradients=self._coordinate_gradients(ran.gradients, values))

    def _coordinate_gradients(
        self, gradients: Mapping[str, Array | None], values: Mapping[str, Array]
    ) -> dict[str, Array | None]:
        """Convert gradients (k, n) or (n,) of inputs with a kind to gradients by coordinates."""
        pulled = dict(gradients)
        for name, kind in self._kinds.items():
            gradient = pulled.get(name)
            if gradient is not None:
                x = values.get(name, self._own[name])
                shaped = gradient.reshape(*gradient.shape[:-1], *x.shape)
                pulled[name] = kind.pulled(x, shaped).reshape(gradient.shape)
        return pulled

    def costing(self, truth: Truth) -> Truth:
        """The truth (of all rows) with the rounding of the framework's gradient added to the costs:
        half an ulp of every entry, converted to coordinates."""
        rows = np.eye(output_size(self))
        gradients = self._subject.run(Call(cotangents=rows)).gradients
        blocks = dict(truth.blocks)
        for (mode, name), block in truth.blocks.items():
            gradient = gradients.get(name)
            whole = gradient is not None and gradient.shape == block.value.shape  # not projected
            if name in self._kinds and gradient is not None and whole:
                x = self._own[name]
                errors = np.abs(gradient).reshape(-1, *x.shape) * FORMATS[truth.dtype].unit_roundoff
                cost = self._kinds[name].spread(x, errors).reshape(gradient.shape)
                blocks[mode, name] = replace(
                    block,
                    condition=block.condition + cost,
                    allowance=block.allowance + cost,
                    floor=block.floor + cost,
                )
        return replace(truth, blocks=blocks)

    def jvp(self, tangents: Mapping[str, Array]) -> Array | None:
        return self._subject.jvp(self._projected_tangents(tangents))

    def tangents_of(self, tangents: Mapping[str, Array]) -> Array:
        return self._subject.tangents_of(self._projected_tangents(tangents))

    def _projected_tangents(self, tangents: Mapping[str, Array]) -> dict[str, Array]:
        return {
            name: self._kinds[name].along(self._own[name], u.reshape(self._own[name].shape))
            if name in self._kinds
            else u
            for name, u in tangents.items()
        }

    def jvps(self, many: Sequence[Mapping[str, Array]]) -> list[Array | Unsupported | None]:
        return each_jvp(self.jvp, many)

    def hvp(
        self,
        mode: Mode,
        row: Array,
        tangents: Mapping[str, Array],
        along: Mapping[str, Array] | None = None,
    ) -> Mapping[str, Array | None]:
        raise Unsupported(SECOND)

    def second_tangent(
        self, row: Array, firsts: Mapping[str, Array], tangents: Mapping[str, Array]
    ) -> float | None:
        raise Unsupported(SECOND)

    def double_vjp(self, row: Array, tangents: Mapping[str, Array]) -> Array:
        raise Unsupported(SECOND)

    def record(self, row: Array) -> Recording:
        raise Unsupported(WHOLE)

    def gradient_program(
        self, narrow: Subject, searched: Sequence[str], points: Sequence[Mapping[str, Array]]
    ) -> GradientProgram:
        return GradientProgram(reason=WHOLE)

    def uncut(self, row: Array) -> tuple[Mapping[str, Array | None], Sequence[GradientBarrier]]:
        plain, cuts = self._subject.uncut(row)
        return self._coordinate_gradients(plain, {}), [
            cut
            if cut.gradients is None
            else replace(cut, gradients=self._coordinate_gradients(cut.gradients, {}))
            for cut in cuts
        ]

    def unclipped_gradients(self, rows: Array) -> Sequence[UnclippedGradients]:
        return [
            replace(one, gradients=self._coordinate_gradients(one.gradients, {}))
            for one in self._subject.unclipped_gradients(rows)
        ]
