"""The rules of the tails of the normal distribution (see `rules`): functions that do not overflow
where the distribution function and its density underflow."""

from __future__ import annotations

import numpy as np
import scipy.special

from gradcheck_cli.search.enclosures.enclosed import Bounds, Enclosed, Rounding, up
from gradcheck_cli.search.enclosures.function_rules import error_of, library, steady
from gradcheck_cli.search.enclosures.rules import rule
from reference_engine.traced import ROWS

_SCIPY = 2.0**-44
"""Relative. SciPy's functions here are right to some ulps of float64, and to x^2 of them where x^2
is rounded on the way."""
_LEAST = 1e-300  # absolute: what they lose by underflow


def _widened(lo: Bounds, hi: Bounds, far: Bounds) -> tuple[Bounds, Bounds]:
    """The range of a SciPy function whose argument has at most the size `far`."""
    slop = _SCIPY * (1 + np.square(far))
    return lo - np.abs(lo) * slop - _LEAST, hi + np.abs(hi) * slop + _LEAST


@rule("erfcx")
def _erfcx(rounding: Rounding, x: Enclosed) -> Enclosed:
    """It decreases. Its logarithm has the slope 2 x - 2 / (sqrt(pi) erfcx(x)), which increases to
    0. Below 0 it is computed as 2 exp(x^2) minus something small."""
    e, below = error_of(x), np.minimum(x.lo, 0)
    low = x.lo - e
    slope = 2 / np.sqrt(np.pi) / scipy.special.erfcx(low) - 2 * low
    steepest = np.where(low > 1e4, 1e-4, slope)  # 1 / x, where its two parts cancel
    own = 4 * rounding.library + 8 * rounding.unit * np.square(below)
    d = up(np.expm1(up(e * steepest) + own))
    ends = scipy.special.erfcx(x.hi), scipy.special.erfcx(x.lo)
    d = np.where(np.isnan(d), np.inf, d)
    return library(rounding, x, _widened(*ends, below), d, np.zeros(d.shape), within=(0.0, np.inf))


@rule("normal_hazard")
def _normal_hazard(rounding: Rounding, x: Enclosed) -> Enclosed:
    """It decreases from -x to 0. Its logarithm has the slope -(x + h), whose size increases."""
    e = error_of(x)
    steepest = ROWS["normal_excess"].raw(x.hi + e)
    own = 4 * rounding.library + 8 * rounding.unit * np.square(x.most)
    d = up(np.expm1(up(np.where(e == 0, 0.0, e * steepest)) + own))
    ends = ROWS["normal_hazard"].raw(x.hi), ROWS["normal_hazard"].raw(x.lo)
    d = np.where(np.isnan(d), np.inf, d)
    ends, zero = _widened(*ends, x.most), np.zeros(d.shape)
    return library(rounding, x, ends, d, zero, within=(0.0, np.inf))


@rule("normal_excess")
def _normal_excess(rounding: Rounding, x: Enclosed) -> Enclosed:
    """It increases from 1 / |x| to x, with slope 1 at most."""
    ends = ROWS["normal_excess"].raw(x.lo), ROWS["normal_excess"].raw(x.hi)
    own = 4 * rounding.library + 8 * rounding.unit * np.square(x.most)
    d, a = up(np.broadcast_to(own, x.lo.shape)), up(error_of(x))
    return library(rounding, x, _widened(*ends, x.most), d, a, within=(0.0, np.inf))


@rule("log_ndtr")
def _log_ndtr(rounding: Rounding, x: Enclosed) -> Enclosed:
    """It increases, with slope `normal_hazard`, which decreases. It is computed as log1p(-erfc(x /
    sqrt(2)) / 2), or as log(erfcx(-x / sqrt(2)) / 2) - x^2 / 2 where both parts are below 0. erfc
    loses x^2 ulps."""
    e, far = error_of(x), np.maximum(x.hi, 0)
    ends = scipy.special.log_ndtr(x.lo), scipy.special.log_ndtr(x.hi)
    a = up(np.where(e == 0, 0.0, e * ROWS["normal_hazard"].raw(x.lo - e)))
    d = up(4 * rounding.library + 8 * rounding.unit * np.square(far))
    a, least = np.where(np.isnan(a), np.inf, a), steady(rounding)
    ends = _widened(*ends, x.most)
    return library(rounding, x, ends, d, a, within=(-np.inf, 0.0), least=least)
