"""Numbers as text: as short as the dtype allows, and never shorter."""

from __future__ import annotations

import math

from gradcheck_cli.domain.decimals import (
    DISTINCT_DIGITS,
    PRECISION,
    nested,
    shortest,
    special,
    tidy,
)
from gradcheck_cli.domain.report import Reading, TrainingResult

FEW = 5.0  # ulps: errors below are said in them, and need no rule to pass
LEAST = 0.005  # ulps, the first that is not shown as 0
HALF = 0.5  # errors of less are a part of the truth; from there on, what was computed is a multiple
ALIKE = 1e-3  # as which a factor or a sign is recognised
MOST = 1e4  # factors above are not written in full
ALL_DIGITS = "all digits wrong"
LONGEST = 64  # numbers of an array that are all shown; of larger ones both ends of each axis are
ENDS = 2  # elements at either end
UNNAMED = "output"  # what a result's output is called where the formula gives it no name


def significant(value: float | None, digits: int) -> str:
    """`value` with at most `digits` significant digits; "-" for None."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return special(value)
    return tidy(float(f"{value:.{digits - 1}e}"))


def with_bar(value: float | None, bar: float | None, dtype: str, sign: str = "±") -> str:
    """`value ± bar`. The value has no more digits than the bar and the dtype justify."""
    if value is None or math.isnan(value):
        return "-"
    digits = DISTINCT_DIGITS.get(dtype, 17)
    if bar is None or not math.isfinite(bar) or not math.isfinite(value):
        shown = "unknown" if bar is None or math.isnan(bar) else special(bar)
        return f"{significant(value, digits)} {sign} {shown}"
    if bar > 0 and value != 0:
        leading = math.floor(math.log10(abs(value))) - math.floor(math.log10(bar))
        digits = max(1, min(digits, leading + 2))
    return f"{significant(value, digits)} {sign} {significant(bar, 1)}"


def small_or_relative(ulps: float | None, dtype: str) -> str:
    """An error of a few ulps in ulps, a larger one as a relative error: "0.45 ulp", "2.4e-05
    relative"."""
    if ulps is None or math.isnan(ulps):
        return "-"
    if ulps < FEW:
        return f"{significant(ulps, 2) if ulps >= LEAST else 0} ulp"
    part = ulps * 2.0 ** (1 - PRECISION[dtype])
    return f"{part:.2g} relative" if part < 1 else ALL_DIGITS


def error(computed: float | None, truth: float | None, ulps: float | None, dtype: str) -> str:
    """The error of a number in words that help a user: a few ulps, a relative error, a factor, the
    sign, every digit, or the distance from a truth of 0."""
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
    """A factor, written as a whole number or its inverse if it is one to a thousandth."""
    for value, sign in ((quotient, ""), (1 / quotient, "1/")):
        whole = round(value) if abs(value) < MOST else 0
        if abs(whole) > 1 and abs(value - whole) < ALIKE * abs(whole):
            return f"-1/{-whole}" if sign and whole < 0 else f"{sign}{whole}"
    return f"{quotient:.2g}"


def share_of(fraction: float) -> str:
    """A fraction in per cent: "10.3 %"."""
    return f"{100 * fraction:.3g} %"


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def depth(value: object) -> int:
    """The number of axes of a nested list."""
    levels = 0
    while isinstance(value, list | tuple):
        levels += 1
        value = value[0] if value else None
    return levels


def reading_text(reading: Reading, output_name: str) -> str:
    """`z = 11, dz/dx = 8`, preceded by the point if the spec has points. Large arrays are abridged;
    the JSON report has all numbers."""
    named = output_name != UNNAMED
    value, numerator = (output_name, f"d{output_name}") if named else ("value", "d")
    parts = [f"{value} = {_abridged(reading.output, reading.dtype)}"]
    for name, gradient in reading.gradients.items():
        parts.append(f"{numerator}/d{name} = {_abridged(gradient, reading.dtype)}")
    point = "" if reading.point is None else f"points[{reading.point}]: "
    return point + ", ".join(parts)


def _abridged(values: object, dtype: str) -> str:
    """A number or nested list as text. Of many numbers only those at the ends are written, as in
    NumPy."""
    return nested(values, dtype) if _count(values) <= LONGEST else _ends(values, dtype)


def _count(values: object) -> int:
    return sum(map(_count, values)) if isinstance(values, list | tuple) else 1


def _ends(values: object, dtype: str) -> str:
    if not isinstance(values, list | tuple):
        return nested(values, dtype)
    if len(values) <= 2 * ENDS:
        return f"[{', '.join(_ends(part, dtype) for part in values)}]"
    first, last = (
        [_ends(part, dtype) for part in ends] for ends in (values[:ENDS], values[-ENDS:])
    )
    return f"[{', '.join([*first, '...', *last])}]"


def training_text(training: TrainingResult) -> str:
    """`after 100 steps: w = ..., b = ..., loss = ...`, to the last digit."""
    parts = [
        f"{name} = {nested(value, training.dtype)}" for name, value in training.parameters.items()
    ]
    parts.append(f"loss = {shortest(training.loss, training.dtype)}")
    return f"after {training.steps} steps: {', '.join(parts)}"
