"""Absorption in intermediate numbers: (x + 1e16) - 1e16 has lost x, and differences of such values
belong to a different function."""

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

UNEXPLAINED = 4  # rows; what is simply wrong is not written down for every one of its outputs
REPLAYS = 8  # their mean square is within a factor of 3 of its own mean, nearly always


def absorbed(
    subject: Subject,
    rows: Array,
    sizes: Array,
    gradient: Array,
    difference: Array,
    contradicted: Array,
) -> Array:
    """Which of the `contradicted` entries (m, n) of a `gradient`, rows (m, k) @ J, are explained by
    the roundings of the numbers on the way: over the longest step of a difference, from inputs of
    these `sizes` (n,), they change the value by as much as the `difference` is off.

    One run of the layer is written down for each row that holds a contradicted entry.
    """
    found = np.zeros(contradicted.shape, dtype=np.bool_)
    left = UNEXPLAINED
    for row in np.flatnonzero(np.any(contradicted, axis=1)):
        noise = rounding_on_the_way(subject, rows[row])
        if noise is None or left == 0:
            break
        with np.errstate(all="ignore"):
            apart = np.abs(gradient[row] - difference[row]) * FIRST_STEP * sizes
        found[row] = contradicted[row] & (apart <= noise)
        left -= not np.any(found[row])
    return found


def rounding_on_the_way(subject: Subject, row: Array) -> float | None:
    """What rounding the numbers on the way changes row @ y by: the root mean square over REPLAYS
    runs of the forward, in which each number that an operation gives is moved at random by two unit
    roundoffs, up or down (Parker, Monte Carlo Arithmetic, 1997). None where the run cannot be
    written down. Cotangents on the way would say the same, but a custom gradient hides them, and
    may be wrong."""

    def noise() -> float:
        replay = _Replay(subject.record(row), FORMATS[subject.dtype].unit_roundoff)
        changes = [float(row @ replay.change()) for _ in range(REPLAYS)]
        return FIRST_ORDER_SLACK * float(np.sqrt(np.mean(np.square(changes)))) / 2

    return where_it_runs(noise, None)


class _Replay:
    """The forward pass of a recording, run again with other roundings."""

    def __init__(self, recording: Recording, unit: float) -> None:
        self._execution = recording.execution
        self._outputs = recording.outputs
        self._unit = unit
        self._needed = self._execution.needed(recording.outputs)
        self._rng = np.random.default_rng(47)
        self._plain = self._output(lambda result: result)

    def change(self) -> Array:
        """What the outputs (m,) change by."""
        with np.errstate(all="ignore"):
            return self._output(self._nudged) - self._plain

    def _output(self, rounding: Callable[[Native], Native]) -> Array:
        execution, found = self._execution, dict[int, Native]()
        for place in self._needed:
            step = execution.steps[place]
            given = [found.get(slot, execution.slots[slot].native) for slot in step.args]
            results = [y if step.moves else rounding(y) for y in step.low(given)]
            found.update(zip(step.results, results, strict=True))
        numpy = execution.conversions.numpy
        parts = [numpy(found.get(y, execution.slots[y].native)) for y in self._outputs]
        return np.concatenate([part.reshape(-1) for part in parts])

    def _nudged(self, result: Native) -> Native:
        """The array, its floating numbers moved by two unit roundoffs."""
        values = self._execution.conversions.numpy(result)
        if values.dtype.kind != "f":
            return result
        moved = values * (1 + 2 * self._unit * signs(self._rng, values.shape))
        return self._execution.conversions.native(moved, result)
