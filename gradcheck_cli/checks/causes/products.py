"""Compare one product of a large Jacobian for each leaf with finite differences: enough to tell a
derivative that is wrong as a whole from a right one."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.checks.causes.traced_entry import TracedEntry
from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.scale import scale_of
from gradcheck_cli.domain.thresholds import PRODUCT_BARS, PRODUCT_BITS, SAME_FACTOR, Step
from gradcheck_cli.engines.layer.subject import Call, Subject, output_size
from gradcheck_cli.truth.layers.safe_values import values_of

DRAWS = 2  # two equal ratios make a factor
LONGEST: Step = 2.0**-6  # relative to the size of the leaf
SHORTEST: Step = 2.0**-24


@dataclass(frozen=True, slots=True)
class Product:
    """row @ J_leaf @ direction: `stated` by the backward, and `right` from differences of the
    forward. `factor` is the ratio of the two if it is the same for all draws, with no more digits
    than the draws have in common."""

    leaf: str
    stated: float
    right: float
    factor: float | None


def wrong_products(subject: Subject, seed: int, mode: Mode, kinks: bool = True) -> list[Product]:
    """The leaves whose gradient by this mode is wrong along a random direction, for a random
    cotangent. `kinks`: at a kink the mean of both slopes is right, and else any slope between.

    Costs one backward pass for each draw and about twenty forward passes for each leaf and draw.
    """
    rng = generator(seed, 11)
    pairs: dict[str, list[tuple[float, float]]] = {}
    wrong: set[str] = set()
    for _ in range(DRAWS):
        row = rng.standard_normal(output_size(subject))
        gradients = subject.run(Call(cotangents=row[None])).gradients if mode == "reverse" else {}
        for leaf in subject.leaves:
            if not leaf.differentiable:
                continue
            direction = signs(rng, leaf.shape) * scale_of(leaf.value)
            gradient = gradients.get(leaf.name)
            if mode == "forward":
                pushed = subject.jvp({leaf.name: direction})
                terms = np.zeros(1) if pushed is None else row * pushed
            else:
                terms = np.zeros(1) if gradient is None else gradient[0] * direction.reshape(-1)
            stated = float(np.sum(terms))
            right, bar = difference(subject, leaf.name, leaf.value, direction, row, kinks)
            size = float(np.sum(np.abs(terms)))  # the terms may cancel, as after a softmax
            digits = 2.0 ** -(PRODUCT_BITS * FORMATS[subject.dtype].bits)
            within = PRODUCT_BARS * bar + digits * max(size, abs(right))
            if np.isfinite(right) and not abs(stated - right) <= within:  # also if it is nan
                wrong.add(leaf.name)
            pairs.setdefault(leaf.name, []).append((stated, right))
    return [
        Product(name, *drawn[0], _factor(drawn)) for name, drawn in pairs.items() if name in wrong
    ]


def difference(
    subject: Subject, name: str, value: Array, direction: Array, row: Array, kinks: bool = True
) -> tuple[float, float]:
    """The derivative of row @ outputs along the direction, and an error bar: central differences,
    each step a quarter of the last, until they no longer settle. The bar contains one rounding of
    each output: a small argument of a large sum moves nothing. Without `kinks` it also contains
    half the gap of the slopes on both sides, unless that shrinks with the step."""
    best, bar, last, last_gap = np.nan, np.inf, np.nan, np.inf
    roundoff = FORMATS[subject.dtype].unit_roundoff
    (here,) = values_of(subject, [{name: value}], row.size)
    step = LONGEST
    while step >= SHORTEST:
        moved = [{name: value + s * direction} for s in (step, -step)]
        there, back = values_of(subject, moved, row.size)
        estimate = float(row @ (there - back)) / (2 * step)
        rounding = roundoff * float(np.abs(row) @ (np.abs(there) + np.abs(back))) / (2 * step)
        gap = abs(float(row @ (there - here - (here - back)))) / (2 * step)
        change = abs(estimate - last) + rounding + (0.0 if kinks or gap <= last_gap / 2 else gap)
        if change < bar:
            best, bar = estimate, change
        elif np.isfinite(bar):
            break
        last, last_gap, step = estimate, gap, step / 4
    return best, bar


def entry_by_mode(subject: Subject, traced: TracedEntry, mode: Mode) -> float | None:
    """The traced entry of the Jacobian as the framework computes it; None if it computes none."""
    if mode == "reverse":
        gradient = subject.run(Call(cotangents=traced.row[None])).row(0)[traced.leaf]
        return None if gradient is None else traced.of(gradient)
    pushed = subject.jvp(traced.tangent(subject.leaves))
    return None if pushed is None else float(traced.row @ pushed)


def entry_by_differences(subject: Subject, traced: TracedEntry) -> tuple[float, float]:
    """The traced entry of the Jacobian by finite differences, and an error bar."""
    leaf = next(leaf for leaf in subject.leaves if leaf.name == traced.leaf)
    size = scale_of(leaf.value)
    moved = size * traced.tangent(subject.leaves)[leaf.name]
    found, bar = difference(subject, leaf.name, leaf.value, moved, traced.row)
    return found / size, bar / size


def _factor(pairs: list[tuple[float, float]]) -> float | None:
    ratios = [stated / right for stated, right in pairs if right != 0]
    if len(ratios) < DRAWS or not np.all(np.isfinite(ratios)):
        return None
    spread = max(ratios) - min(ratios)
    if not spread <= SAME_FACTOR * abs(ratios[0] - 1):
        return None
    rounded = (float(f"{ratios[0]:.{digits}g}") for digits in range(1, 16))
    return next((short for short in rounded if abs(short - ratios[0]) <= spread), ratios[0])
