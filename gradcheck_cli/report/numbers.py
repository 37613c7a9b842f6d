"""Numbers as text: as short as the dtype allows, and never shorter."""

from __future__ import annotations

import math
import struct

# Significant decimal digits that tell any two numbers of a dtype apart: ceil(1 + p * log10(2)).
# Of complex dtypes, those of their parts.
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
FEW = 5.0  # ulps: errors below are said in them, and need no rule to pass
LEAST = 0.005  # ulps, the first that is not shown as 0
HALF = 0.5  # errors of less are a part of the truth; from there on, what was computed is a multiple
ALIKE = 1e-3  # as which a factor or a sign is recognised
MOST = 1e4  # factors above are not written in full
ALL_DIGITS = "all digits wrong"
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


def small_or_relative(ulps: float | None, dtype: str) -> str:
    """An error in units in the last place where it is a few of them, else as a part of the number:
    "0.45 ulp", "2.4e-05 relative"."""
    if ulps is None or math.isnan(ulps):
        return "-"
    if ulps < FEW:
        return f"{significant(ulps, 2) if ulps >= LEAST else 0} ulp"
    part = ulps * 2.0 ** (1 - PRECISION[dtype])
    return f"{part:.2g} relative" if part < 1 else ALL_DIGITS


def error(computed: float | None, truth: float | None, ulps: float | None, dtype: str) -> str:
    """What is wrong with a number, in words that serve somebody who uses it: a few ulps, a part of
    the truth, a factor, the sign, every digit, or how far it is from a truth of 0."""
    if computed is None or truth is None or ulps is None or math.isnan(ulps):
        return "-"
    if math.isinf(computed):
        return "infinite"
    if ulps < FEW:
        return small_or_relative(ulps, dtype)
    if truth == 0:
        return f"off by {abs(computed):.2g}"
    quotient = computed / truth
    if abs(quotient - 1) < HALF:
        return f"{abs(quotient - 1):.2g} relative"
    if abs(quotient + 1) < ALIKE:
        return "wrong sign"
    if abs(quotient) < ALIKE:
        return ALL_DIGITS
    return f"factor {_factor(quotient)}"


def _factor(quotient: float) -> str:
    """Whole, or one part of a whole, where it is so to a thousandth."""
    for value, sign in ((quotient, ""), (1 / quotient, "1/")):
        whole = round(value) if abs(value) < MOST else 0
        if abs(whole) > 1 and abs(value - whole) < ALIKE * abs(whole):
            return f"-1/{-whole}" if sign and whole < 0 else f"{sign}{whole}"
    return f"{quotient:.2g}"


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
    code = {24: "<f", 53: "<d"}.get(PRECISION[dtype], "<e")
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
