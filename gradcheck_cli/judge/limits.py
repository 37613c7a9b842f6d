"""The constants that flip a verdict, each with its reason. They are in this file and nowhere
else."""

from __future__ import annotations

from gradcheck_cli.domain.dtypes import FORMATS, FloatFormat

# A right gradient of a handful of operations, each rounded once, is off by a few ulps. Over every
# row of the op table at random points (10976 entries in float32), 99 % were within 2 ulps and
# 99.9 % within 4 in the reference engine and in PyTorch, the worst at 6. Over 25 formulas (9630
# entries), 90 % were within 2 ulps in every engine, and 99 % within 5 (reference), 14 (PyTorch) and
# 33 (TensorFlow, whose tanh' is 1 - y^2). Beyond it an entry is only looked at again, never
# condemned.
FEW_ULPS = 4.0

# First-order error analysis leaves out products of roundings and the last ulp of library functions
# (exp and friends are specified to 1-2 ulps, not 0.5).
FIRST_ORDER_SLACK = 4.0

# An error that does not care for precision changes by no more than this part of itself from one to
# the next; a rounding error changes by 2^-13 (bfloat16 to float16) or more.
SAME_ERROR = 0.25

# At most this part of the digits may be unknown in the truth, or nothing is decided (verdicts:
# half).
DECIDABLE = 0.5

# An error bar below a quarter of the truth leaves its sign and first digit; above it, nothing is
# known, whatever the reason.
A_DIGIT = 0.25

# Parts of the dtype's bits lost that make GC301 a note and an error. In between, a gradient is good
# to a thousandth or better in float32: log(1 - exp(x)) at -1e-4 keeps 13 bits, and no optimiser
# minds. Every defect that was seen in the wild lost more than half.
NOTE_BITS = 0.25
ERROR_BITS = 0.5

# An error of so many ulps of the largest entry of a row is what a few operations at that size cost:
# those that an entry may be off by itself, times what first order leaves out.
HIDDEN_ULPS = FEW_ULPS * FIRST_ORDER_SLACK

# Numbers whose exponent is within this part of the range have a fourth power: the squares and cubes
# that derivatives are written with (x^-2, y^3, 1 / (1 + x^2)) stay within the range.
USUAL_EXPONENT = 0.25

# Worst entries shown in a finding; the others are counted.
SHOWN = 10


def wider(dtype: str) -> FloatFormat:
    """The precision in which a suspect is looked at again."""
    return FORMATS["float32" if dtype == "float64" else "float64"]
