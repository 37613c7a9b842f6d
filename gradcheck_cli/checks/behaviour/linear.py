"""Check that the backward is linear in the upstream gradient (GC607)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gradcheck_cli.checks.behaviour.baseline import Bars, Bench, Fault
from gradcheck_cli.domain.behaviour import OtherRun
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.large_arrays import parts
from gradcheck_cli.domain.thresholds import ROUNDING_GRAINS
from gradcheck_cli.engines.layer.subject import Call, CallResult
from gradcheck_cli.truth.numerics.noise import largest_of


def linear(bench: Bench) -> Iterator[Fault]:
    """The first violation of B(a v + b w) = a B(v) + b B(w)."""
    for check in (_of_zero, _of_multiples, _of_sums):
        faults = list(check(bench))
        if faults:
            yield faults[0]
            return


def _of_zero(bench: Bench) -> Iterator[Fault]:
    for name, value in not_zero(bench, bench.run(row=np.zeros(bench.size))):
        message = f"for an upstream gradient of zero the gradient of `{name}` is {value:.6g}"
        yield Fault(Codes.NONLINEAR_BACKWARD, message, name, other_run=OtherRun("zero"))


def not_zero(bench: Bench, ran: CallResult) -> Iterator[tuple[str, float]]:
    """The leaves with a nonzero gradient for an upstream gradient of zero, with one number of
    each."""
    for name in bench.leaves:
        gradient = bench.gradient(ran, name)
        usable = np.isfinite(bench.gradient(bench.first, name))
        off = usable & (gradient != 0)  # nan is not 0 either
        if np.any(off):
            yield name, float(gradient[off][0])


def factors(bench: Bench) -> tuple[float, float]:
    """Two factors for the upstream gradient, powers of two so that a linear backward returns the
    same digits: one negative and as large as loss scaling, one as small as the mean of a large
    batch. They are smaller in half precision, for its range."""
    large = 2.0**10 if FORMATS[bench.subject.dtype].max_exponent > 100 else 2.0**4
    return -large, 1 / large


def _of_multiples(bench: Bench) -> Iterator[Fault]:
    for factor in factors(bench):
        scaled = times(bench.first, factor, FORMATS[bench.subject.dtype].largest)
        ran = bench.run(row=factor * bench.row)

        def bars(factor: float = factor) -> Bars:
            return widened(bench.bars, factor)

        tight = widened(bench.tight_bars, factor)
        apart = bench.differ(scaled, ran, bars=bars, tight=tight)
        if apart is not None:
            expected, given = apart.two_numbers()
            what = f"{factor:g} times the upstream gradient"
            message = f"for {what} the gradient of `{apart.leaf}` is {given}, not {expected}"
            other = OtherRun("multiple", factor=factor)
            yield apart.fault(Codes.NONLINEAR_BACKWARD, message, other)


def widened(bars: Bars, factor: float) -> Bars:
    """The tolerances for gradients multiplied by `factor`."""
    return Bars(bars.output, {name: abs(factor) * bar for name, bar in bars.gradients.items()})


def _of_sums(bench: Bench) -> Iterator[Fault]:
    both = bench.row + bench.second_row
    second, ran = bench.run(row=bench.second_row), bench.run(row=both)
    total = bench.added(bench.first, second)
    # each of the three runs has its own tolerance; at first, one of them is used for all
    tight = bench.tight_bars_of(second)
    apart = bench.differ(
        total,
        ran,
        bars=lambda: sum_of([bench.bars] * 3, tight),
        tight=sum_of([bench.tight_bars] * 3, tight),
    )
    if apart is not None:
        # two large rows may cancel, but their rounding errors do not
        shares = [
            bench.bars_of(second, Call(), bench.second_row),
            bench.bars_of(ran, Call(), both),
            bench.bars,
        ]
        apart = bench.difference(total, ran, bars=sum_of(shares, _grains(bench)))
    if apart is not None:
        expected, given = apart.two_numbers()
        message = (
            f"for the sum of two upstream gradients the gradient of `{apart.leaf}` is {given}; "
            f"the two gradients add up to {expected}"
        )
        yield apart.fault(Codes.NONLINEAR_BACKWARD, message, OtherRun("sum"))


def sum_of(shares: Sequence[Bars], more: Bars) -> Bars:
    """The tolerances for a sum of gradients from several runs."""
    gradients = {
        name: sum((one.gradients[name] for one in shares), bar)
        for name, bar in more.gradients.items()
    }
    return Bars(shares[-1].output, gradients)


def _grains(bench: Bench) -> Bars:
    """The rounding error of upstream gradients that cancel, for a derivative that changes the
    output as a whole. Small moves do not show it, because g - g * p changes in steps."""
    largest = max(largest_of(row) for row in (bench.row, bench.second_row))
    digits = ROUNDING_GRAINS * bench.half**2 * largest * largest_of(bench.first.output)
    gradients = {
        name: digits / (largest_of(leaf.kept) or 1.0) for name, leaf in bench.leaves.items()
    }
    return Bars(bench.bars.output, gradients)


def times(ran: CallResult, factor: float, largest: float) -> CallResult:
    """The run with its gradients times a factor; entries that overflow are inf and not compared."""
    scaled = {n: g if g is None else factor * g for n, g in ran.gradients.items()}
    for gradient in scaled.values():
        flat = np.zeros(0) if gradient is None else gradient.reshape(-1)
        for inside in parts(flat.size):
            part = flat[inside]
            part[~(np.abs(part) < largest)] = np.inf
    return CallResult(ran.output, scaled)
