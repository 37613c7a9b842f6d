"""Finds where a layer continues in a narrower floating dtype than the one it runs in."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class Cast:
    """The first conversion to a narrower `dtype` of numbers that depend on the leaves: by the
    operation `name`, in the user's expression at `place`, in the forward pass or, with `backward`,
    in the backward pass."""

    dtype: str
    name: str
    place: Place | None
    backward: bool = False


History = frozenset["Narrowing"]
"""What numbers were cast to on their way."""

Narrowing = tuple[str, str, "Place | None"]
"""A cast: to which dtype, by which operation, and in which of the user's expressions."""


class Watch:
    """Collects the casts of a layer in `dtype`: the first one of each dtype and pass. A cast that
    no output depends on, as in `save_for_backward(x.half())`, belongs to the backward pass."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        self.backward = False
        self._found: dict[tuple[str, bool], Cast] = {}
        self._open: dict[Narrowing, None] = {}

    def narrowed(self, dtype: str, name: str, place: Place | None) -> History:
        """Notes a cast, and returns what it adds to the history of its result."""
        if not is_narrower(dtype, self._dtype):
            return frozenset()
        if self.backward:
            self._add(dtype, name, place)
        else:
            self._open[dtype, name, place] = None
        return frozenset([(dtype, name, place)])

    def leaves(self, history: Iterable[Narrowing]) -> None:
        """Notes that numbers with this history go to a place that is not followed, so that an
        output may depend on them."""
        for narrowing in history:
            if self._open.pop(narrowing, narrowing) is None:
                self._add(*narrowing)

    def end_forward(self, outputs: Iterable[History | None]) -> None:
        """Begins the backward pass. The outputs have these histories; None means unknown, and such
        an output may depend on all casts."""
        known = [history for history in outputs if history is not None]
        self.leaves([one for history in known for one in history] if known else list(self._open))
        self.backward = True
        for narrowing in self._open:
            self._add(*narrowing)

    def _add(self, dtype: str, name: str, place: Place | None) -> None:
        key = dtype, self.backward
        if key not in self._found or self._found[key].place is None:
            self._found[key] = Cast(dtype, name, place, self.backward)

    def found(self) -> tuple[Cast, ...]:
        return tuple(self._found.values())


def is_narrower(dtype: str, other: str) -> bool:
    """Whether a floating dtype has fewer digits than another. Integer dtypes do not count."""
    known = dtype in FORMATS and other in FORMATS
    return known and FORMATS[dtype].bits < FORMATS[other].bits


def narrowest(dtypes: Iterable[str]) -> str:
    """The dtype with the fewest digits."""
    return min(dtypes, key=lambda dtype: FORMATS[dtype].bits)
