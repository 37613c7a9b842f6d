"""Absorption in intermediate numbers: (x + 1e16) - 1e16 has lost x, and differences of its values
belong to another function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradcheck_cli.domain.draws import signs
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.thresholds import FIRST_ORDER_SLACK
from gradcheck_cli.engines.execution import Native
from gradcheck_cli.engines.layer.recording import Recording
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.tracebacks import where_it_runs
from gradcheck_cli.truth.numerics.differences import FIRST_STEP

ABSORBED = (
    "an intermediate number is so large that its last digit hides the changes that differences "
    "need; they contradict the gradient"
)

UNEXPLAINED = 4  # rows after which no more are recorded: the gradient is simply wrong
REPLAYS = 8  # their mean square is nearly always within a factor of 3 of its expectation


def absorbed(
    subject: Subject,
    rows: Array,
    sizes: Array,
    gradient: Array,
    difference: Array,
    contradicted: Array,
) -> Array:
    """Mark the `contradicted` entries (m, n) of a `gradient`, rows (m, k) @ J, that rounding of
    intermediate numbers explains: over the longest step of a difference, from inputs of these
    `sizes` (n,), it changes the value by as much as the `difference` is off.

    One run of the layer is recorded for each row that has a contradicted entry.
    """
    found = np.zeros(contradicted.shape, dtype=np.bool_)
    left = UNEXPLAINED
    for row in np.flatnonzero(np.any(contradicted, axis=1)):
        noise = rounding_on_the_way(subject, rows[row])
        if noise is None or left == 0:
            break
        apart = np.abs(gradient[row] - difference[row]) * FIRST_STEP * sizes
        found[row] = contradicted[row] & (apart <= noise)
        left -= not np.any(found[row])
    return found


def rounding_on_the_way(subject: Subject, row: Array) -> float | None:
    """How much rounding of intermediate numbers changes row @ y; None if the run cannot be
    recorded. This is the root mean square over REPLAYS runs of the forward, in which the result of
    each operation moves at random by two unit roundoffs, up or down (Parker, Monte Carlo
    Arithmetic, 1997). Whole numbers are exact, unless they are so large that the dtype has hardly
    any others: floor(x) is an index, and next to it there is none. Intermediate cotangents would
    say the same, but a custom gradient hides them and may be wrong."""

    def noise() -> float:
        replay = _Replay(subject.record(row), FORMATS[subject.dtype].unit_roundoff)
        changes = [float(row @ replay.change()) for _ in range(REPLAYS)]
        return FIRST_ORDER_SLACK * float(np.sqrt(np.mean(np.square(changes)))) / 2

    return where_it_runs(noise, None)


class _Replay:
    """The recorded forward pass, run again with other roundings."""

    def __init__(self, recording: Recording, unit: float) -> None:
        self._execution = recording.execution
        self._outputs = recording.outputs
        self._unit = unit
        self._needed = self._execution.needed(recording.outputs)
        self._rng = np.random.default_rng(47)
        self._plain = self._output(lambda result: result)

    def change(self) -> Array:
        """The change of the outputs, (m,)."""
        return self._output(self._perturbed) - self._plain

    def _output(self, rounding: Callable[[Native], Native]) -> Array:
        execution, natives = self._execution, dict[int, Native]()
        for place in self._needed:
            step = execution.steps[place]
            given = [natives.get(slot, execution.slots[slot].native) for slot in step.args]
            results = [y if step.moves else rounding(y) for y in step.low(given)]
            natives.update(zip(step.results, results, strict=True))
        numpy = execution.conversions.numpy
        parts = [numpy(natives.get(y, execution.slots[y].native)) for y in self._outputs]
        return np.concatenate([part.reshape(-1) for part in parts])

    def _perturbed(self, result: Native) -> Native:
        """The array with its floating numbers moved by two unit roundoffs, up or down at random."""
        values = self._execution.conversions.numpy(result)
        if values.dtype.kind != "f":
            return result
        moved = values * (1 + 2 * self._unit * signs(self._rng, values.shape))
        exact = (values == np.rint(values)) & (4 * self._unit * np.abs(values) <= 1)
        moved = np.where(exact, values, moved)
        return self._execution.conversions.native(moved, result)
