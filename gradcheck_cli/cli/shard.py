"""`--shard K/N`: one part of the specs, the same on every machine."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import click

if TYPE_CHECKING:
    from gradcheck_cli.domain.spec import Spec


class ShardType(click.ParamType[str]):
    """The type of K/N, with K from 1 to N."""

    name = "K/N"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        match = re.fullmatch(r"([0-9]+)/([0-9]+)", str(value))
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            self.fail(f"{value!r} is not K/N, such as 2/5", param, ctx)
        return f"{int(match[1])}/{int(match[2])}"


class Shard:
    """One part of the specs of a run; all specs if `name` is empty. The part of a spec depends only
    on its name and on the path of its file from the working folder, so adding or removing specs
    moves no others. `left_out` counts the specs of other parts by file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._number, self._count = map(int, (name or "1/1").split("/"))
        self.left_out: Counter[str] = Counter()

    def part_of(self, specs: Iterable[Spec]) -> Iterator[Spec]:
        alike: Counter[str] = Counter()  # specs of one file and name
        for spec in specs:
            path = spec.source.path
            key = f"{os.path.relpath(path).replace(os.sep, '/')} {spec.name}"
            alike[key] += 1
            if self._has(f"{key} {alike[key]}"):
                yield spec
            else:
                self.left_out[path] += 1

    def names(self, names: Sequence[str]) -> list[str]:
        """The names in this part. The others are counted as left out."""
        mine = list(filter(self._has, names))
        self.left_out[""] += len(names) - len(mine)
        return mine

    def _has(self, key: str) -> bool:
        return crc32(os.fsencode(key)) % self._count == self._number - 1
