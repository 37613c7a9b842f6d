"""The enclosed truth at one point, and the kinds of failure of an engine's answers there.

`PointTruth` takes the program and a point, and `failures` the answers of an engine at it (`Answers`
of one point). It yields a `Failing` for each kind that certainly fails. A number that cannot be
enclosed is not a failure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Projection
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.search import KINDS, Kind
from gradcheck_cli.judge import failing
from gradcheck_cli.search import kinds
from gradcheck_cli.search.box import element_name
from gradcheck_cli.search.estimates import Answers
from gradcheck_cli.truth.certified.ball_program import LARGEST, BallProgram
from gradcheck_cli.truth.certified.enclose import Certificate, certify, certify_output

_SLOPE_BITS = 4096
_FAR, _NEAR = 400, 800  # one-sided slopes are taken over steps of 2^-400 and 2^-800
_SAME_SLOPE_BITS = 60
_SLOPED = ({"finite"}, {"finite", "none"})  # on both sides, or at the edge of the domain
_MOST_MOVED = 64  # elements whose second derivatives are enclosed, one pass each


@dataclass(frozen=True, slots=True)
class Failing:
    """One entry that fails in one kind; `size` says how badly. `value_lost`: the value at the point
    is not finite."""

    kind: Kind
    entry: str
    computed: float
    truth: float
    genuine: bool
    size: float
    value_lost: bool = False


class PointTruth:
    """The certified value and gradient of a program with rounded constants, at one point."""

    def __init__(
        self, program: Program, values: Mapping[str, Array], wrt: tuple[str, ...], dtype: str
    ) -> None:
        self._format = FORMATS[dtype]
        self._moves: dict[int, dict[str, Array]] = {}  # by element of the value
        self._request = TruthRequest(
            program=program,
            values=values,
            bounds={},
            wrt=wrt,
            dtype=dtype,
            projections={"reverse": Projection()},
        )
        numbers = (n for n, i in program.inputs.items() if program.nodes[i].kind == "float")
        self._every = replace(self._request, wrt=tuple(dict.fromkeys((*wrt, *numbers))))

    @cached_property
    def _value(self) -> Certificate:
        return certify_output(self._request, function=self._function)

    @cached_property
    def _gradients(self) -> Mapping[str, Certificate]:
        return {
            name: one for (_, name), one in certify(self._request, function=self._function).items()
        }

    @cached_property
    def _function(self) -> BallProgram:
        return BallProgram(self._request)

    @cached_property
    def _function_of_every(self) -> BallProgram:
        """The program as a function of all inputs, differentiated or not."""
        same = self._every.wrt == self._request.wrt
        return self._function if same else BallProgram(self._every)

    @cached_property
    def _slopes_of_every(self) -> Mapping[str, Certificate]:
        if self._every.wrt == self._request.wrt:
            return self._gradients
        found = certify(self._every, function=self._function_of_every)
        return {name: one for (_, name), one in found.items()}

    def failures(self, answers: Answers) -> Iterator[Failing]:
        """Yield the kinds in which the answers at the point fail, each at its worst entry."""
        worst: dict[Kind, Failing] = {}
        for one in (*self._of_value(answers.value[0]), *self._of_gradients(answers)):
            known = worst.get(one.kind)
            if known is None or one.size > known.size:
                worst[one.kind] = one
        lost = not np.isfinite(answers.value).all()
        yield from (replace(one, value_lost=lost) for one in worst.values())

    def excluded(self, answers: Answers) -> set[Kind]:
        """The kinds in which the answers at the point certainly do not fail. A number without a
        truth cannot be inaccurate, but it is unknown whether it should be finite."""
        value = self._value
        if not np.all(value.sure | value.nowhere):
            return set()
        defined = bool(np.all(value.sure))
        for name, one in self._gradients.items():
            for row, column in np.argwhere(~one.sure).tolist():
                bent = self._value_known(row) and self._slopes(name, (row, column)) == {"finite"}
                if not bent and not one.nowhere[row, column]:
                    return set()
                defined &= bent
        left = set(KINDS) - {one.kind for one in self.failures(answers)}
        if not defined:
            left.discard("undefined")
        if not np.isfinite(answers.value).all():
            left.discard("value-nonfinite")
        if not all(np.isfinite(gradient).all() for gradient in answers.gradients.values()):
            left.discard("gradient-nonfinite")
        return left

    def _of_value(self, computed: Array) -> Iterator[Failing]:
        certificate = self._value
        for i, number in enumerate(computed.tolist()):
            entry = "value" if len(computed) == 1 else f"value[{i}]"
            if certificate.nowhere.ravel()[i]:
                yield Failing("undefined", entry, number, math.nan, False, 1.0)
            if not certificate.sure.ravel()[i]:
                continue
            truth = float(certificate.value.ravel()[i])
            genuine = self._is_out_of_range(truth)
            if not math.isfinite(number):
                yield Failing("value-nonfinite", entry, number, truth, genuine, 2.0 - genuine)
                continue
            size = _number(failing.inaccuracy, number, truth, abs(truth), self._format)
            if size and not kinds.excused(abs(number - truth), self._moved_value(i)):
                yield Failing("value-inaccurate", entry, number, truth, False, size)

    def _of_gradients(self, answers: Answers) -> Iterator[Failing]:
        for name, gradient in answers.gradients.items():
            certificate = self._gradients[name]
            for row, (computed, truth) in enumerate(
                zip(gradient[0], certificate.value, strict=True)
            ):
                sure = certificate.sure[row]
                top = float(failing.top_of(np.where(sure, truth, 0.0))[0])
                for column in range(len(computed)):
                    place = (row, column)
                    found = self._of_entry(name, certificate, place, float(computed[column]), top)
                    entry = self._entry(name, row, column, len(gradient[0]))
                    yield from (Failing(kind, entry, *rest) for kind, *rest in found)

    def _of_entry(
        self, name: str, known: Certificate, place: tuple[int, int], number: float, top: float
    ) -> Iterator[tuple[Any, ...]]:
        """Yield (kind, computed, truth, genuine, size) for the failures of one entry of the
        gradient."""
        truth = float(known.value[place])
        if not known.sure[place]:
            if self._value_known(place[0]):
                slopes = self._slopes(name, place)
                nowhere = slopes == {"none"} and (known.tied[place] or known.nowhere[place])
                if slopes in _SLOPED and not math.isfinite(number):
                    yield "gradient-nonfinite", number, math.nan, False, 1.0
                if nowhere or "infinite" in slopes:
                    yield "undefined", number, math.nan, False, 0.5
            return
        genuine = self._is_out_of_range(truth)
        if not math.isfinite(number):
            yield "gradient-nonfinite", number, truth, genuine, 2.0 - genuine
            return
        lost = _number(failing.lost_to_zero, number, truth, top, self._format)
        off = _number(failing.inaccuracy, number, truth, top, self._format)
        if (lost or off) and kinds.excused(
            abs(number - truth), self._input_rounding_effect(name, place)
        ):
            return
        if lost:
            yield "gradient-underflow-to-zero", number, truth, False, lost
        if off:
            yield "gradient-inaccurate", number, truth, False, off

    def _value_known(self, row: int) -> bool:
        return bool(self._value.sure.ravel()[row])

    def _is_out_of_range(self, truth: float) -> bool:
        """Check whether a number does not fit the dtype."""
        return math.isinf(truth) or bool(np.isinf(self._format.round(truth)))

    def _entry(self, name: str, row: int, column: int, rows: int) -> str:
        shape = np.shape(self._request.values[name])
        found = element_name(name, index_of(column, shape))
        return found if rows == 1 else f"{found} of value[{row}]"

    def _moved_value(self, row: int) -> float:
        """How far half an ulp of every input moves an element of the value, to first order; 0 if
        unknown. As in a run, inputs that are not differentiated count, too."""
        total = 0.0
        for name, certificate in self._slopes_of_every.items():
            sizes = np.abs(np.asarray(self._request.values[name], np.float64).ravel())
            known = np.where(certificate.sure[row], np.abs(certificate.value[row]), 0.0)
            total += float(np.sum(sizes * known))
        return total * self._format.unit_roundoff

    def _input_rounding_effect(self, name: str, place: tuple[int, int]) -> float:
        """How far half an ulp of every input moves an entry of the gradient; 0 if unknown."""
        row, column = place
        if row not in self._moves:
            self._moves[row] = self._moved_gradient(row)
        return float(self._moves[row][name][column])

    def _moved_gradient(self, row: int) -> dict[str, Array]:
        """How far half an ulp of every input moves the gradient of an element of the value."""
        from reference_engine.arithmetic.arbs import NotInBalls, Undecided, precision
        from reference_engine.enclosing import ball_hvp

        names = self._every.wrt
        arrays = [np.asarray(self._request.values[n], np.float64) for n in names]
        nothing = {name: np.zeros(x.size) for name, x in zip(names, arrays, strict=True)}
        if sum(x.size for x in arrays) > _MOST_MOVED:
            return nothing
        total = {name: np.zeros(x.size) for name, x in zip(names, arrays, strict=True)}
        cotangent = np.zeros(self._output_shape)
        cotangent.reshape(-1)[row] = 1.0
        try:
            with precision(_SLOPE_BITS // 4):
                for k, x in enumerate(arrays):
                    for j in np.flatnonzero(x.ravel()):
                        tangents = [np.zeros(one.shape) for one in arrays]
                        tangents[k].reshape(-1)[j] = x.ravel()[j]
                        found = ball_hvp(self._function_of_every, arrays, tangents, cotangent)
                        for name, balls in zip(names, found, strict=True):
                            total[name] += [
                                abs(float(ball.mid())) if ball.is_finite() else 0.0
                                for ball in balls.reshape(-1)
                            ]
        except (NotInBalls, Undecided):
            return nothing
        return {name: sizes * self._format.unit_roundoff for name, sizes in total.items()}

    @property
    def _output_shape(self) -> tuple[int, ...]:
        return self._request.program.result.shape

    def _slopes(self, name: str, place: tuple[int, int]) -> set[str]:
        """The one-sided slopes at a point where the chain of derivatives has no value: "finite" if
        those over 2^-400 and 2^-800 agree, "infinite" if they do not, "none" outside the domain,
        "unknown" if they are not enclosed well enough, or the value is beyond the range of float64:
        such a function may be so steep that these steps are long."""
        from flint import arb

        from reference_engine.arithmetic.arbs import precision

        found = set()
        with precision(_SLOPE_BITS):
            here = self._moved_output(name, place, None)
            if abs(here) > LARGEST:
                return {"unknown"}
            for sign in (1, -1):
                slopes = []
                for bits in (_FAR, _NEAR):
                    step = arb(sign) * arb(2) ** -bits
                    slopes.append((self._moved_output(name, place, step) - here) / step)
                far, near = slopes
                if not (far.is_finite() and near.is_finite()):
                    found.add("none")
                    continue
                limit = (abs(far) + abs(near) + 1) * arb(2) ** -_SAME_SLOPE_BITS
                apart = abs(far - near)
                found.add(
                    "finite" if apart <= limit else "infinite" if apart > limit else "unknown"
                )
        return found

    def _moved_output(self, name: str, place: tuple[int, int], step: Any) -> Any:
        """An element of the value with one element of an input moved; a ball without a number if it
        cannot be enclosed."""
        from flint import arb

        from reference_engine.arithmetic.arbs import NotInBalls, Undecided, objects, unwrap
        from reference_engine.arithmetic.balls import Ball

        arrays = []
        for one in self._request.wrt:
            balls = objects(np.asarray(self._request.values[one], np.float64)).copy()
            if one == name and step is not None:
                balls.reshape(-1)[place[1]] += step
            arrays.append(Ball(balls))
        try:
            return unwrap(self._function(*arrays)).reshape(-1)[place[0]]
        except (NotInBalls, Undecided):
            return arb.nan()


def _number(rule: Any, computed: float, truth: float, top: float, fmt: Any) -> float:
    return float(rule(np.float64(computed), np.float64(truth), np.float64(top), fmt))
