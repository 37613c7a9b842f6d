"""The interface of an engine."""

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
    """A program outside of Python that an engine needs: any of `programs`, found on the PATH.

    `what` is its name in a sentence ("a C++ compiler"), `install` the command that installs it. If
    the environment variable `variable` is set, it gives the command.
    """

    what: str
    programs: tuple[str, ...]
    install: str
    variable: str = ""

    @property
    def description(self) -> str:
        """`what`, and the command if the variable gives it."""
        told = " ".join(self._from_variable())
        return f"{self.what} (${self.variable} is `{told}`)" if told else self.what

    def _from_variable(self) -> list[str]:
        return _words(os.environ.get(self.variable, "")) if self.variable else []

    def command(self) -> list[str] | None:
        """The path of the program, and arguments that the variable may have; None if it is not
        installed."""
        told = self._from_variable()
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
    """The capabilities of an engine, available without importing its framework.

    `remark` describes the numbers of an unusual engine. `distributions` are the names of the
    framework in package indexes (the first installed one counts; an engine that is part of
    gradcheck has none). `modes` are first-order; `orders` says up to which order they nest.
    `install` is the command for the user. An engine that is not `by_default` only runs if it is
    named. `layers`: it takes layers written in its framework. `kernels` is the module that restates
    operations of the framework in rows of the op table (`engines/trace/kernel_rows.py`). `stages`
    are those of its compiler, from nothing compiled to everything.
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
    """Answers one question: the outputs and gradients of this program, at these values, in this
    dtype and mode.

    Importing the module of an engine must be cheap. Its framework is imported in `load`, which is
    called once in the worker process of the engine. `evaluate` and `train` never raise because of
    the problem or the framework; they answer with a `Failure`.
    """

    capabilities: ClassVar[Capabilities]

    def place(self, placement: Placement) -> None:
        """Sets where and how to compute. Called before `load` for devices other than the CPU, and
        only for kinds in `capabilities.devices`."""

    def load(self) -> str:
        """Imports the framework and returns its version. May raise anything."""

    def operations(self) -> frozenset[str]:
        """The rows of the op table that this engine has, by name. May be called before `load`."""

    def remarks(self) -> Mapping[str, str]:
        """Why it lacks a row, or the limitations of one, by name. May be called before `load`."""

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """Why this engine cannot run the program in this mode, or None. May be called before
        `load`."""

    def evaluate(self, problem: Problem) -> Evaluation: ...

    def train(self, problem: TrainingProblem) -> Training: ...

    def subject(self, request: SubjectRequest) -> Subject:
        """A user's layer, bound to its inputs. Raises `Unsupported` if `capabilities.layers` is
        false, `EngineFault` if the layer cannot be bound, and what the user's code raises. May be
        called without `load`, in any process."""

    def plainly(self) -> AbstractContextManager[None]:
        """Inside the block, the modes of the framework are those of a new process, whatever the
        caller has set (`torch.no_grad`). For layers in the caller's own process."""

    def close(self) -> None:
        """Called before the worker ends in good order."""


def make(target: str) -> Engine:
    """An instance of the engine "module:Class". Raises whatever importing and instantiating it
    raises."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)()
