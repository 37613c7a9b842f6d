"""What an engine is."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from gradcheck_cli.domain.evaluation import (
    FIRST_ORDER,
    Evaluation,
    Mode,
    Problem,
    Training,
    TrainingProblem,
)
from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest

EVERY_DTYPE = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True, slots=True)
class Tool:
    """A program outside Python that an engine needs: any one of `programs`, found on the PATH.

    `what` names it in a sentence ("a C++ compiler"), `install` is what a user types to get it. A
    `variable` of the environment, where it is set, says which command it is.
    """

    what: str
    programs: tuple[str, ...]
    install: str
    variable: str = ""

    @property
    def wanted(self) -> str:
        """`what`, and which one where the variable says so."""
        told = " ".join(self._told())
        return f"{self.what} (${self.variable} is `{told}`)" if told else self.what

    def _told(self) -> list[str]:
        return _words(os.environ.get(self.variable, "")) if self.variable else []

    def command(self) -> list[str] | None:
        """The program's path, and arguments that the variable may have; None where it is not
        here."""
        told = self._told()
        for name in told[:1] or self.programs:
            if found := shutil.which(name):
                return [found, *told[1:]]
        return None


COMPILER = Tool(
    what="a C++ compiler",
    programs=("c++", "g++", "clang++"),
    install="sudo apt install g++    (macOS: xcode-select --install)",
    variable="CXX",
)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation mark without another
        return [command]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do, stated without importing its framework.

    `remark` says of an engine that is unlike the others what its numbers are.
    `distributions` are the names under which package indexes know the framework (the first that is
    installed counts; an engine that is part of gradcheck itself has none). `modes` are first-order;
    `orders` says up to which order they nest. `install` is the line that a user types. An engine
    that is not `by_default` runs only where it is named. `layers`: it takes layers that users wrote
    in its framework. `kernels` is the module that states operations of the framework in rows of the
    op table (`engines/trace/kernel_rows.py`). `stages` are those of its compiler, from nothing
    compiled to everything.
    """

    name: str
    distributions: tuple[str, ...]
    install: str
    modes: tuple[Mode, ...] = FIRST_ORDER
    dtypes: tuple[str, ...] = EVERY_DTYPE
    orders: tuple[int, ...] = (1, 2)
    devices: tuple[str, ...] = ("cpu",)
    tools: tuple[Tool, ...] = ()
    by_default: bool = True
    remark: str = ""
    layers: bool = False
    kernels: str = ""
    stages: tuple[str, ...] = ()


@runtime_checkable
class Engine(Protocol):
    """Answers one question: this program, these values, this dtype and mode: outputs and gradients.

    The module of an engine must import cheaply: its framework is imported in `load`, which is
    called once, in the engine's worker process. `evaluate` and `train` never raise for a fault of
    the problem or of the framework; they answer with a `Failure`.
    """

    capabilities: ClassVar[Capabilities]

    def place(self, placement: Placement) -> None:
        """Where it is to compute, and how; called before `load` where that is not the CPU, and only
        with a device whose kind is among `capabilities.devices`."""
        ...

    def load(self) -> str:
        """Imports the framework and returns its version. May raise anything."""
        ...

    def operations(self) -> frozenset[str]:
        """The rows of the op table that this engine has, by name. Callable before `load`."""
        ...

    def remarks(self) -> Mapping[str, str]:
        """Why it lacks a row, or in what it falls short of one, by name. Callable before `load`."""
        ...

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """Why this engine cannot run the program in this mode, or None. Callable before `load`."""
        ...

    def evaluate(self, problem: Problem) -> Evaluation: ...

    def train(self, problem: TrainingProblem) -> Training: ...

    def subject(self, request: SubjectRequest) -> Subject:
        """A user's layer, bound to its inputs. Raises `Unsupported` where `capabilities.layers` is
        false, `EngineFault` where the layer cannot be bound, and what the user's code raises.
        Callable without `load`, in whatever process."""
        ...

    def plainly(self) -> AbstractContextManager[None]:
        """The framework's modes as they are when a process starts, whatever the caller is in the
        midst of (`torch.no_grad`). For layers in the caller's own process."""
        ...

    def close(self) -> None:
        """Called before the worker ends in good order."""
        ...


def make(target: str) -> Engine:
    """An instance of the engine "module:Class". Raises whatever importing and making it raises."""
    module, _, attribute = target.partition(":")
    engine: Engine = getattr(importlib.import_module(module), attribute)()
    return engine
