"""Values of a layer next to its point, where it may have none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.callables.subject import Subject
from gradcheck_cli.truth.directions import Values


def values_of(subject: Subject, many: Sequence[Values], count: int) -> Array:
    """The flattened outputs at several points, (k, count); nan where the layer refuses a point, as
    some do outside their domain."""
    try:
        return subject.several(many)
    except Exception:
        return np.stack([_value(subject, values, count) for values in many])


def _value(subject: Subject, values: Values, count: int) -> Array:
    try:
        return subject.value(values)
    except Exception:
        return np.full(count, np.nan)
