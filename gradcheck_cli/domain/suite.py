"""A suite: the operations of a framework, each with sample inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from gradcheck_cli.domain.records import dataclass

if TYPE_CHECKING:
    from gradcheck_cli.domain.dtypes import Array

SUITES: Mapping[str, tuple[str, ...]] = {
    "torch-ops": ("torch", "torch-compile", "torch-compiled-autograd"),
    "jax-ops": ("jax", "jax-jit"),
    "tensorflow-ops": ("tensorflow", "tensorflow-xla"),
}
"""By name: the engines that run a suite, first the one whose package has it, as a module `suite`.
That module has `names()`, `samples(op, most, is_complex)` and the class `Operation`."""


@dataclass(frozen=True, slots=True)
class SuiteRequest:
    """Asks the suite in `module` for samples of `ops`, at most so many of each, with complex inputs
    where `is_complex`; without `ops` for the names of all."""

    module: str
    ops: tuple[str, ...] = ()
    most: int = 0
    is_complex: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of an operation: the inputs that are differentiated. `Operation(op, number)` calls
    the operation with them and all else that the sample has. `complex_inputs` have pairs along
    their last axis."""

    op: str
    number: int
    inputs: Mapping[str, Array]
    complex_inputs: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.op}[{self.number}]"


@dataclass(frozen=True, slots=True)
class SuiteListing:
    """The answer to a SuiteRequest. `refused` says of operations without a sample why."""

    names: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
