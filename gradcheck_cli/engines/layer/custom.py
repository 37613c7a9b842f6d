"""What a layer calls that is not differentiated as it stands: functions with a custom derivative,
and calls that cut a value off from its derivative; and how it is looked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from gradcheck_cli.domain.dtypes import Values, ValuesOrNone
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass

MOST_CALLS = 256  # that are kept; a layer that calls one function in a long loop has more


class IsolatedCall:
    """`call(*args)`, as it was in the run but for the arguments at these `places`.

    It has no attributes by which its arguments could be taken for what it captured.
    """

    __slots__ = ("__name__", "_call")

    def __init__(
        self, name: str, call: Callable[..., Any], args: Sequence[Any], places: Sequence[int]
    ) -> None:
        def isolated(arrays: Sequence[Any]) -> Any:
            filled = list(args)
            for place, array in zip(places, arrays, strict=True):
                filled[place] = array
            return call(*filled)

        self._call = isolated
        self.__name__ = name

    def __call__(self, *arrays: Any) -> Any:
        return self._call(arrays)


@dataclass(frozen=True, slots=True)
class CustomCall:
    """One call. `live` can be called with arrays of the framework in the place of `values`, and is
    differentiated as the user stated; what else the call was given is in it. None: the layer itself
    is this function, and nothing else.

    values     its floating arguments as they were in the run, by the names of the forward
    complex_values   those of them that are complex: their parts are along the last axis
    moving     those of them that are differentiated
    reaches    the layer's leaves whose gradients pass through it
    positions  which of all arguments each of `values` was
    backward   the user's function that states the derivative, where it is known
    jvp        the same for forward mode
    tangent    which part of what that returns is the tangent (None: all of it)
    place      the line of the call
    once       the framework was asked to refuse derivatives of the backward
    lone_jvp   the framework runs its jvp without an outer forward mode
    saves      where it keeps a value of its forward that is neither an input nor an output, and so
               has no derivative
    stops      where it takes a value out of the graph, in its forward or in its rule, by the mode
               of that rule
    """

    name: str
    live: Any
    values: Values
    moving: tuple[str, ...]
    reaches: frozenset[str]
    positions: Mapping[str, int]
    backward: Any = None
    jvp: Any = None
    tangent: int | None = None
    place: Place | None = None
    once: bool = False
    lone_jvp: bool = False
    saves: Place | None = None
    stops: Mapping[Mode, Place | None] = field(default_factory=dict)
    complex_values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """What a user wrote as the derivative of a function: what `function` returns, or the part
    `index` of that (None: all of it). `moving` are the arguments that are differentiated; a vjp is
    about the one that is called `name`."""

    function: Any
    index: int | None
    is_jvp: bool
    name: str
    moving: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GradientBarrier:
    """A call that takes a value out of the graph: what a user wrote ("detach()"), and where.

    `gradients` are those of the layer with this call let through, (n,) by leaf (None: none at all);
    None where it cannot be. `overwrites`: because a number that the derivative needs is written to
    through it, which the framework notices then.
    """

    name: str
    place: Place
    gradients: ValuesOrNone | None
    overwrites: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Where a forward and a backward pass do what leaves no trace in their numbers.

    writes    the first write to a leaf, by its name
    upstream  the first write to a cotangent
    draws     the first random number
    """

    writes: Mapping[str, Place] = field(default_factory=dict)
    upstream: Place | None = None
    draws: Place | None = None


MOST_CUTS = 16  # that are let through, each in a run of its own


@dataclass(frozen=True, slots=True)
class UnclippedGradients:
    """A bound that keeps a number away from the `pole` of an operation, and the layer's `gradients`
    (k, n) by leaf (None: none at all) where the number goes on as it was."""

    pole: str
    place: Place
    gradients: ValuesOrNone


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """A layer, made ready to be run without a graph: `call` makes the forward pass and gives its
    floating outputs. `leaves` are the framework's arrays that it is handed."""

    leaves: Mapping[str, Any]
    call: Callable[[], list[Any]]


@dataclass(frozen=True, slots=True)
class Passes:
    """A layer, made ready: `call` makes the forward pass and gives its floating outputs, `pull` the
    backward pass of the last call and gives a gradient (or None) for each of `wrt`. `leaves` are
    the framework's arrays that it starts from; `reached` names those of `wrt` on which some of the
    arrays depend, where the framework's own graph does not tell."""

    leaves: Mapping[str, Any]
    wrt: Sequence[str]
    call: Callable[[], list[Any]]
    pull: Callable[[], list[Any]]
    reached: Callable[[Sequence[Any]], frozenset[str]] | None = None
