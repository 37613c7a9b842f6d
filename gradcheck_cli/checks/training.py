"""Examine training paths of a formula in one dtype on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gradcheck_cli.checks.protocol import Ask, Examination, Steps
from gradcheck_cli.domain.case import Case, TrainingCase
from gradcheck_cli.domain.evaluation import Training, TrainingProblem
from gradcheck_cli.judge import judge_training


class TrainingPaths(Examination):
    """The examination of training paths. `case` has no evaluations: the paths start at its values.
    `paths` maps each engine, in order, to None, or to the path of an engine that is not asked."""

    def __init__(
        self, case: Case, problem: TrainingProblem, paths: Mapping[str, Training | None]
    ) -> None:
        super().__init__()
        self.case = case
        self._problem = problem
        self._paths = dict(paths)

    def steps(self) -> Steps[None]:
        problem = self._problem
        requested = [engine for engine, path in self._paths.items() if path is None]
        exact = Ask(None, replace(problem, dtype="float64"))
        asks = [*(Ask(engine, problem) for engine in requested), exact, Ask(None, problem)]
        *found, exact_path, near = yield asks
        self._paths |= zip(requested, found, strict=True)
        with self.ours("the training could not be judged"):
            self.checks, self.findings = judge_training(
                TrainingCase(
                    spec=self.case.spec,
                    problem=problem,
                    dtype=problem.dtype,
                    paths=self.paths,
                    exact=exact_path,
                    calibration=near,
                )
            )

    @property
    def paths(self) -> tuple[Training, ...]:
        """The training paths that are known, in the order of the engines."""
        return tuple(path for path in self._paths.values() if path is not None)
