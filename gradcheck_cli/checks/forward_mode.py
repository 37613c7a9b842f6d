"""Forward mode of a layer, for the judge: the whole Jacobian, or its products with directions."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.shape import moving_size, output_shape, output_size
from gradcheck_cli.domain.draws import direction
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation, Gradient
from gradcheck_cli.domain.layer import LayerProblem
from gradcheck_cli.domain.scale import tangent_scale
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.tracebacks import as_failure, raise_if_internal

COLUMNS = 16  # forward passes for a whole Jacobian; beyond that, DIRECTIONS a leaf
DIRECTIONS = 2  # one Gaussian, one of Rademacher


class Pushes:
    """One problem. `directions` (k, n) of each leaf that moves, one leaf at a time; None for every
    entry. `notes` say where there is no forward mode."""

    def __init__(self, name: str, problem: LayerProblem, narrow: Subject) -> None:
        self._name = name
        self._problem = problem
        self._shape = output_shape(narrow)
        self.directions = self._drawn(narrow)
        self.notes: tuple[str, ...] = ()

    def _drawn(self, narrow: Subject) -> Mapping[str, Array] | None:
        """Directions for leaves whose columns are too many to be pushed one by one."""
        if moving_size(narrow) <= COLUMNS:
            return None
        rng = np.random.default_rng([self._problem.seed, 7])
        fmt = FORMATS[self._problem.dtype]
        drawn = {}
        for leaf in narrow.leaves:
            if leaf.differentiable:
                along = [direction(rng, leaf.size, turn) for turn in range(DIRECTIONS)]
                drawn[leaf.name] = fmt.round(np.stack(along) * tangent_scale(leaf.value))
        return drawn

    def evaluation(
        self,
        subject: Subject,
        output: Array | None = None,
        asked: Mapping[str, Array] | None = None,
    ) -> Evaluation | None:
        """What forward mode gives of the subject, whose `output` may be known; None, and a note,
        where there is no such mode. `asked` are masks of the columns by leaf that are pushed, where
        not all are: the others are nan, and a leaf without any is left out."""
        started = time.perf_counter()
        problem = self._problem
        gradients: dict[str, Gradient] = {}
        refusals: dict[str, None] = {}
        evaluation = Evaluation(self._name, subject.dtype, problem.dtype, "forward")
        passes = 0
        try:
            for leaf in subject.leaves:
                columns = None if asked is None else asked.get(leaf.name, np.zeros(0, np.bool_))
                if not leaf.differentiable or (columns is not None and not np.any(columns)):
                    continue
                found = self._pushed(subject, leaf.name, leaf.value.shape, refusals, columns)
                if found is not None:
                    gradients[leaf.name] = found
                    passes += self._columns(leaf.name, leaf.size)
            output = subject.value({}) if output is None else output
        except Exception as error:
            raise_if_internal(error)
            return replace(evaluation, failure=as_failure(error))
        reason = "; ".join(refusals)
        if reason and problem.named_modes:
            return replace(evaluation, failure=as_failure(Unsupported(reason)))
        if reason:
            self.notes += (f"{self._name}: forward mode was left out: {reason}",)
        if not gradients:
            return None
        return replace(
            evaluation,
            output=output.reshape(self._shape),
            gradients=gradients,
            forward=passes,
            duration_s=time.perf_counter() - started,
        )

    def _pushed(
        self,
        subject: Subject,
        name: str,
        shape: tuple[int, ...],
        refusals: dict[str, None],
        asked: Array | None,
    ) -> Gradient | None:
        """The columns by one leaf, without values where no output ever has a tangent; None where
        there is no such mode."""
        directions = self.directions
        along = np.eye(math.prod(shape)) if directions is None else directions[name]
        if asked is not None:
            along = along[asked]
        try:
            columns = subject.jvps([{name: d.reshape(shape)} for d in along])
        except Unsupported as error:
            refusals[str(error)] = None
            return None
        size = output_size(subject)
        if columns and all(column is None for column in columns):
            return Gradient(None)
        known = [np.zeros(size) if column is None else column for column in columns]
        found = np.stack(known, axis=1) if known else np.zeros((size, 0))
        if asked is None:
            return Gradient(found)
        whole = np.full((size, len(asked)), np.nan)
        whole[:, asked] = found
        return Gradient(whole)

    def _columns(self, name: str, size: int) -> int:
        return size if self.directions is None else len(self.directions[name])
