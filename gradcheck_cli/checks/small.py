"""The whole Jacobian of a layer, for the judge: every entry in every mode, and the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gradcheck_cli.checks.admissible import Admissible
from gradcheck_cli.checks.forward_mode import Pushes
from gradcheck_cli.checks.shape import moving_size, output_shape, output_size, with_layer
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Evaluation, Gradient, Mode, Projection
from gradcheck_cli.domain.layer import LayerProblem
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.truth.of_layers import CallableTruth, stirred_values

if TYPE_CHECKING:
    from gradcheck_cli.checks.model import Model

ENTRIES = 1024  # of a Jacobian that is computed whole
PASSES = 64  # backward, for a whole Jacobian


def is_small(subject: Subject) -> bool:
    """Whether the whole Jacobian is to be computed."""
    rows = output_size(subject)
    return rows <= PASSES and rows * moving_size(subject) <= ENTRIES


class Whole:
    """One problem whose Jacobian is small. `narrow` is the layer in the dtype of the problem,
    `highest` in the highest precision that it runs in, which may be the same. `doubt` is called
    where a first look does not confirm the gradient."""

    def __init__(
        self,
        name: str,
        problem: LayerProblem,
        narrow: Subject,
        highest: Subject,
        doubt: Callable[[], None],
    ) -> None:
        self._name = name
        self._problem = problem
        self._narrow = narrow
        self._highest = highest
        bounds = {n: (e.low, e.high) for n, e in problem.spec.points[problem.point].items()}
        self._truth = CallableTruth(highest, bounds, problem.dtype, problem.seed, doubt)
        self._pushes = Pushes(name, problem, narrow)
        self._evaluations = list(self._all())

    @property
    def notes(self) -> tuple[str, ...]:
        return self._pushes.notes

    def judge_as_float32(self) -> bool:
        """From now on, by what float32 can give, where float64 numbers were seen to be float32 on
        their way through the layer; whether that is so."""
        if self._problem.dtype != "float64" or not self._truth.cast:
            return False
        self._problem = replace(self._problem, dtype="float32")
        self._truth.dtype = "float32"
        self._evaluations = [replace(one, rounding="float32") for one in self._evaluations]
        return True

    def case(self, costs: bool = False, model: Model | None = None) -> Case:
        """What the judge is given; `costs`: with what rounding may cost. The truth is that of
        `model`, where there is one."""
        problem, narrow = self._problem, self._narrow
        modes: dict[Mode, Mapping[str, Array] | None] = {"reverse": None}
        projections: dict[Mode, Projection] = {"reverse": Projection()}
        if any(evaluation.mode == "forward" for evaluation in self._evaluations):
            modes["forward"] = self._pushes.directions
            projections["forward"] = Projection(columns=self._pushes.directions)
        wide = {}
        if self._highest is not narrow:
            wide[self._name, "reverse"] = self._wide()
            wide |= self.pushed_again(self._highest) if costs else {}
        truth = model.truth(projections, costs) if model else self._truth.truth(modes, costs)
        if costs and isinstance(self._highest, Admissible):
            truth = self._highest.costing(truth)
        return Case(
            spec=with_layer(problem, narrow),
            point=problem.point if problem.spec.pointed else None,
            dtype=problem.dtype,
            values={leaf.name: leaf.value for leaf in narrow.leaves},
            projections=projections,
            evaluations=tuple(self._evaluations),
            truth=truth,
            wide=wide,
            named=frozenset({self._name} if problem.named else ()),
            named_modes=frozenset(problem.modes if problem.named_modes else ()),
            seed=problem.seed,
        )

    def _all(self) -> Iterator[Evaluation]:
        modes = self._problem.modes
        if "reverse" in modes:
            yield self.reverse(self._narrow)
        if "forward" in modes and (forward := self._pushed(self._narrow)) is not None:
            yield forward

    def reverse(self, subject: Subject, stirred: bool = False) -> Evaluation:
        """The Jacobian by reverse mode, all rows. `stirred`: where all numbers have moved by a few
        ulps."""
        started = time.perf_counter()
        rows = np.eye(output_size(subject))
        if subject is self._highest and not stirred:
            ran, seconds = self._truth.ran, self._truth.seconds  # the truth asked the same
        else:
            ran = subject.run(Call(stirred_values(subject) if stirred else {}, rows))
            seconds = time.perf_counter() - started
        return Evaluation(
            engine=self._name,
            dtype=subject.dtype,
            rounding=self._problem.dtype,
            mode="reverse",
            output=ran.output.reshape(output_shape(subject)),
            gradients={
                leaf: Gradient(g, ran.dtypes.get(leaf)) for leaf, g in ran.gradients.items()
            },
            forward=1,
            backward=len(rows),
            duration_s=seconds,
        )

    def _wide(self) -> Evaluation:
        truth, shape = self._truth, output_shape(self._narrow)
        return Evaluation(
            engine=self._name,
            dtype=self._highest.dtype,
            rounding=self._problem.dtype,
            mode="reverse",
            output=truth.output.reshape(shape),
            gradients={name: Gradient(g) for name, g in truth.gradients.items()},
        )

    # Forward mode

    def pushed_again(self, subject: Subject) -> dict[tuple[str, str], Evaluation]:
        """The same by forward mode in another precision, where there is a forward mode."""
        if all(evaluation.mode != "forward" for evaluation in self._evaluations):
            return {}
        found = self._pushed(subject)
        return {} if found is None else {(self._name, "forward"): found}

    def _pushed(self, subject: Subject) -> Evaluation | None:
        known = self._truth.output if subject is self._highest else None
        return self._pushes.evaluation(subject, known)
