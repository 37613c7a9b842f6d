"""Where to find a user's layer, and what the user declares about its backward."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.records import dataclass

STRAIGHT_THROUGH = "straight_through"
"""The surrogate that passes the cotangent on unchanged."""


@dataclass(frozen=True, slots=True)
class Surrogate:
    """What the user declares the backward to be instead of the derivative of the forward.

    `formula` is "straight_through" (the cotangent unchanged), or a formula of the language whose
    derivative the backward should be. `input` is the input concerned (None: every input).
    """

    formula: str
    reason: str
    span: Span
    input: str | None = None


@dataclass(frozen=True, slots=True)
class ByDesign:
    """An intended deviation inside a layer, and its reason. One of two:

    `function`  the name of a function with a custom gradient, which counts as its derivative; with
                `surrogate`, it must be the derivative of this formula
    `detach`    where numbers leave the graph, "path.py:LINE", "path.py:NAME" or
                "package.module:NAME": they are constants there

    `engine` is the engine concerned (None: every engine). `shared`: a default of the file, which
    need not match anything in each spec.
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
class Setup:
    """What is done before a layer is loaded in Python: variables of the `environment` are set, and
    `imports` are imported in order, each "path.py" or "package.module"; with ":name", this function
    is called once."""

    environment: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Implementation:
    """A layer in one framework.

    `target` is "path.py:name", "package.module:name" or, for a pair of NumPy functions, a file with
    `forward` and `backward`; paths are relative to `folder`. `args` and `kwargs` go to the
    constructor if the target is a class, else to every call, after the inputs. `live` is the object
    itself if a program passed it in; it is not sent to another process. `types` are those of named
    tuples among the inputs, by name.
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
    types: Mapping[str, type] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The file that the target names, unless it names a module."""
        return self._file(self.target)

    @property
    def files(self) -> tuple[str, ...]:
        """The file of the target, and the files of the setup."""
        return (self.file, *map(self._file, self.setup.imports))

    def _file(self, target: str) -> str:
        return os.path.join(self.folder, os.path.expanduser(target.partition(":")[0]))
