"""Numbers as text: as short as the dtype allows, and never shorter."""

from __future__ import annotations

import math
import struct

# Significant decimal digits that tell any two numbers of a dtype apart: ceil(1 + p * log10(2)).
DISTINCT_DIGITS = {"float16": 5, "bfloat16": 4, "float32": 9, "float64": 17}
LONG = 1e9  # whole numbers below this are written in full


def shortest(value: float, dtype: str = "float64") -> str:
    """The fewest digits that read back, in `dtype`, as `value`; 8.0 is written "8".

    A `value` that is no number of `dtype` is written with all of its float64 digits.
    """
    if not math.isfinite(value):
        return _special(value)
    digits = DISTINCT_DIGITS.get(dtype, 17)
    if digits < 17 and _rounded(value, dtype) == value:
        for count in range(digits):
            short = float(f"{value:.{count}e}")
            if _rounded(short, dtype) == value:
                return _tidy(short)
    return _tidy(value)


def significant(value: float | None, digits: int) -> str:
    """`value` with at most `digits` significant digits; "-" where there is none."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return _special(value)
    return _tidy(float(f"{value:.{digits - 1}e}"))


def with_bar(value: float | None, bar: float | None, dtype: str, sign: str = "±") -> str:
    """`value ± bar`, with no more digits of the value than the bar and the dtype leave."""
    if value is None or math.isnan(value):
        return "-"
    digits = DISTINCT_DIGITS.get(dtype, 17)
    if bar is None or not math.isfinite(bar) or not math.isfinite(value):
        shown = "unknown" if bar is None or math.isnan(bar) else _special(bar)
        return f"{significant(value, digits)} {sign} {shown}"
    if bar > 0 and value != 0:
        leading = math.floor(math.log10(abs(value))) - math.floor(math.log10(bar))
        digits = max(1, min(digits, leading + 2))
    return f"{significant(value, digits)} {sign} {significant(bar, 1)}"


def ulps(value: float | None) -> str:
    """An error in units in the last place, as whole numbers where they are large."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf ulp"
    if value == 0:
        return "0 ulp"
    if value >= 1e6:
        return f"{value:.1e} ulp"
    digits = max(2, math.floor(math.log10(value)) + 1)
    return f"{significant(value, digits)} ulp"


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def _special(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def _tidy(value: float) -> str:
    text = repr(value).removesuffix(".0")
    if text.lstrip("-").isdigit() and abs(value) >= LONG and text.endswith("0"):
        digits = text.lstrip("-").rstrip("0")
        return f"{value:.{len(digits) - 1}e}"  # zeros that stand for unknown digits are not shown
    return text


def _rounded(value: float, dtype: str) -> float:
    """`value` rounded to `dtype`, as a Python float; inf where it overflows."""
    if dtype == "bfloat16":
        return _rounded_bfloat16(value)
    code = {"float16": "<e", "float32": "<f", "float64": "<d"}[dtype]
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _rounded_bfloat16(value: float) -> float:
    """bfloat16 is the upper half of float32, rounded to even (the candidates here are short
    decimals, so rounding by way of float32 meets no tie that it had made itself)."""
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])
