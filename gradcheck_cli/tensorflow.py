"""A drop-in replacement of `tf.test.compute_gradient`.

    from gradcheck_cli.tensorflow import compute_gradient

Importing this module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.testing.api import check
from gradcheck_cli.testing.report import CheckReport
from gradcheck_cli.testing.values import dtype_name


class ComputedGradient(tuple[tuple[Array, ...], tuple[Array, ...]]):
    """The pair (theoretical, numerical) of TensorFlow, and the verdict on it.

    Each has for every argument a matrix of shape (entries of the output, entries of the argument).
    """

    report: CheckReport

    def __new__(
        cls, theoretical: Sequence[Array], numerical: Sequence[Array], report: CheckReport
    ) -> ComputedGradient:
        pair = super().__new__(cls, (tuple(theoretical), tuple(numerical)))
        pair.report = report
        return pair

    @property
    def passed(self) -> bool:
        """Whether no error was found."""
        return self.report.passed


def compute_gradient(
    f: Callable[..., Any], x: Sequence[Any], delta: float | None = None
) -> ComputedGradient:
    """`tf.test.compute_gradient` with a verdict: returns the same pair of numbers, and its `report`
    says whether the theoretical gradient is right, in the dtypes of the arguments.

    `delta` is the step of TensorFlow's differences; the verdict does not depend on it. Raises
    TensorFlow's own exceptions, and UsageError for arguments that cannot be checked.
    """
    import tensorflow as tf

    if isinstance(x, list | tuple) and not x:
        raise UsageError("`x` is empty: there is no gradient to check")
    theoretical, numerical = tf.test.compute_gradient(f, x, delta)
    values = [tf.convert_to_tensor(one) for one in x]
    dtypes = {dtype_name(one) for one in values if one.dtype.is_floating or one.dtype.is_complex}
    report = check(f, *values, engines="tensorflow", dtypes=dtypes, modes=["reverse"])
    return ComputedGradient(theoretical, numerical, report)
