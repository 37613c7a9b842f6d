"""A layer that a user wrote in a framework: where it is, what is asked about it, and answered."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import Node, Program

if TYPE_CHECKING:
    from gradcheck_cli.domain.dtypes import Array
    from gradcheck_cli.domain.evaluation import Failure, Mode
    from gradcheck_cli.domain.report import Check, Finding, Reading
    from gradcheck_cli.domain.spec import Spec

LAYER = "layer"
"""The `op` of the one node that stands for a whole layer (`as_program`)."""

POWER = 0.999
"""The probability with which an error is to be found, unless another is asked for."""

STRAIGHT_THROUGH = "straight_through"
"""The surrogate that hands the cotangent on as it comes."""

Role = Literal["input", "parameter", "buffer", "captured"]


@dataclass(frozen=True, slots=True)
class Surrogate:
    """What the backward is declared to be instead of the derivative of the forward.

    `formula` is "straight_through" (the cotangent as it comes), or a formula of the language whose
    derivative the backward is to be. `input` is the one that it is about (None: every input).
    """

    formula: str
    reason: str
    span: Span
    input: str | None = None


@dataclass(frozen=True, slots=True)
class ByDesign:
    """Something inside a layer that is meant, and why. One of two:

    `function`  the name of a function with a custom gradient, which is taken for its derivative;
                with `surrogate`, it has to be the derivative of this formula
    `detach`    where numbers leave the graph, "path.py:LINE", "path.py:NAME" or
                "package.module:NAME": they are constants there

    `engine` is the one that it is about (None: every engine). `shared`: a default of the file,
    which need not match anything in each spec.
    """

    reason: str
    span: Span
    function: str = ""
    detach: str = ""
    surrogate: str | None = None
    engine: str | None = None
    shared: bool = False

    @property
    def name(self) -> str:
        return self.function or self.detach

    def concerns(self, engine: str) -> bool:
        return self.engine in (None, engine)


@dataclass(frozen=True, slots=True)
class Meant:
    """What one `ByDesign` matched in one run of a layer: the `places` of its `calls`. `index` is
    its place in the spec. `stops_tangents`: forward mode, too, is stopped there. `similar` is the
    name of a function of the layer that may have been meant where nothing matched."""

    index: int
    calls: int
    places: tuple[str, ...] = ()
    similar: str = ""
    stops_tangents: bool = True


@dataclass(frozen=True, slots=True)
class Setup:
    """What stands before a layer in Python: variables of the `environment`, and `imports` in their
    order, each "path.py" or "package.module", with ":name" a function that is called once."""

    environment: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Implementation:
    """A layer in one framework.

    `target` is "path.py:name", "package.module:name" or, for a pair of NumPy functions, a file that
    has `forward` and `backward`; paths are relative to `folder`. `args` and `kwargs` are for the
    constructor where the target is a class, else for every call, after the inputs. `live` is the
    object itself where a program hands it over; it does not travel to another process.
    """

    engine: str
    target: str
    folder: str
    span: Span
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    surrogates: tuple[Surrogate, ...] = ()
    setup: Setup = Setup()
    live: Any = None

    @property
    def file(self) -> str:
        """The file that the target names, if it names one and no module."""
        return self._file(self.target)

    @property
    def files(self) -> tuple[str, ...]:
        """That file, and those of the setup."""
        return (self.file, *map(self._file, self.setup.imports))

    def _file(self, target: str) -> str:
        return os.path.join(self.folder, os.path.expanduser(target.partition(":")[0]))


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array that a layer's output depends on: a given input, a parameter or buffer, or what a
    closure captured. `value` is in float64 (or int64, bool); `moves` where its derivative is
    checked."""

    name: str
    role: Role
    value: Array
    moves: bool

    @property
    def size(self) -> int:
        return int(self.value.size)


@dataclass(frozen=True, slots=True)
class LayerProblem:
    """Check the gradients of one layer at one point in one dtype.

    `behaviour` asks for the checks of behaviour in place of the gradients' entries. `power` is the
    probability with which an error of any single entry is to be found where not all are taken.
    `named`, `named_modes` and `named_dtype` say what was asked for by name.
    """

    spec: Spec
    implementation: Implementation
    point: int
    dtype: str
    modes: tuple[Mode, ...]
    named: bool = False
    named_modes: bool = False
    named_dtype: bool = False
    behaviour: bool = False
    power: float = POWER
    seed: int = 0
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class LayerAnswer:
    """What was found. Small, however large the layer: entries that are right stay in the worker.

    `fickle`: the layer gives another result at every call, so that no judgement of its numbers
    means anything.
    """

    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    readings: tuple[Reading, ...] = ()
    notes: tuple[str, ...] = ()
    failure: Failure | None = None
    fickle: bool = False
    duration_s: float = 0.0
    by_design: tuple[Meant, ...] = ()


def word_of(name: str) -> str:
    """What a formula calls a leaf: dots, and whatever else is in no name, become underscores."""
    word = re.sub(r"\W", "_", name)
    return f"_{word}" if word[:1].isdigit() else word


def as_program(
    implementation: Implementation, leaves: Mapping[str, tuple[int, ...]], shape: tuple[int, ...]
) -> Program:
    """The layer as a program of one opaque operation: what judges and reports need of it.

    `leaves` has the shape of every array that it depends on, `shape` is that of its output.
    """
    span, target = implementation.span, implementation.target
    nodes = [Node("input", (), {}, span, name, name=name, shape=s) for name, s in leaves.items()]
    count = len(nodes)
    nodes.append(Node(LAYER, tuple(range(count)), {}, span, target, shape=shape))
    inputs = {name: i for i, name in enumerate(leaves)}
    return Program(tuple(nodes), inputs, (count,), target)
