"""An engine that runs programs through a framework: problems in, answers or failures out."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

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
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Capabilities, EngineFault, NodeFault, Unsupported
from gradcheck_cli.engines.framework import Framework
from gradcheck_cli.engines.lowerings import Table, had, reasons
from gradcheck_cli.engines.modes import MODES, Answer, descend
from gradcheck_cli.engines.walker import OPERATORS, Prepared, prepare

_OURS = str(Path(__file__).parent)
_REMEMBERED = 64  # prepared programs: a task has one program in at most a few dtypes


class ProgramEngine(ABC):
    """An engine that runs programs through a `Framework`. Subclasses import theirs in `load`."""

    capabilities: ClassVar[Capabilities]

    def __init__(self) -> None:
        self._prepared: dict[tuple[int, str, str], tuple[Program, Framework, Prepared]] = {}

    @abstractmethod
    def load(self) -> str: ...

    @abstractmethod
    def framework(self, dtype: str) -> Framework: ...

    @abstractmethod
    def operations(self) -> frozenset[str]: ...

    def remarks(self) -> Mapping[str, str]:
        return {}

    @abstractmethod
    def lacks(self, error: BaseException) -> bool:
        """Whether the framework says with this exception that it has no such op or dtype."""

    def refuses(self, program: Program, mode: Mode) -> str | None:
        return None

    def close(self) -> None:
        self._prepared.clear()

    def evaluate(self, problem: Problem) -> Evaluation:
        start = time.perf_counter()
        answer = Answer()
        failure = None
        try:
            reason = self.refuses(problem.program, problem.mode)
            if reason is not None:
                raise Unsupported(reason)
            framework, prepared = self._prepare(problem.program, problem.dtype, problem.rounding)
            with np.errstate(all="ignore"):
                MODES[problem.mode](framework, prepared, problem, answer)
        except Exception as error:
            failure = self._failure(error, problem.program, problem.dtype)
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
            duration_s=time.perf_counter() - start,
        )

    def train(self, problem: TrainingProblem) -> Training:
        start = time.perf_counter()
        losses: list[Array] = []
        path: dict[str, list[Array]] = {name: [] for name in problem.parameters}
        failure = None
        try:
            framework, prepared = self._prepare(problem.program, problem.dtype, problem.rounding)
            with np.errstate(all="ignore"):
                descend(framework, prepared, problem, losses, path)
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

    def _prepare(self, program: Program, dtype: str, rounding: str) -> tuple[Framework, Prepared]:
        # By identity: the problems of a task share one program, and many nodes are slow to hash.
        # The program is kept too, or another could take its identity.
        key = (id(program), dtype, rounding)
        kept = self._prepared.get(key)
        if kept is None:
            if len(self._prepared) >= _REMEMBERED:
                self._prepared.clear()
            framework = self.framework(dtype)
            kept = program, framework, prepare(program, framework, rounding)
            self._prepared[key] = kept
        return kept[1:]

    def _failure(self, error: Exception, program: Program, dtype: str) -> Failure:
        node = None
        cause: BaseException = error
        if isinstance(error, NodeFault):
            node = error.index
            cause = error.__cause__ or error
        words = str(cause).strip().splitlines()
        message = words[0].strip() if words else type(cause).__name__
        if isinstance(cause, EngineFault):
            return Failure(cause.kind, message, node=node)
        message = f"{type(cause).__name__}: {message}" if words else message
        if self.lacks(cause):
            what = "this" if node is None else f"`{program.nodes[node].op}`"
            return Failure("unsupported", f"it has no {what} in {dtype}: {message}", node=node)
        return Failure("raised", message, _short_traceback(cause), node)


class LoweredEngine(ProgramEngine):
    """An engine that has its operations in a table, in its framework's words."""

    table: ClassVar[Table]

    def operations(self) -> frozenset[str]:
        return had(self.table) | OPERATORS.keys()

    def remarks(self) -> Mapping[str, str]:
        return reasons(self.table)


def _short_traceback(error: BaseException) -> str:
    """The last frames that are not ours, and the exception."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_OURS)
    ]
    lines = traceback.format_list(frames[-4:])
    lines += traceback.format_exception_only(error)
    return "".join(lines).rstrip()
