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
    """Questions for one engine, to be answered in order. Tasks of a lower `priority` go first.

    `timeout` is in seconds, `memory` in gigabytes. What hangs once hangs again as a rule: where a
    task was not done in time, others of its `group` have less (keeper.SECOND_CHANCE), and after two
    such tasks no more are asked. `expected` is how many seconds it may take, where it is not as
    short as others.
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
    """What is known already of the answer to a question of a task."""

    task: Task
    answer: Any


@dataclass(frozen=True, slots=True)
class Done:
    """The answers to a task. There are fewer than questions only where `failure` says why; the
    first question without an answer is the one that was being worked on."""

    task: Task
    answers: list[Any] = field(default_factory=list)
    failure: Failure | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Imported:
    """An engine's worker is ready for the first time."""

    engine: str
    version: str
    seconds: float
