"""The numbers that flip a verdict: what a measured error is compared with, before a finding is
made, left out, graded or explained. Each has its unit, its reason and the rooms that use it, and
stands here alone; tests check all three.

Other numbers with a fraction say by their type what they are:

- `Step`: how far an input is moved, as a part of its size. Error bars account for it.
- `Enough`: where a search or a refinement may stop. Its error bar says how far it came.
- `Spread`: of the distribution that points, directions or signs are drawn from.
- `Residue`: what float64 leaves of a zero in gradcheck's own arithmetic.
- `Cost`: of work, to choose the cheaper way or to stop in time. `Seconds`: the same in time.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Step: TypeAlias = float
Enough: TypeAlias = float
Spread: TypeAlias = float
Residue: TypeAlias = float
Cost: TypeAlias = float
Seconds: TypeAlias = float

# How far off a right gradient is.

FEW_ULPS: Final = 4.0
"""ulps. A right gradient of a handful of operations, each rounded once, is off by a few. Over every
row of the op table at random points (10976 entries in float32), 99 % were within 2 ulps and 99.9 %
within 4 in the reference engine and in PyTorch, the worst at 6. Over 25 formulas (9630 entries), 90
% were within 2 ulps in every engine, and 99 % within 5 (reference), 14 (PyTorch) and 33
(TensorFlow, whose tanh' is 1 - y^2). Beyond it an entry is only looked at again, never condemned.
Used by: checks, engines, judge, report, truth."""

FIRST_ORDER_SLACK: Final = 4.0
"""Times the rounding that first-order analysis predicts. It leaves out products of roundings, and
the last ulp of library functions (exp and friends are specified to 1-2 ulps, not 0.5). Used by:
checks, judge, truth. Used by: checks, judge, truth."""

HIDDEN_ULPS: Final = FEW_ULPS * FIRST_ORDER_SLACK
"""ulps of the largest entry of a row or column: what a few operations at that size cost, those that
an entry may be off by itself times what first order leaves out. Used by: judge."""

SAME_ERROR: Final = 0.25
"""Part of an error. One that does not care for precision changes by no more than this from one
precision to the next; a rounding error changes by 2^-13 (bfloat16 to float16) or more. Used by:
checks, engines, judge. Used by: checks, engines, judge."""

COMPILED_LOSS: Final = 2.0
"""Times the bits that a derivative loses without its compiler. A compiler may round in another
order, which costs a bit or so either way; who loses twice as many has computed something else. Used
by: checks."""

UNSEEN_ULPS: Final = 2.0**-8
"""ulps of the judged dtype. An error bar of less cannot be seen in any figure that the user gets,
so the number counts as known. Used by: truth."""

OPERATIONS: Final = 16
"""Operations, each rounded at the size of the value: what is granted where rounding was not
measured. Used by: checks, engines, truth."""

ROUNDINGS: Final = OPERATIONS**0.5
"""Times the rounding of the inputs: so many operations round as much, as errors at random add up.
Used by: checks, truth."""

BENIGN: Final = 8.0
"""Times half an ulp of every input, or of the result. An operation whose rounding moves the result
by no more is benign: the dot product of a well-conditioned problem reaches 2 to 4. Used by: truth.
Used by: truth."""

# Parts of the digits of a dtype.

NOTE_BITS: Final = 0.25
"""Part of the dtype's bits. What lost fewer is worth no word: a gradient that keeps three quarters
of its digits is good to a thousandth or better in float32. log(1 - exp(x)) at -1e-4 keeps 13 bits,
and no optimiser minds. Used by: checks, engines, explain, judge."""

ERROR_BITS: Final = 0.5
"""Part of the dtype's bits. What lost more is an error; between a quarter and a half it is a
note. Every defect that was seen in the wild lost more than half. Used by: checks, explain,
judge."""

DECIDABLE: Final = 0.5
"""Part of the dtype's bits that may be unknown in the truth, or nothing is decided. Used by: judge,
truth."""

A_DIGIT: Final = 0.25
"""Part of the truth. An error bar below it leaves the sign and the first digit; above it, nothing
is known, whatever the reason. Used by: checks, judge."""

WRITTEN_EXACTLY: Final = 0.5
"""Part of the dtype's bits. Numbers that need no more are what somebody wrote: masks, classes,
tables of integers. Of data that was rounded to the dtype, one number in 2^12 looks so in float32.
Used by: checks."""

USUAL_EXPONENT: Final = 0.25
"""Part of the range of exponents. Numbers within it have a fourth power: the squares and cubes that
derivatives are written with (x^-2, y^3, 1 / (1 + x^2)) stay within the range. Used by: judge."""

DIFFERENT_GRADIENTS: Final = 2.0**-26
"""Part of a gradient. Two float64 gradients that differ by more are not of the same function: half
of the digits of float64 may be lost to rounding, no more. Used by: explain."""

PRODUCT_BITS: Final = 0.375
"""Part of the dtype's bits that the product of a large sum with a direction keeps. Used by: checks.
Used by: checks."""

# What measuring may get wrong: the bars of differences, and noise.

DIFFERENCE_SAFETY: Final = 10.0
"""Times Ridders' estimate of the error of a difference, which was measured low by up to 1.7. Used
by: truth. Used by: truth."""

PRODUCT_BARS: Final = 10.0
"""Error bars of a slope. A bar is a difference of two estimates, of which the better one is taken;
a product is wrong where it is off by ten times as much. Used by: checks."""

BENDING: Final = 1.5
"""Times the second derivative that the longest step shows: less is no bending at shorter steps.
Used by: truth."""

VAGUE_BAR: Final = 2.0**-13
"""Part of the gradient along a direction. A bar above it says too little about float32 entries, so
entries are looked at one by one. Used by: truth."""

DRAWN_SLACK: Final = 4.0
"""Times the farthest of two runs at drawn signs, which is rarely a quarter of the farthest of all.
Used by: checks."""

SHOWS: Final = 4.0
"""Error bars. An error that large is found: two to leave the bar, and two more where the steps are
half as long. Used by: checks."""

ROUNDING_GRAINS: Final = 64.0
"""Roundings of the largest input or output. What a value changes by at once is a grain of rounding
up to here, as numbers on the way may be larger than both, and the function's own doing beyond. Used
by: checks, truth. Used by: checks, truth."""

NOISE_GROWS: Final = 16.0
"""Times the noise of a shorter move. Few differences of pure noise are farther from each other; h^3
grows by 30. Used by: truth."""

BUBBLE: Final = 2.0**-26
"""Part of an input's size, or of 1 for a zero. A derivative that holds on no longer steps holds
where float32 has no second number: no training meets it. A guard such as max(norm, 1e-12) makes
one; a function that bends within 1e-6 of itself does not. Used by: checks, truth."""

FINE_STAIRS: Final = 2.0**-6
"""Part of an input's size, or of 1 for a zero, in which stairs have four jumps or more to be taken
for the rounding of a search: steps are fifty times as long as one. Those of eight-bit numbers are
wider, and are meant. Used by: truth."""

CHOICES: Final = 8
"""Choices in a row, each by what the one before chose. So many halvings leave less than a hundredth
of a bracket; a tree of decisions has fewer, and a rounding is one. Used by: truth."""

STAIR_BENDS: Final = 2.0**-4
"""Part of the highest jump. Within a stair a value bends by less: stairs are short beside what
bends the function. Used by: truth."""

NO_DIGITS: Final = 16.0
"""Times what a small move of the inputs changes. A gradient that it changes by as much has no
digits. Used by: truth."""

STEADY: Final = 0.5
"""Part of what a move of 2^-20 changes. A move of 2^-49 changes 2^-29 of that; what changes by more
jumps. Used by: truth."""

SHORT_PERIOD: Final = 0.125
"""Part of its range. A function that changes by more from one float to the next has a period that
steps cannot follow; a smooth one changes by 2^-22 of it. Used by: truth."""

# Points without a derivative.

DIVERGES: Final = 0.93
"""Ratio of slopes at steps that halve. Between 2^-0.1 (h^0.9 still has a derivative) and 1 (h log h
has none). Used by: truth."""

JUMPS: Final = 1.9
"""Ratio of slopes at steps that halve. Between 2^0.9 and 2, which is a jump; sqrt and cube root are
at 1.41 and 1.59. Used by: truth."""

SAME_STEP: Final = 2.0**-26
"""Part of the largest number of a result. An operation whose rows agree with what it gave to half
of float64's digits is that operation; its own rounding may be larger than theirs. Used by: checks,
engines, truth."""

LIFTED_NOISE: Final = 16.0
"""Times the largest difference that was seen when all is rounded anew: between a layer and its
program at three points, and of the program from itself at four. A farther one is no rounding.
Used by: checks."""

SAME_LIMIT_BITS: Final = 40
"""Bits in which two limits of a derivative agree that are the same one. Used by: truth."""

CORNER_BENDS: Final = 0.125
"""Part of the distance to the partial derivative by which a one-sided limit may change from way to
way. Used by: truth."""

CORNER_ALIKE: Final = 2.0**-6
"""Part of the largest slope. Limits that differ by less differ by how the way bends. Used by:
truth. Used by: truth."""

# Causes: which operation is to blame, and for what.

MATCHES: Final = 0.02
"""Part of the error that is to be explained. A cause or a pattern that leaves no more accounts
for 98 % of it, and a coincidence of several entries is out of the question. Used by: checks,
explain."""

SAME_FACTOR: Final = 1e-3
"""Part of a factor's distance from 1. Ratios that differ by less are one factor, by which the
gradient is off. Used by: checks."""

CANCELS: Final = 64.0
"""Ratio of the largest term to the sum. More loses above a quarter of float32's digits to the
rounding of the terms. (Herbie calls 100 sure and 32 perhaps.) Used by: explain."""

FROM_ARGUMENTS: Final = 4.0
"""Times the condition number of an operation, in ulps: what rounding its arguments explains, once
for them, and as much again for the operation itself and for first order being only that. Used by:
explain. Used by: explain."""

SAME_SIZE: Final = 2.0**-20
"""Part of a number. An exact number is known to float64, of whose digits the wider run may have
lost some itself. Used by: explain."""

SAME_CONSTANT: Final = 2e-6
"""Part of a constant. log(2) is often written with seven digits, and rounded to float32. Used by:
explain. Used by: explain."""

# Searches over a domain.

ROUNDED_AWAY: Final = 16.0
"""eps of the largest entry of a gradient. A smaller entry that is 0 is lost beside the others by a
few roundings at their size, and no update of an input shows it. Used by: search."""

EXCUSED_MOVES: Final = 16.0
"""Times what half an ulp of the inputs does. An error below that is the problem's own: a program of
a handful of operations, each of which rounds its numbers as the inputs are. Used by: search."""
