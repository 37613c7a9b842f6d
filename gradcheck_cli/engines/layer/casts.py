"""Where a layer goes on in a narrower floating dtype than the one it is run in."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class Cast:
    """Numbers that depend on the leaves become numbers of a narrower `dtype`, for the first time in
    this dtype: by the operation `name`, in the user's expression at `place`, in the forward pass
    or, with `backward`, in the backward pass."""

    dtype: str
    name: str
    place: Place | None
    backward: bool = False


class Watch:
    """Collects those of a layer in `dtype`: the first of each dtype and pass. Where each array has
    a key, `gives` and `takes` tell what the forward pass casts for the backward pass alone, as by
    `save_for_backward(x.half())`: no operation takes it, and it belongs to that."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        self.backward = False
        self._found: dict[tuple[str, bool], Cast] = {}
        self._unused: dict[int, tuple[str, str, Place | None]] = {}

    def gives(self, key: int, dtype: str, name: str, place: Place | None) -> None:
        """A cast whose result has this key."""
        self._unused[key] = dtype, name, place
        if self.backward:
            self.takes([key])

    def takes(self, keys: Iterable[int]) -> None:
        """Something is computed of the arrays with these keys."""
        for key in keys:
            if key in self._unused:
                self.add(*self._unused.pop(key))

    def end_forward(self, outputs: Iterable[int]) -> None:
        """From here on it is the backward pass; the outputs have these keys."""
        self.takes(outputs)
        self.backward = True
        self.takes(list(self._unused))

    def add(self, dtype: str, name: str, place: Place | None) -> None:
        """What has become of a number, and where."""
        key = dtype, self.backward
        if not is_narrower(dtype, self._dtype):
            return
        if key not in self._found or self._found[key].place is None:
            self._found[key] = Cast(dtype, name, place, self.backward)

    def found(self) -> tuple[Cast, ...]:
        return tuple(self._found.values())


def is_narrower(dtype: str, other: str) -> bool:
    """Whether a floating dtype has fewer digits than another; no dtype of integers has."""
    known = dtype in FORMATS and other in FORMATS
    return known and FORMATS[dtype].bits < FORMATS[other].bits


def narrowest(dtypes: Iterable[str]) -> str:
    """The one with the fewest digits."""
    return min(dtypes, key=lambda dtype: FORMATS[dtype].bits)
