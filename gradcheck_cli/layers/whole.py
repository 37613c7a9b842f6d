"""The whole Jacobian of a layer, for the judge: every entry in every mode, and the truth."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation, Gradient, Mode, Projection
from gradcheck_cli.domain.layer import LayerProblem, as_program
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.base import Unsupported
from gradcheck_cli.engines.callables.subject import Call, Subject
from gradcheck_cli.engines.tracebacks import as_failure
from gradcheck_cli.truth.callables import CallableTruth, stirred_values

if TYPE_CHECKING:
    from gradcheck_cli.layers.model import Model

ENTRIES = 1024  # of a Jacobian that is computed whole
PASSES = 64  # backward, for a whole Jacobian
COLUMNS = 16  # forward passes for a whole Jacobian; beyond that, DIRECTIONS a leaf
DIRECTIONS = 2  # one Gaussian, one of Rademacher


def is_small(subject: Subject) -> bool:
    """Whether the whole Jacobian is to be computed."""
    rows = output_size(subject)
    return rows <= PASSES and rows * moving_size(subject) <= ENTRIES


def output_size(subject: Subject) -> int:
    return sum(output.size for output in subject.outputs)


def moving_size(subject: Subject) -> int:
    return sum(leaf.size for leaf in subject.leaves if leaf.moves)


def output_shape(subject: Subject) -> tuple[int, ...]:
    """That of the only output; several are one flat vector."""
    if len(subject.outputs) == 1:
        return subject.outputs[0].shape
    return (output_size(subject),)


def with_layer(problem: LayerProblem, subject: Subject) -> Spec:
    """The spec, with the layer as a program of one operation over its leaves."""
    leaves = {leaf.name: leaf.value.shape for leaf in subject.leaves}
    program = as_program(problem.implementation, leaves, output_shape(subject))
    wrt = tuple(leaf.name for leaf in subject.leaves if leaf.moves)
    return replace(problem.spec, program=program, wrt=wrt)


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
        self.notes: tuple[str, ...] = ()
        bounds = {n: (e.low, e.high) for n, e in problem.spec.points[problem.point].items()}
        self._truth = CallableTruth(highest, bounds, problem.dtype, problem.seed, doubt)
        self._directions = self._drawn()
        self._evaluations = list(self._all())

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
            modes["forward"] = self._directions
            projections["forward"] = Projection(columns=self._directions)
        wide = {}
        if self._highest is not narrow:
            wide[self._name, "reverse"] = self._wide()
            wide |= self.pushed_again(self._highest) if costs else {}
        return Case(
            spec=with_layer(problem, narrow),
            point=problem.point if problem.spec.pointed else None,
            dtype=problem.dtype,
            values={leaf.name: leaf.value for leaf in narrow.leaves},
            projections=projections,
            evaluations=tuple(self._evaluations),
            truth=model.truth(projections, costs) if model else self._truth.truth(modes, costs),
            wide=wide,
            named=frozenset({self._name} if problem.named else ()),
            named_modes=frozenset(problem.modes if problem.named_modes else ()),
            seed=problem.seed,
        )

    def _all(self) -> Iterator[Evaluation]:
        modes = self._problem.modes
        if "reverse" in modes:
            yield self.reverse(self._narrow)
        if "forward" in modes and (forward := self._forward(self._narrow)) is not None:
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

    def _drawn(self) -> dict[str, Array] | None:
        """Directions for leaves whose columns are too many to be pushed one by one."""
        narrow = self._narrow
        if moving_size(narrow) <= COLUMNS:
            return None
        rng = np.random.default_rng([self._problem.seed, 7])
        fmt = FORMATS[self._problem.dtype]
        drawn = {}
        for leaf in narrow.leaves:
            if leaf.moves:
                gaussian = rng.standard_normal(leaf.size)
                signs = 2.0 * rng.integers(0, 2, leaf.size) - 1
                drawn[leaf.name] = fmt.round(np.stack([gaussian, signs]) * size_of(leaf.value))
        return drawn

    def pushed_again(self, subject: Subject) -> dict[tuple[str, str], Evaluation]:
        """The same by forward mode in another precision, where there is a forward mode."""
        if all(evaluation.mode != "forward" for evaluation in self._evaluations):
            return {}
        found = self._forward(subject)
        return {} if found is None else {(self._name, "forward"): found}

    def _forward(self, subject: Subject) -> Evaluation | None:
        """The Jacobian by forward mode, or its products with directions; None, and a note, where
        there is none."""
        started = time.perf_counter()
        problem = self._problem
        gradients: dict[str, Gradient] = {}
        refusals: dict[str, None] = {}
        evaluation = Evaluation(self._name, subject.dtype, problem.dtype, "forward")
        passes = 0
        try:
            for leaf in subject.leaves:
                if not leaf.moves:
                    continue
                found = self._pushed(subject, leaf.name, leaf.value.shape, refusals)
                if found is not None:
                    gradients[leaf.name] = Gradient(found)
                    passes += found.shape[1]
            highest = subject is self._highest
            output = self._truth.output if highest else subject.value({})
        except Exception as error:
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
            output=output.reshape(output_shape(subject)),
            gradients=gradients,
            forward=passes,
            duration_s=time.perf_counter() - started,
        )

    def _pushed(
        self, subject: Subject, name: str, shape: tuple[int, ...], refusals: dict[str, None]
    ) -> Array | None:
        directions = self._directions
        along = np.eye(math.prod(shape)) if directions is None else directions[name]
        try:
            columns = [subject.push({name: d.reshape(shape)}) for d in along]
        except Unsupported as error:
            refusals[str(error)] = None
            return None
        return np.stack(columns, axis=1)


def size_of(values: Array) -> float:
    """The power of two below the root mean square, which rounds nothing; 1 for zeros."""
    finite = values[np.isfinite(values)]
    mean = float(np.sqrt(np.mean(finite.astype(np.float64) ** 2))) if finite.size else 0.0
    return 2.0 ** min(max(math.floor(math.log2(mean)), -12), 12) if mean > 0 else 1.0
