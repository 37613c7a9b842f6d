"""Float balls, and the values of rows on them. Rows that are written in terms of other rows use
those."""

from reference_engine.arithmetic.float_balls import (
    FLOAT_ENCLOSURES,
    OF_DOUBTFUL,
    Doubtful,
    FloatBall,
    Singly,
    as_float_ball,
    exactly_floats,
    of_balls,
    standing,
)
from reference_engine.arithmetic.float_choices import CHOICES, DECIDING
from reference_engine.arithmetic.float_functions import FUNCTIONS
from reference_engine.arithmetic.float_moves import MOVES
from reference_engine.arithmetic.float_sums import SUMS

__all__ = [
    "Doubtful",
    "FloatBall",
    "Singly",
    "as_float_ball",
    "exactly_floats",
    "of_balls",
    "standing",
]

FLOAT_ENCLOSURES.update({**FUNCTIONS, **CHOICES, **SUMS, **MOVES})
OF_DOUBTFUL.update(DECIDING)
