"""The numbers that can flip a verdict.

A measured error is compared with one of them before a finding is made, left out, graded or
explained. Each states its unit, its reason and the rooms that use it, and is defined only here;
tests check all three.

Other numbers with a fraction have a type that says what they are:

- `Step`: how far an input is moved, relative to its size. Error bars account for it.
- `Enough`: where a search or a refinement may stop. Its error bar shows the accuracy it reached.
- `Spread`: a parameter of the distribution that points, directions or signs are drawn from.
- `Residue`: the rounding error that float64 leaves of a zero in gradcheck's own arithmetic.
- `Cost`: an amount of work, to choose the cheaper way or to stop in time. `Seconds`: the same in
  time.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Step: TypeAlias = float
Enough: TypeAlias = float
Spread: TypeAlias = float
Residue: TypeAlias = float
Cost: TypeAlias = float
Seconds: TypeAlias = float

# How far off a right gradient may be.

FEW_ULPS: Final = 4.0
"""ulps. A right gradient of a handful of operations, each rounded once, is off by a few ulps. Over
every row of the op table at random points (10976 entries in float32), 99 % were within 2 ulps and
99.9 % within 4 in the reference engine and in PyTorch; the worst was off by 6. Over 25 formulas
(9630 entries), 90 % were within 2 ulps in every engine, and 99 % within 5 (reference), 14 (PyTorch)
and 33 (TensorFlow, whose tanh' is 1 - y^2). An entry above this limit is only examined again, never
condemned. Used by: checks, engines, judge, report, truth."""

FIRST_ORDER_SLACK: Final = 4.0
"""Times the rounding that first-order analysis predicts. First order leaves out products of
roundings, and the last ulp of library functions (exp and the like are specified to 1-2 ulps, not
0.5). Used by: checks, judge, truth."""

HIDDEN_ULPS: Final = FEW_ULPS * FIRST_ORDER_SLACK
"""ulps of the largest entry of a row or column: the cost of a few operations at that size, times
the slack of first order. Used by: judge."""

SAME_ERROR: Final = 0.25
"""Part of an error. An error that does not depend on precision changes by no more than this from
one precision to the next; a rounding error changes by 2^-13 (bfloat16 to float16) or more. Used by:
checks, engines, judge."""

GROWS: Final = 16.0
"""Times the error in a coarser precision. A rounding error shrinks by 2^-3 (bfloat16 to float16) or
more, and pure noise, which has no right digit in either precision, rarely differs by this much; an
error that grows so is not rounding. Used by: checks, judge, truth."""

COMPILED_LOSS: Final = 2.0
"""Times the bits that a derivative loses without its compiler. A compiler may round in a different
order, which costs or saves about a bit; a derivative that loses twice as many bits computes
something else. Used by: checks."""

UNSEEN_ULPS: Final = 2.0**-8
"""ulps of the judged dtype. A smaller error bar changes no figure that the user sees, so the number
counts as known. Used by: truth."""

OPERATIONS: Final = 16
"""Operations, each rounded at the size of the value. This many are granted if the rounding was not
measured. Used by: checks, engines, truth."""

ROUNDINGS: Final = OPERATIONS**0.5
"""Times the rounding of the inputs. Random errors of OPERATIONS operations add up to this. Used by:
checks, truth."""

TAIL: Final = 8.0
"""Times the root mean square of roundings: not one of 1e14 Gaussian numbers is so far out. Used by:
checks."""

BENIGN: Final = 8.0
"""Times half an ulp of every input, or of the result. An operation whose rounding moves the result
by no more is benign: the dot product of a well-conditioned problem reaches 2 to 4. Used by:
truth."""

# Parts of the digits of a dtype.

NOTE_BITS: Final = 0.25
"""Part of the dtype's bits. A smaller loss is not reported: a gradient that keeps three quarters of
its digits is good to a thousandth or better in float32. log(1 - exp(x)) at -1e-4 keeps 13 bits,
which is enough for any optimiser. Used by: checks, engines, explain, judge."""

ERROR_BITS: Final = 0.5
"""Part of the dtype's bits. A larger loss is an error; between a quarter and a half it is a note.
Every defect seen in practice lost more than half. Used by: checks, domain, explain, judge."""

DECIDABLE: Final = 0.5
"""Part of the dtype's bits that may be unknown in the truth. If more are unknown, the verdict is
undecided. Used by: judge, truth."""

A_DIGIT: Final = 0.25
"""Part of the truth. An error bar below this leaves the sign and the first digit; above it, nothing
is known, whatever the reason. Used by: checks, judge, truth."""

WRITTEN_EXACTLY: Final = 0.5
"""Part of the dtype's bits. Numbers that need no more bits were written by a person: masks,
classes, tables of integers. Of data that was rounded to the dtype, one number in 2^12 looks like
this in float32. Used by: checks."""

USUAL_EXPONENT: Final = 0.25
"""Part of the range of exponents. Numbers within it have a fourth power, so the squares and cubes
in derivatives (x^-2, y^3, 1 / (1 + x^2)) stay within the range. Used by: judge, truth."""

DIFFERENT_GRADIENTS: Final = 2.0**-26
"""Part of a gradient. Two float64 gradients that differ by more belong to different functions:
rounding loses at most half of the digits of float64. Used by: explain."""

PRODUCT_BITS: Final = 0.375
"""Part of the dtype's bits that the product of a large sum with a direction keeps. Used by:
checks."""

# Measurement errors: the bars of differences, and noise.

DIFFERENCE_SAFETY: Final = 10.0
"""Times Ridders' estimate of the error of a difference, which was measured to be low by a factor of
up to 1.7. Used by: truth."""

PRODUCT_BARS: Final = 10.0
"""Error bars of a slope. A bar is the difference of two estimates, of which the better one is used;
a product is wrong if it is off by ten bars. Used by: checks."""

BENDING: Final = 1.5
"""Times the second derivative that the longest step shows. Shorter steps must show more than this
to count as bending. Used by: truth."""

VAGUE_BAR: Final = 2.0**-13
"""Part of the gradient along a direction. A wider bar says too little about float32 entries, so
entries are examined one by one. Used by: truth."""

DRAWN_SLACK: Final = 4.0
"""Times the larger change of two runs with random signs. It is rarely less than a quarter of the
largest change over all signs. Used by: checks."""

SHOWS: Final = 4.0
"""Error bars. An error this large is found: two bars to leave the bar, and two more because the
steps may be half as long. Used by: checks."""

ROUNDING_GRAINS: Final = 64.0
"""Roundings of the largest input or output. If a value changes in grains, grains up to this size
are rounding, since intermediate numbers may be larger than both; larger grains are the function's
own. Used by: checks, truth."""

NOISE_GROWS: Final = 16.0
"""Times the noise of a shorter move. Differences of pure noise rarely differ by more; h^3 grows by
30. Used by: truth."""

BUBBLE: Final = 2.0**-26
"""Part of an input's size, or of 1 for a zero. If a derivative holds only on shorter steps, float32
has no second number in that interval, so training never meets it. A guard such as max(norm, 1e-12)
makes such an interval; a function that bends within 1e-6 of the point does not. Used by: checks,
truth."""

FINE_STAIRS: Final = 2.0**-6
"""Part of an input's size, or of 1 for a zero. Stairs with four or more jumps within it are taken
for the rounding of a search: differences use steps fifty times as long as one stair. Stairs of
eight-bit numbers are wider, and are intended. Used by: truth."""

COARSE_STAIRS: Final = 2.0**-1
"""Part of an input's size, or of 1 for a zero, if the program is known to be a search. It has at
least eight halvings, of which four show as stairs within this part. Used by: truth."""

CHOICES: Final = 8
"""Choices in a row, each of which depends on the one before. So many halvings leave less than a
hundredth of a bracket; a decision tree has fewer, and a rounding has one. Used by: truth."""

STAIR_BENDS: Final = 2.0**-4
"""Part of the highest jump. Within a stair a value bends by less, because stairs are short compared
with the scale on which the function bends. Used by: truth."""

NO_DIGITS: Final = 16.0
"""Times the change that a small move of the inputs causes. A gradient that changes by as much has
no digits. Used by: truth."""

STEADY: Final = 0.5
"""Part of the change that a move of 2^-20 causes. A move of 2^-49 should cause 2^-29 of it; a value
that changes by more jumps. Used by: truth."""

SHORT_PERIOD: Final = 0.125
"""Part of a function's range. A function that changes by more from one float to the next has a
period that steps cannot follow; a smooth function changes by 2^-22 of its range. Used by: truth."""

# Points without a derivative.

DIVERGES: Final = 0.93
"""Ratio of slopes at steps that halve: between 2^-0.1 (h^0.9 still has a derivative) and 1 (h log h
has none). Used by: truth."""

JUMPS: Final = 1.9
"""Ratio of slopes at steps that halve: between 2^0.9 and 2, which is a jump; a square root is at
1.41 and a cube root at 1.59. Used by: truth."""

SAME_STEP: Final = 2.0**-26
"""Part of the largest number of a result. A restated operation that agrees with the recorded result
to half of float64's digits is that operation; the recorded rounding error may be larger than its
own. Used by: checks, truth."""

LIFTED_NOISE: Final = 16.0
"""Times the largest difference seen under perturbed rounding: of a program from itself at four
points, and, if that is not enough, between a layer and its program at three. A larger difference is
not rounding. Used by: checks."""

SAME_LIMIT_BITS: Final = 40
"""Bits to which two computed limits of a derivative agree if they are the same limit. Used by:
truth."""

CORNER_BENDS: Final = 0.125
"""Part of the distance to the partial derivative. A one-sided limit may change by this much between
paths. Used by: truth."""

CORNER_ALIKE: Final = 2.0**-6
"""Part of the largest slope. Limits that differ by less differ only because the path bends. Used
by: truth."""

# Causes: which operation is to blame, and why.

MATCHES: Final = 0.02
"""Part of the error to explain. A cause or a pattern that leaves no more than this accounts for 98
% of the error, so a coincidence over several entries is out of the question. Used by: checks,
explain."""

SAME_FACTOR: Final = 1e-3
"""Part of a factor's distance from 1. Ratios that differ by less are one factor, by which the
gradient is off. Used by: checks."""

CANCELS: Final = 64.0
"""Ratio of the largest term to the sum. A larger ratio loses more than a quarter of float32's
digits to the rounding of the terms. (Herbie calls 100 certain and 32 possible.) Used by:
explain."""

FROM_ARGUMENTS: Final = 4.0
"""Times the condition number of an operation, in ulps. Rounding the arguments explains this much;
it includes the rounding of the operation itself, and the slack of first order. Used by: explain."""

SAME_SIZE: Final = 2.0**-20
"""Part of a number. An exact number is known only to float64, and the wider run may have lost some
of its digits. Used by: explain."""

SAME_CONSTANT: Final = 2e-6
"""Part of a constant. log(2) is often written with seven digits, or rounded to float32. Used by:
explain."""

BENT_SLOPES: Final = 2.0**-5
"""Part of the slopes on both sides of a point. Those of a smooth operation are apart by about the
step, except where both are 0, and rounding shows on the short step alone. Used by: engines."""

KINK_OR_CURVE: Final = 1.5
"""Power of a step. From a short step to a long one, what a kink leaves grows with the step, what a
curvature leaves with its square (at a vertical tangent with its root, at a jump not at all). Used
by: engines."""

LOUD_KINK: Final = 8.0
"""Times the rounding of a value. A kink shows in the difference of two slopes, each with two values
that are rounded, and four times that is sure. Used by: truth."""

# Searches over a domain.

ROUNDED_AWAY: Final = 16.0
"""eps of the largest entry of a gradient. A smaller entry that is 0 was rounded away by a few
operations at the size of the others, and no update of an input shows it. Used by: judge, search."""

EXCUSED_MOVES: Final = 16.0
"""Times the effect of half an ulp of the inputs. A smaller error is due to the problem: a program
of a handful of operations rounds its numbers as the inputs are rounded. Used by: judge,
search."""
