"""`--shard K/N`: one part of the files, the same part on every machine."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import click


class ShardType(click.ParamType[str]):
    """K/N, with K from 1 to N."""

    name = "K/N"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = re.fullmatch(r"([0-9]+)/([0-9]+)", str(value))
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            self.fail(f"{value!r} is not K/N, such as 2/5", param, ctx)
        return f"{int(found[1])}/{int(found[2])}"


class Shard:
    """The files of one part of a run: all of them, where `name` is empty. Which part a file is in
    depends on its path from the working folder, so files that come or go move no other."""

    def __init__(self, name: str, files: Sequence[str]) -> None:
        self.name = name
        self.files = list(files)
        if name:
            number, count = map(int, name.split("/"))
            self.files = [file for file in files if crc32(_place(file)) % count == number - 1]
        self.left_out = len(files) - len(self.files)


def _place(file: str) -> bytes:
    return os.fsencode(os.path.relpath(file).replace(os.sep, "/"))
