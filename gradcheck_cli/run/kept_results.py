"""The results of a run. Only a limited number stays in memory."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO, overload

from gradcheck_cli.domain.report import SpecResult

IN_MEMORY = 256


class KeptResults(Sequence[SpecResult]):
    """Results in order. All after the first IN_MEMORY are kept in an unnamed file, and each is read
    when it is used."""

    def __init__(self) -> None:
        self._first: list[SpecResult] = []
        self._file: BinaryIO | None = None
        self._places: list[int] = []

    def append(self, result: SpecResult) -> None:
        if len(self._first) < IN_MEMORY:
            self._first.append(result)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the results
        self._places.append(self._file.seek(0, 2))
        pickle.dump(result, self._file, pickle.HIGHEST_PROTOCOL)

    def __len__(self) -> int:
        return len(self._first) + len(self._places)

    @overload
    def __getitem__(self, place: int) -> SpecResult: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[SpecResult]: ...
    def __getitem__(self, place: int | slice) -> SpecResult | Sequence[SpecResult]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        if place < len(self._first):
            return self._first[place]
        return self._load(self._places[place - len(self._first)])

    def __iter__(self) -> Iterator[SpecResult]:
        yield from self._first
        for place in self._places:
            yield self._load(place)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def _load(self, place: int) -> SpecResult:
        assert self._file is not None
        self._file.seek(place)
        return pickle.load(self._file)
