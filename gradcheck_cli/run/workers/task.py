"""Tasks for workers, and their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from gradcheck_cli.domain.evaluation import Failure
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """Questions for one engine, to be answered in order. Tasks with a lower `priority` go first.

    `timeout` is in seconds, `memory` in gigabytes. What hangs once usually hangs again: after a
    task that timed out, other tasks of its `group` get less time (keeper.SECOND_CHANCE), and after
    two such tasks the rest is not asked. `expected` is how many seconds a long task may take.
    """

    key: Any
    engine: str
    questions: Sequence[Any]
    timeout: float
    priority: int = 0
    memory: float = math.inf
    group: Any = None
    placement: Placement = HOST
    expected: float = 0.0


@dataclass(frozen=True, slots=True)
class SoFar:
    """The known part of the answer to a question of a task."""

    task: Task
    answer: Any


@dataclass(frozen=True, slots=True)
class Done:
    """The answers to a task. If there are fewer answers than questions, `failure` says why; the
    worker was working on the first question without an answer."""

    task: Task
    answers: list[Any] = field(default_factory=list)
    failure: Failure | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Imported:
    """The first worker of an engine is ready."""

    engine: str
    version: str
    seconds: float
