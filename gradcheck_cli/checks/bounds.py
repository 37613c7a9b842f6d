"""Find bounds in a layer that keep a number away from a pole and make its gradient exactly zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.truth import Guard, PointKind
from gradcheck_cli.engines.layer.custom import UnclippedGradients
from gradcheck_cli.engines.layer.subject import Subject, output_size
from gradcheck_cli.engines.tracebacks import where_it_runs
from gradcheck_cli.truth.certified.clip_guards import has_pole


def with_guards(case: Case, subject: Subject) -> Case:
    """Add to the case the bounds without which entries of a whole Jacobian by reverse mode would
    differ. Only entries of an input with no effect at all are examined, and only if the layer runs
    without the bounds."""
    truth = case.truth
    ran = next((one for one in case.evaluations if one.mode == "reverse"), None)
    if truth is None or ran is None or ran.failure is not None:
        return case
    zero: dict[str, Array] = {}
    for (mode, name), block in truth.blocks.items():
        gradient = ran.gradients.get(name)
        if mode != "reverse" or gradient is None or gradient.values is None:
            continue
        still = (gradient.values == 0) & (block.value == 0) & (block.kind == PointKind.SMOOTH)
        columns = still.all(axis=0)
        if columns.any():
            zero[name] = columns
    if not zero:
        return case
    rows = np.eye(output_size(subject))
    guards = []
    none: Sequence[UnclippedGradients] = ()
    for one in where_it_runs(lambda: subject.unclipped_gradients(rows), none):
        without = _entries_without_bound(zero, one)
        if without:
            span = case.spec.program.result.span
            guards.append(Guard(one.place.text, span, one.pole, without, one.place))
    return replace(case, truth=replace(truth, guards=tuple(guards)))


@dataclass
class StillEntries:
    """Entries of each leaf whose products with all cotangents are exactly 0, so all their
    derivatives are zero. For large layers, whose single derivatives are unknown."""

    zero: dict[str, Array] = field(default_factory=dict)  # a mask of size 0: no entry is left

    def begin(self) -> None:
        self.zero.clear()

    def compare(self, k: int, gradient: Mapping[str, Array | None]) -> None:
        for name, product in gradient.items():
            known = self.zero.get(name)
            if product is None or (known is not None and not known.size):
                continue
            zero = product == 0 if known is None else (product == 0) & known
            self.zero[name] = zero if np.any(zero) else np.zeros(0, dtype=np.bool_)

    def findings(self, layer: BoundLayer, cotangent: Array) -> Iterator[Finding]:
        """GC404: bounds without which such entries have other products with a cotangent (m,)."""
        zero = {name: mask[None] for name, mask in self.zero.items() if mask.size}
        if not zero:
            return
        none: Sequence[UnclippedGradients] = ()
        subject, row = layer.highest, cotangent[None]
        for one in where_it_runs(lambda: subject.unclipped_gradients(row), none):
            for (_, name), without in _entries_without_bound(zero, one).items():
                many = f"{np.count_nonzero(~np.isnan(without))} entries of the gradient"
                message = f"`{name}`: a bound before the pole of `{one.pole}` makes {many} zero"
                found = layer.finding(Codes.CLIPPED_GRADIENT, message, layer.narrow.mode)
                yield replace(found, input=name, place=one.place)


def _entries_without_bound(
    zero: Mapping[str, Array], unclipped: UnclippedGradients
) -> dict[tuple[str, str], Array]:
    """The entries that differ without the bound, nan for all others. They may be infinite only if
    the value has a pole, too; at a vertical tangent, as of a square root at 0, a bound is the usual
    remedy."""
    is_pole = has_pole(unclipped.pole)
    entries = {}
    for name, columns in zero.items():
        gradient = unclipped.gradients.get(name)
        if gradient is None:
            continue
        other = columns & ~np.isnan(gradient) & (gradient != 0)
        other &= np.isfinite(gradient) | is_pole
        if np.any(other):
            entries["reverse", name] = np.where(other, gradient, np.nan)
    return entries
