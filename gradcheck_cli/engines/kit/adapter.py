"""An engine that runs programs through a framework: problems in, answers or failures out."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import (
    Evaluation,
    Failure,
    Mode,
    Problem,
    Training,
    TrainingProblem,
)
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.errors import NodeFault, Unsupported
from gradcheck_cli.engines.kit import patience
from gradcheck_cli.engines.kit.framework import Framework
from gradcheck_cli.engines.kit.lowerings import Table, bound, had, reasons
from gradcheck_cli.engines.kit.lru import Recent
from gradcheck_cli.engines.kit.modes import MODES, Answer, Passes, descend
from gradcheck_cli.engines.kit.second_order import COMPOSITIONS
from gradcheck_cli.engines.kit.walker import OPERATORS, Prepared, prepare, rounded
from gradcheck_cli.engines.tracebacks import as_failure, internal_failure, is_of_our_line

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest

_REMEMBERED = 64  # prepared programs: a task has one program in at most a few dtypes

_Kept = tuple[Program, Framework, Prepared]
_Key = tuple[int, str, str | None, str]


class AnsweringEngine(ABC):
    """An engine that never raises: an exception in `differentiate` or `descend` becomes the failure
    of the answer."""

    capabilities: ClassVar[Capabilities]
    placement: Placement = HOST

    def place(self, placement: Placement) -> None:
        self.placement = placement

    @abstractmethod
    def load(self) -> str: ...

    @abstractmethod
    def differentiate(self, problem: Problem, answer: Answer) -> None:
        """Puts output and gradients into `answer`. May raise anything."""

    @abstractmethod
    def descend(
        self, problem: TrainingProblem, losses: list[Array], path: dict[str, list[Array]]
    ) -> None:
        """Appends the loss and the parameters before each step, and after the last. May raise
        anything."""

    @abstractmethod
    def operations(self) -> frozenset[str]: ...

    def remarks(self) -> Mapping[str, str]:
        return {}

    def lacks(self, error: BaseException) -> bool:
        """Whether this exception of the framework means that it lacks an operation or a dtype."""
        return False

    def refuses(self, program: Program, mode: Mode) -> str | None:
        return None

    def subject(self, request: SubjectRequest) -> Subject:
        raise Unsupported(f"{self.capabilities.name} runs formulas, not layers")

    def plainly(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:  # noqa: B027 - one that keeps nothing has nothing to do
        pass

    def evaluate(self, problem: Problem) -> Evaluation:
        start, compiled = time.perf_counter(), patience.spent_s
        answer = Answer()
        failure = None
        try:
            reason = self.refuses(problem.program, problem.mode)
            if reason is not None:
                raise Unsupported(reason)
            with np.errstate(all="ignore"):
                self.differentiate(problem, answer)
        except Exception as error:
            failure = self._failure(error, problem.program, problem.dtype)
        compile_s = patience.spent_s - compiled
        return Evaluation(
            engine=self.capabilities.name,
            dtype=problem.dtype,
            rounding=problem.rounding,
            mode=problem.mode,
            output=None if failure else answer.output,
            gradients={} if failure else answer.gradients,
            failure=failure,
            trace=None if failure else answer.trace,
            forward=answer.forward,
            backward=answer.backward,
            duration_s=time.perf_counter() - start - compile_s,
            approximation=answer.approximation,
            compile_s=compile_s,
        )

    def train(self, problem: TrainingProblem) -> Training:
        start = time.perf_counter()
        losses: list[Array] = []
        path: dict[str, list[Array]] = {name: [] for name in problem.parameters}
        failure = None
        try:
            with np.errstate(all="ignore"):
                self.descend(problem, losses, path)
        except Exception as error:
            failure = self._failure(error, problem.program, problem.dtype)
        return Training(
            engine=self.capabilities.name,
            dtype=problem.dtype,
            losses=None if failure else np.asarray(losses, dtype=np.float64),
            parameters={} if failure else {name: np.stack(steps) for name, steps in path.items()},
            failure=failure,
            duration_s=time.perf_counter() - start,
        )

    def _failure(self, error: Exception, program: Program, dtype: str) -> Failure:
        node = None
        cause: BaseException = error
        if isinstance(error, NodeFault):
            node = error.index
            # TensorFlow drops the cause of what is raised while it traces, and not the context
            cause = error.__cause__ or error.__context__ or error
        if is_of_our_line(cause):
            what = "the formula could not be run"
            return replace(internal_failure(cause, what), node=node)
        failure = replace(as_failure(cause), node=node)
        if failure.kind == "raised" and self.lacks(cause):
            lacking = "cannot differentiate this"
            if node is not None:
                lacking = f"has no `{program.nodes[node].op}`"
            words = f"it {lacking} in {dtype}: {failure.message}"
            return Failure("unsupported", words, node=node)
        return failure


class ProgramEngine(AnsweringEngine):
    """An engine that runs programs through a `Framework`. Subclasses import theirs in `load`."""

    def __init__(self) -> None:
        self._prepared = Recent[_Key, _Kept](_REMEMBERED)
        self.stage = ""  # of its compiler, up to which what is asked for is compiled

    @abstractmethod
    def framework(self, dtype: str) -> Framework: ...

    def close(self) -> None:
        self._prepared.clear()

    def differentiate(self, problem: Problem, answer: Answer) -> None:
        (MODES | COMPOSITIONS)[problem.mode](Passes(*self.prepared(problem), problem, answer))

    def descend(
        self, problem: TrainingProblem, losses: list[Array], path: dict[str, list[Array]]
    ) -> None:
        self.stage = ""
        prepared = self._prepare(problem.program, problem.dtype, problem.rounding)
        descend(*prepared, problem, losses, path)

    def prepared(self, problem: Problem) -> tuple[Framework, Prepared]:
        """The framework in the dtype of the problem, and the program ready to run."""
        self.stage = problem.stage
        return self._prepare(problem.program, problem.dtype, problem.rounding)

    def _prepare(self, program: Program, dtype: str, rounding: str) -> tuple[Framework, Prepared]:
        # By identity: the problems of a task share one program, and many nodes are slow to hash.
        # The programs are kept too, or others could take their identities.
        def once() -> _Kept:
            exact = rounded(program, rounding)

            def made() -> _Kept:
                framework = self.framework(dtype)
                return exact, framework, prepare(exact, framework, rounding)

            # What constants of one format make is the same for another that has them all.
            return program, *self._prepared.get((id(exact), dtype, None, self.stage), made)[1:]

        return self._prepared.get((id(program), dtype, rounding, self.stage), once)[1:]


class LoweredEngine(ProgramEngine):
    """An engine with a table of its operations, written in the framework's functions."""

    table: ClassVar[Table]
    placed: ClassVar[staticmethod[[Placement], AbstractContextManager[None]]]
    """The framework computes on another device meanwhile."""
    lacking: ClassVar[tuple[str, ...]] = ()
    """How the framework says that an op has no kernel for a dtype, a shape or a range."""

    def __init__(self) -> None:
        super().__init__()
        self._settings = ExitStack()  # of the framework, until the engine is closed

    def _loaded(self, framework: Any) -> str:
        """The framework has its device and its operations; its version."""
        if self.placement != HOST:
            self._settings.enter_context(self.placed(self.placement))
        self._calls = {**OPERATORS, **bound(self.table, framework)}
        return str(framework.__version__)

    def plainly(self) -> AbstractContextManager[None]:
        if self.placement == HOST:
            return nullcontext()
        return self.placed(self.placement)

    def close(self) -> None:
        self._settings.close()
        super().close()

    def operations(self) -> frozenset[str]:
        return had(self.table) | OPERATORS.keys()

    def remarks(self) -> Mapping[str, str]:
        return reasons(self.table)

    def lacks(self, error: BaseException) -> bool:
        words = str(error)
        return isinstance(error, NotImplementedError) or any(one in words for one in self.lacking)
