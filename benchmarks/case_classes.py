"""Classifies the gradient or value of a case by comparison with the case's own truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mpmath import isinf, isnan, mp, mpf

mp.prec = 2000  # true values have up to 500 digits, and are as small as 1e-480

# relative unit roundoff, smallest subnormal, smallest normal, largest number
FORMATS = {
    "float16": (2**-11, 2.0**-24, 2.0**-14, 65504.0),
    "bfloat16": (2**-8, 2.0**-133, 2.0**-126, float(2**127 * (2 - 2**-7))),
    "float32": (2**-24, 2.0**-149, 2.0**-126, float(2**127 * (2 - 2**-23))),
    "float64": (2**-53, 2.0**-1074, 2.0**-1022, float(2**1023 * (2 - 2**-52))),
}

# Observed gradients that the data call slightly inaccurate are off by up to 3e-4, inaccurate ones
# by 5e-2 and more; a few roundings of a half precision cost more than the former.
SLIGHT = 1e-3
ROUNDINGS = 32
HALF = 0.5  # an error of half the number or more leaves no digit: wrong

RIGHT = ("ok", "slightly-inaccurate")
BAD = ("nan", "inf", "zero", "wrong", "inaccurate")


def is_subnormal(number: Any, dtype: str) -> bool:
    """Whether a number is below the smallest normal one."""
    return bool(abs(number) < FORMATS[dtype][2])


def flat(nested: Any) -> Iterator[Any]:
    """The numbers of nested lists, in order."""
    if isinstance(nested, list):
        for one in nested:
            yield from flat(one)
    else:
        yield nested


def numbers(nested: Any) -> list[Any]:
    """The numbers of nested lists as mpmath numbers. Text such as "1e-475", "-inf" and "nan" is
    accepted."""
    return [mpf(one) if one is not None else mpf("nan") for one in flat(nested)]


def without_truth(computed: Any) -> str:
    """nan or inf if one of the numbers is; nothing else can be said without a truth."""
    found = numbers(computed)
    return "nan" if any(map(isnan, found)) else "inf" if any(map(isinf, found)) else ""


def classified(computed: Any, truth: Any, dtype: str) -> str:
    """The class of `computed`, given `truth`: ok, inaccurate, wrong, zero, inf or nan; "flush" if
    the only error is that a subnormal number became zero. The worst entry counts.

    Both are nested lists with the same number of entries.
    """
    pairs = zip(numbers(computed), numbers(truth), strict=True)
    found = {_entry(one, true, dtype) for one, true in pairs}
    order = ("nan", "inf", "wrong", "zero", "inaccurate", "flush", "ok")
    return next((name for name in order if name in found), "ok")


def _entry(computed: Any, true: Any, dtype: str) -> str:
    u, tiny, normal, largest = FORMATS[dtype]
    if isnan(true):
        return "ok" if isnan(computed) else "wrong"
    if isnan(computed):
        return "nan"
    if abs(true) > largest:  # the right answer is an infinity, or the largest number
        right = computed * true > 0 and abs(computed) >= largest
        return "ok" if right else "wrong"
    if isinf(computed):
        return "inf"
    error = abs(computed - true)
    if error <= max(max(SLIGHT, ROUNDINGS * u) * abs(true), tiny):
        return "ok"
    if computed == 0:
        return "flush" if is_subnormal(true, dtype) else "zero"
    if abs(true) < normal and abs(computed) <= normal:
        return "ok"  # subnormal numbers and their neighbours have fewer digits
    return "wrong" if error >= HALF * abs(true) else "inaccurate"
