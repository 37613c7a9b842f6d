"""Errors by index as a picture of two lines of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from gradcheck_cli.report.numbers import FEW

_BLOCKS = " ▁▂▃▄▅▆▇█"
_TOP = 2 * (len(_BLOCKS) - 1)


def sparkline(ulps: Sequence[float], width: int) -> tuple[str, str]:
    """The upper and the lower line, at most `width` wide: each column has the largest error of a
    stretch of entries. Heights are logarithms, from a few ulps to the largest error; what is
    infinite or nan is as high as there is."""
    columns = min(len(ulps), width)
    edges = [column * len(ulps) // columns for column in range(columns + 1)]
    worst = [max(map(_bounded, ulps[a:b])) for a, b in pairwise(edges)]
    largest = max((error for error in worst if math.isfinite(error)), default=FEW)
    heights = [_height(error, largest) for error in worst]
    half = _TOP // 2
    upper = "".join(_BLOCKS[max(height - half, 0)] for height in heights)
    return upper, "".join(_BLOCKS[min(height, half)] for height in heights)


def _bounded(error: float) -> float:
    return math.inf if math.isnan(error) else error


def _height(error: float, largest: float) -> int:
    if error < FEW:
        return 0
    if not math.isfinite(error) or largest == FEW:
        return _TOP
    return 1 + round((_TOP - 1) * math.log(error / FEW) / math.log(largest / FEW))
