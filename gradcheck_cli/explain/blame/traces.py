"""The numbers of one evaluation at every node of the program, in the judged and a wider dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import Trace, modes_in
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import NOTE_BITS

Bad = Callable[[Array, Array | None], Array]


# An exact number beyond float64 is stored as its largest number.
FAR = float(np.finfo(np.float64).max)


def limit_of(fmt: FloatFormat) -> float:
    """The size above which an exact number is too large for the format."""
    return fmt.largest if fmt.largest < FAR else float(np.nextafter(FAR, 0))


@dataclass(frozen=True, slots=True)
class Traces:
    """`narrow` is the trace in the judged dtype, `wide` in float64 (None if that is the judged
    dtype). `target` is the exact value of the traced entry, or None. `stated` are the nodes of a
    derivative that the user wrote; they run in the backward pass. If the program was `executed`
    instead of parsed, keywords of its nodes are unknown."""

    program: Program
    fmt: FloatFormat
    narrow: Trace
    wide: Trace | None
    forward_mode: bool
    target: float | None = None
    stated: frozenset[int] = frozenset()
    executed: bool = False

    def number(self, index: int, at: tuple[int, ...], *, derivative: bool = False) -> float | None:
        """The number at element `at` of node `index` in the run, or None."""
        return _at(self.narrow, index, at, derivative)

    def exactly(self, index: int, at: tuple[int, ...], *, derivative: bool = False) -> float | None:
        """The same number in the wider precision, or None."""
        return None if self.wide is None else _at(self.wide, index, at, derivative)

    def bad(self, bad: Bad, index: int, *, derivative: bool) -> Array:
        """A mask of the bad elements of a node's value or derivative."""
        narrow = (self.narrow.derivatives if derivative else self.narrow.values).get(index)
        if narrow is None:
            return np.zeros((), dtype=bool)
        wide = None
        if self.wide is not None:
            wide = (self.wide.derivatives if derivative else self.wide.values).get(index)
        return bad(np.asarray(narrow, dtype=np.float64), wide)

    def users(self, index: int) -> Iterator[int]:
        """The nodes that have node `index` as an argument."""
        for later in range(index + 1, len(self.program.nodes)):
            if index in self.program.nodes[later].args:
                yield later


def _at(trace: Trace, index: int, at: tuple[int, ...], derivative: bool) -> float | None:
    array = (trace.derivatives if derivative else trace.values).get(index)
    if array is None or np.ndim(array) != len(at):
        return None
    if any(i >= n for i, n in zip(at, np.shape(array), strict=True)):
        return None
    return float(np.asarray(array)[at])


def traces_of(
    program: Program,
    dtype: str,
    mode: str,
    narrow: Trace,
    wide: Trace | None,
    target: float | None = None,
) -> Traces:
    """The traces of one evaluation; every dtype but float64 has a wider precision."""
    return Traces(
        program=program,
        fmt=FORMATS[dtype],
        narrow=narrow,
        wide=None if dtype == "float64" else wide,
        forward_mode=modes_in(mode)[-1] == "forward",  # the inner mode is traced
        target=target,
    )


def not_finite(narrow: Array, wide: Array | None) -> Array:
    """Elements that are nan or infinite."""
    return np.asarray(~np.isfinite(narrow))


def not_a_number(narrow: Array, wide: Array | None) -> Array:
    """Elements that are nan."""
    return np.asarray(np.isnan(narrow))


def zero(narrow: Array, wide: Array | None) -> Array:
    """Elements that are zero."""
    return np.asarray(np.asarray(narrow) == 0)


def vanished(narrow: Array, wide: Array | None) -> Array:
    """Elements that are zero, but not zero in the wider precision."""
    if wide is None or np.shape(wide) != np.shape(narrow):
        return np.zeros(np.shape(narrow), dtype=bool)
    return np.asarray((np.asarray(narrow) == 0) & (np.asarray(wide) != 0))


def lossy(fmt: FloatFormat) -> Bad:
    """A predicate: elements that lost more than NOTE_BITS of their digits against the wider
    dtype."""

    def bad(narrow: Array, wide: Array | None) -> Array:
        if wide is None or np.shape(wide) != np.shape(narrow):
            return np.zeros(np.shape(narrow), dtype=bool)
        ulps = np.abs(np.asarray(narrow) - wide) / fmt.ulp(wide)
        return np.asarray(~(ulps <= fmt.lost(NOTE_BITS)))

    return bad
