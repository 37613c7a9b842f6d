"""Forward mode of a layer, for the judge: the whole Jacobian, or its products with directions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from gradcheck_cli.checks.bound_layer import moving_size, output_shape
from gradcheck_cli.domain.draws import direction, generator
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.evaluation import Evaluation, Gradient
from gradcheck_cli.domain.layer import LayerProblem, Leaf
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.scale import tangent_scale
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.subject import Subject, output_size
from gradcheck_cli.engines.tracebacks import as_failure, raise_if_internal

COLUMNS = 16  # forward passes for a whole Jacobian; beyond that, DIRECTIONS a leaf
DIRECTIONS = 2  # one Gaussian, one of Rademacher

Tangents: TypeAlias = Sequence[Values]
"""By leaf, one after the other."""


class Pushes:
    """One problem. `directions` (k, n) of each leaf that moves, one leaf at a time; None for every
    entry. `notes` say where there is no forward mode."""

    def __init__(self, name: str, problem: LayerProblem, narrow: Subject) -> None:
        self._name = name
        self._narrow = narrow
        self._problem = problem
        self._shape = output_shape(narrow)
        self._leaves = narrow.leaves
        self._has_few_columns = moving_size(narrow) <= COLUMNS
        self.notes: tuple[str, ...] = ()

    @cached_property
    def directions(self) -> Values | None:
        if self._has_few_columns:
            return None
        rng = generator(self._problem.seed, 7)
        fmt = FORMATS[self._problem.dtype]
        drawn = {}
        for leaf in self._leaves:
            if leaf.differentiable:
                along = [direction(rng, leaf.size, turn) for turn in range(DIRECTIONS)]
                drawn[leaf.name] = fmt.round(np.stack(along) * tangent_scale(leaf.value))
        return drawn

    def evaluation(
        self,
        subject: Subject,
        output: Array | None = None,
        asked: Values | None = None,
    ) -> Evaluation | None:
        """What forward mode gives of the subject, whose `output` may be known; None, and a note,
        where there is no such mode. `asked` are masks of the columns by leaf that are pushed, where
        not all are: the others are nan, and a leaf without any is left out."""
        started = time.perf_counter()
        problem = self._problem
        gradients: dict[str, Gradient] = {}
        refusals: dict[str, None] = {}
        evaluation = Evaluation(self._name, subject.dtype, problem.dtype, "forward")
        along = {
            leaf.name: self._along(leaf, None if asked is None else asked.get(leaf.name))
            for leaf in subject.leaves
            if leaf.differentiable and (asked is None or np.any(asked.get(leaf.name, False)))
        }
        try:
            for name, columns in self._pushed(subject, along, refusals).items():
                gradients[name] = _gradient(
                    columns, output_size(subject), None if asked is None else asked[name]
                )
            output = subject.value({}) if output is None else output
        except Exception as error:
            raise_if_internal(error)
            return replace(evaluation, failure=as_failure(error))
        reason = "; ".join(refusals)
        if reason and problem.named_modes:
            return replace(evaluation, failure=as_failure(Unsupported(reason)))
        if reason and subject is self._narrow:  # what another precision lacks is not missed
            missed = " and ".join(f"`{name}`" for name in along if name not in gradients)
            whose = f" by {missed}" if gradients else ""
            self.notes += (f"{self._name}: forward mode{whose} was left out: {reason}",)
        if not gradients:
            return None
        sizes = {leaf.name: leaf.size for leaf in subject.leaves}
        return replace(
            evaluation,
            output=output.reshape(self._shape),
            gradients=gradients,
            forward=sum(self._columns(name, sizes[name]) for name in gradients),
            duration_s=time.perf_counter() - started,
        )

    def _along(self, leaf: Leaf, asked: Array | None) -> Tangents:
        """The tangents that are pushed from a leaf."""
        directions = self.directions
        rows = np.eye(leaf.size) if directions is None else directions[leaf.name]
        if asked is not None:
            rows = rows[asked]
        return [{leaf.name: row.reshape(leaf.shape)} for row in rows]

    def _pushed(
        self, subject: Subject, along: Mapping[str, Tangents], refusals: dict[str, None]
    ) -> dict[str, list[Array | None]]:
        """The columns by each leaf but those for which there is no such mode, all at once."""
        every = iter(subject.jvps([one for tangents in along.values() for one in tangents]))
        found: dict[str, list[Array | None]] = {}
        for name, tangents in along.items():
            columns = [next(every) for _ in tangents]
            refused = [str(one) for one in columns if isinstance(one, Unsupported)]
            refusals.update(dict.fromkeys(refused))
            if not refused:
                found[name] = [one for one in columns if not isinstance(one, Unsupported)]
        return found

    def _columns(self, name: str, size: int) -> int:
        return size if self.directions is None else len(self.directions[name])


def _gradient(columns: Sequence[Array | None], size: int, asked: Array | None) -> Gradient:
    """The columns of outputs of this size, without values where no output ever has a tangent; of
    all columns only those that are `asked`, the others nan."""
    if columns and all(column is None for column in columns):
        return Gradient(None)
    known = [np.zeros(size) if column is None else column for column in columns]
    found = np.stack(known, axis=1) if known else np.zeros((size, 0))
    if asked is None:
        return Gradient(found)
    whole = np.full((size, len(asked)), np.nan)
    whole[:, asked] = found
    return Gradient(whole)
