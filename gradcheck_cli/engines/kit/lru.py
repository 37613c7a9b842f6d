"""A cache that forgets the least recently used object first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class Recent(Generic[Key, Made]):
    """At most `most` objects, each found by its key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: OrderedDict[Key, Made] = OrderedDict()

    def get(self, key: Key, make: Callable[[], Made]) -> Made:
        if key not in self._made:
            self._made[key] = make()
        self._made.move_to_end(key)
        while len(self._made) > self._most:
            self._made.popitem(last=False)
        return self._made[key]

    def __len__(self) -> int:
        return len(self._made)

    def clear(self) -> None:
        self._made.clear()
