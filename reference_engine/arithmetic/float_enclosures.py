"""Row -> its value on float balls, called with balls, numbers and arrays and the row's keywords.

A row that is missing here is enclosed by `enclosures`, number by number. Rows that are written in
other rows have theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_engine.arithmetic.float_choices import CHOICES
from reference_engine.arithmetic.float_functions import FUNCTIONS
from reference_engine.arithmetic.float_moves import MOVES
from reference_engine.arithmetic.float_sums import SUMS

FLOAT_ENCLOSURES: dict[str, Callable[..., Any]] = {**FUNCTIONS, **CHOICES, **SUMS, **MOVES}
