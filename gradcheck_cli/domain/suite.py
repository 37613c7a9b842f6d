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
"""By name: the engines that run a suite. The package of the first engine has the suite as its
module `suite`, with `names()`, `samples(op, most, is_complex)` and the class `Operation`."""


@dataclass(frozen=True, slots=True)
class SuiteRequest:
    """Requests samples of `ops` from the suite in `module`, at most `most` for each, with complex
    inputs if `is_complex`; without `ops`, the names of all operations."""

    module: str
    ops: tuple[str, ...] = ()
    most: int = 0
    is_complex: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of an operation: its differentiated inputs. `Operation(op, number)` calls the
    operation with these and with everything else in the sample. `complex_inputs` have pairs along
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
    """The answer to a SuiteRequest. `refused` has the reason for each operation without a
    sample."""

    names: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
