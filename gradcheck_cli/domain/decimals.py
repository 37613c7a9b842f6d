"""Decimals that read back as the same number: as short as the dtype allows, and never shorter."""

from __future__ import annotations

import math
import struct

# Significant decimal digits that distinguish any two numbers of a dtype: ceil(1 + p * log10(2)).
# For complex dtypes, those of their parts.
DISTINCT_DIGITS = {
    "float16": 5,
    "bfloat16": 4,
    "float32": 9,
    "float64": 17,
    "complex64": 9,
    "complex128": 17,
}
PRECISION = {  # bits
    "float16": 11,
    "bfloat16": 8,
    "float32": 24,
    "float64": 53,
    "complex64": 24,
    "complex128": 53,
}
LONG = 1e9  # integers below this are written in full


def shortest(value: float, dtype: str = "float64") -> str:
    """The fewest digits that read back, in `dtype`, as `value`; 8.0 is written "8".

    A `value` that is not a number of `dtype` is written with all of its float64 digits.
    """
    if not math.isfinite(value):
        return special(value)
    digits = DISTINCT_DIGITS.get(dtype, 17)
    if digits < 17 and _rounded(value, dtype) == value:
        for count in range(digits):
            short = float(f"{value:.{count}e}")
            if _rounded(short, dtype) == value:
                return tidy(short)
    return tidy(value)


def nested(value: object, dtype: str) -> str:
    """A number or nested list as text."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(nested(part, dtype) for part in value)}]"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return shortest(float(value), dtype)
    return "none"


def special(value: float) -> str:
    """The text of a value that is not finite."""
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def tidy(value: float) -> str:
    """All digits of a value, without digits that carry no information."""
    text = repr(value).removesuffix(".0")
    if text.lstrip("-").isdigit() and abs(value) >= LONG and text.endswith("0"):
        digits = text.lstrip("-").rstrip("0")
        return f"{value:.{len(digits) - 1}e}"  # zeros that stand for unknown digits are not shown
    return text


def _rounded(value: float, dtype: str) -> float:
    """`value` rounded to `dtype`, as a Python float; inf on overflow."""
    if dtype == "bfloat16":
        return _rounded_bfloat16(value)
    code = {24: "<f", 53: "<d"}.get(PRECISION[dtype], "<e")
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _rounded_bfloat16(value: float) -> float:
    """`value` rounded to bfloat16, the upper half of float32, to even. (The values here are short
    decimals, so rounding them to float32 first creates no new ties.)"""
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])
