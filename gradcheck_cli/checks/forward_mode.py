"""Run a layer in forward mode: the whole Jacobian, or its products with directions."""

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
"""Each entry maps the name of a leaf to its tangent."""


class Pushes:
    """Forward mode of one problem. `directions` (k, n) are the tangents of each moving leaf, one
    leaf at a time; None for every entry. `notes` say which leaves have no forward mode."""

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
        self, subject: Subject, output: Array | None = None, asked: Values | None = None
    ) -> Evaluation | None:
        """Evaluate the subject in forward mode; None, and a note, if it has no such mode. `output`
        is its value, if known. `asked` masks the columns to push for each leaf (None: all); the
        others are nan, and a leaf without any is left out."""
        started = time.perf_counter()
        problem = self._problem
        gradients: dict[str, Gradient] = {}
        refusals: dict[str, None] = {}
        evaluation = Evaluation(self._name, subject.dtype, problem.dtype, "forward")
        along = {
            leaf.name: self._tangents_from(leaf, None if asked is None else asked.get(leaf.name))
            for leaf in subject.leaves
            if leaf.differentiable and (asked is None or np.any(asked.get(leaf.name, False)))
        }
        try:
            for name, columns in self._columns_by_leaf(subject, along, refusals).items():
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
        if reason and subject is self._narrow:  # only the problem's dtype must have forward mode
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

    def _tangents_from(self, leaf: Leaf, asked: Array | None) -> Tangents:
        """The tangents to push from a leaf."""
        directions = self.directions
        rows = np.eye(leaf.size) if directions is None else directions[leaf.name]
        if asked is not None:
            rows = rows[asked]
        return [{leaf.name: row.reshape(leaf.shape)} for row in rows]

    def _columns_by_leaf(
        self, subject: Subject, along: Mapping[str, Tangents], refusals: dict[str, None]
    ) -> dict[str, list[Array | None]]:
        """The columns by each leaf that has forward mode, in one batch; `refusals` gets reasons."""
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
    """The columns as a gradient (size, n). It has no values if no column depends on the leaf. If
    only some columns were `asked`, the others are nan."""
    if columns and all(column is None for column in columns):
        return Gradient(None)
    known = [np.zeros(size) if column is None else column for column in columns]
    found = np.stack(known, axis=1) if known else np.zeros((size, 0))
    if asked is None:
        return Gradient(found)
    whole = np.full((size, len(asked)), np.nan)
    whole[:, asked] = found
    return Gradient(whole)
