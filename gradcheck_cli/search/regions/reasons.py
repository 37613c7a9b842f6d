"""The reason of a failure in words: the first operation whose number overflows, underflows, becomes
0 or has no value at a failing point, and not at one that does not fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.program import CONSTANT, Program
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.truth.plain import PlainFunction

_STATES = ("", "overflows", "underflows", "is 0", "has no value")


class Reasons:
    """The reasons for failures of one formula, and of the program that an engine executes for
    it."""

    def __init__(self, formula: Program, gradient: GradientProgram, fmt: FloatFormat) -> None:
        self._formula = formula
        self._gradient = gradient
        self._format = fmt

    def what_changes(
        self,
        right: Mapping[str, Array],
        failing: Mapping[str, Array],
        others: Sequence[Mapping[str, Array]] = (),
    ) -> str:
        """What happens at the values `failing` and not at `right`: "exp(x) overflows", or for the
        gradient "multiply of the gradient underflows"; empty if no number changes in this way. If
        something happens at all of `others` as well, that is the answer: a later operation."""
        found = self._first_new_state(self._formula, right, failing, others)
        if found is not None:
            return f"{self._formula.nodes[found[0]].text} {_STATES[found[1]]}"
        program, constants = self._gradient.program, self._gradient.constants
        if program is None:
            return ""
        points = [{**point, **constants} for point in (right, failing, *others)]
        found = self._first_new_state(program, points[0], points[1], points[2:])
        if found is None:
            return ""
        return f"{program.nodes[found[0]].op} of the gradient {_STATES[found[1]]}"

    def _first_new_state(
        self,
        program: Program,
        right: Mapping[str, Array],
        failing: Mapping[str, Array],
        others: Sequence[Mapping[str, Array]],
    ) -> tuple[int, int] | None:
        """The first node with a new state, and the state; the first that also has a new state at
        all the others, if there is one."""
        function = PlainFunction(program, self._format.name)
        before, *after = (function.nodes(point) for point in (right, failing, *others))
        first = None
        for index, node in enumerate(program.nodes):
            if node.kind != "float" or node.op == CONSTANT or not node.args:
                continue
            old = self._states(before[index])
            changed = [
                new[(new != old) & (new > 0)] for new in (self._states(a[index]) for a in after)
            ]
            if changed[0].size and all(one.size for one in changed):
                return index, int(changed[0][0])
            if changed[0].size and first is None:
                first = index, int(changed[0][0])
        return first

    def _states(self, numbers: Array) -> Array:
        fmt, size = self._format, np.abs(np.asarray(numbers, np.float64)).ravel()
        found = np.select(
            [np.isnan(size), size == 0, size < fmt.smallest_normal, size > fmt.largest],
            [4, 3, 2, 1],
        )
        return np.asarray(found)
