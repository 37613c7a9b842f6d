"""The results of a search in words: a point that fails, a fix over a domain, the progress."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.decimals import nested
from gradcheck_cli.domain.search import KINDS, SearchedFix, SearchProgress, Witness
from gradcheck_cli.report.style import plain

_VALUE_LOST = f"the value is lost there as well, and a run reports that ({Codes.NON_FINITE_OUTPUT})"


def example(witness: Witness, dtype: str) -> str:
    """The point, the computed number and the true one. If the value is lost at the point of a wrong
    gradient, the text says that a run only reports the value."""
    values = _place(witness, dtype)
    if witness.genuine:
        return f"e.g. {values}: {witness.entry} is {witness.truth:.7g}, beyond the dtype"
    truth = "undefined" if math.isnan(witness.truth) else f"truth {witness.truth:.7g}"
    found = f"e.g. {values}: {witness.entry} is {witness.computed:.7g}, {truth}"
    of_value = witness.entry == "value" or witness.entry.startswith("value[")
    return found if of_value or not witness.value_lost else f"{found}; {_VALUE_LOST}"


def searched_words(fix: SearchedFix) -> Iterator[str]:
    """What is known about a fix over the domain, in sentences."""
    known = "all six kinds" if len(fix.proven) == len(KINDS) else ", ".join(fix.proven)
    if known:
        yield f"proven absent over the same domain: {known}"
    for search in fix.found:
        if search.witness is not None:
            at = example(search.witness, search.dtype)
            yield f"it fails over the same domain ({search.kind}): {at}"
    if not known and not fix.found:
        yield "over the same domain, no failure was found, but nothing is proven"


def progress_words(progress: SearchProgress) -> str:
    """`sigmoid torch float32: 312 boxes open, 97 % proven; gradient-nonfinite at x = 95.0`."""
    known = progress.known
    words = f"{plain(progress.spec)} {progress.engine} {progress.dtype}: "
    words += f"{known.open_boxes} boxes open, {100 * known.proven:.0f} % proven"
    failing = [one for one in known.searches if one.witness is not None]
    if failing:
        worst = max(failing, key=lambda one: one.witness.size if one.witness else 0.0)
        assert worst.witness is not None
        words += f"; {worst.kind} at {_place(worst.witness, progress.dtype)}"
    return words


def _place(witness: Witness, dtype: str) -> str:
    """The point in decimals that read back exactly, as in the command."""
    values = witness.values.items()
    return ", ".join(f"{name} = {nested(array.tolist(), dtype)}" for name, array in values)
