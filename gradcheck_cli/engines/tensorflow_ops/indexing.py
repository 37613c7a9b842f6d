"""Taking arrays apart and putting them together."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.lowerings import Lowering


def concatenate(tf: Any, *xs: Any, axis: int = 0) -> Any:
    return tf.concat(xs, axis=axis)


def stack(tf: Any, *xs: Any, axis: int = 0) -> Any:
    return tf.stack(xs, axis=axis)


def getitem(tf: Any, x: Any, index: tuple[Any, ...]) -> Any:
    return x[index]


ROWS: dict[str, Lowering] = {"concatenate": concatenate, "getitem": getitem, "stack": stack}
