"""Where to find a user's layer, and what the user declares about its backward."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.records import dataclass

STRAIGHT_THROUGH = "straight_through"
"""The surrogate that hands the cotangent on as it comes."""


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
