"""Derivatives where their formulas have no value: at a division by zero, as in x / sqrt(x**2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.symbolic.formulas import OutOfTime, exact, time_limit
from gradcheck_cli.engines.symbolic.notation import NOTATIONS
from gradcheck_cli.engines.symbolic.stated import written_out

LIMIT_S = 2.0  # for both sides of one entry; SymPy may look for a limit for ever
_NEAR = 2.0**-60  # on this side or that; numbers of a spec lie much farther apart
_LONGEST = 60  # characters of a formula in a sentence


def limit_at(expression: Any, symbol: Any, point: Mapping[Any, float], value: Any) -> Any:
    """What a derivative of `value` by `symbol` tends to along `symbol`, as a number of mpmath.

    Where both sides have a limit and these differ, their mean, which is what a central difference
    tends to, and one of the generalised derivatives (Clarke, Optimization and Nonsmooth Analysis,
    1983). A side on which value or derivative are not real does not count.

    Raises Unsupported where there is no such number, or SymPy finds none in time.
    """
    import mpmath
    import sympy

    others = {s: exact(v) for s, v in point.items() if s != symbol}
    slope, height = (written_out(e).subs(others) for e in (expression, value))
    place = exact(point[symbol])
    found = []
    try:
        with time_limit(LIMIT_S):
            for side, sign in (("+", 1), ("-", -1)):
                if sympy.N(height.subs(symbol, place + sign * exact(_NEAR))).is_extended_real:
                    found.append(sympy.limit(slope, symbol, place, side))
    except (OutOfTime, NotImplementedError, ValueError, TypeError, ArithmeticError):
        found = []
    found = [limit for limit in found if limit.is_number and limit.is_extended_real]
    limit = sympy.Add(*found) / len(found) if found else sympy.nan
    if not limit.is_extended_real:
        text = NOTATIONS["text"].expression(written_out(expression))
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        raise Unsupported(
            f"the derivative with respect to `{symbol}`, {shown}, has no limit at this point"
        )
    return mpmath.mpf(str(sympy.N(limit, 40)).replace("oo", "inf"))
