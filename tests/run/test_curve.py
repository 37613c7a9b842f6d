"""The V: truncation falls with the step, rounding rises, as theory says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.curve import curve_of

Read = Callable[[str], Spec]


def test_slopes_and_best_steps(spec: Read) -> None:
    curve = curve_of(spec("inputs: {x: 0.7}\nmodel: exp(sin(x))"), "float64")
    for line, order in zip(curve.lines, (1, 2), strict=True):
        steps = np.log10(line.steps)
        errors = np.log10([e or np.nan for e in line.errors])
        right = (steps > -3) & (steps < -1)  # truncation alone
        assert np.polyfit(steps[right], errors[right], 1)[0] == pytest.approx(order, abs=0.2)
        left = (steps < -9) & (steps > -15) & np.isfinite(errors)  # rounding alone
        assert np.polyfit(steps[left], errors[left], 1)[0] == pytest.approx(-1, abs=0.3)
        assert line.best is not None
        step, error = line.best
        # theory: eps^(1/(order + 1)) and eps^(order / (order + 1)), up to constants
        assert abs(np.log10(step / 2.0 ** (-52 / (order + 1)))) < 1.5
        assert abs(np.log10(error / 2.0 ** (-52 * order / (order + 1)))) < 2.5


def test_steps_have_the_size_of_the_input(spec: Read) -> None:
    curve = curve_of(spec("inputs: {x: [0.5, 3.0e+6]}\nmodel: sum(sin(x / 1.0e+6))"), "float32")
    central = curve.lines[1]
    assert central.steps[-1] == pytest.approx(1e6)
    assert central.usual[0] == 2.0 ** (round(-23 / 3 + np.log2(3e6)))
    assert central.best is not None
    assert central.best[1] <= min(e for e in (*central.errors, central.usual[1]) if e is not None)


def test_what_is_no_number_has_no_error(spec: Read) -> None:
    curve = curve_of(spec("inputs: {x: 1.0e+300}\nmodel: x**2"), "float64")
    assert {error for line in curve.lines for error in line.errors} == {None}
    assert [line.best for line in curve.lines] == [None, None]


def test_the_dtype_sets_the_bottom(spec: Read) -> None:
    text = "inputs:\n  x: [0.5, 2]\nmodel: tanh(x)"
    narrow, wide = (curve_of(spec(text), dtype).lines[1].best for dtype in ("float32", "float64"))
    assert narrow is not None
    assert wide is not None
    assert narrow[1] > 1e3 * wide[1]


def test_no_gradient_no_curve(spec: Read) -> None:
    with pytest.raises(UsageError, match="no gradient to compare with"):
        curve_of(spec("inputs: {x: 0}\nmodel: abs(x)"), "float64")
