"""Square roots, norms, variances and distances.

Sources: Herbie, core/rules.rkt (rem-sqrt-square, hypot); Higham, Accuracy and stability of
numerical algorithms, 1.9 and 27.8; JAX FAQ, gradients contain NaN where using where.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.explain.algebra.expressions import Expr
from gradcheck_cli.explain.rewrites.rule import Rewrite, Site, by_hand, rule

_SAFE_ROOT = "where(x > 0, sqrt(where(x > 0, x, 1)), 0)"


@by_hand()
def scaled_root_of_squares(site: Site) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """sqrt(sum(x ** 2)) -> m * sqrt(sum((x / m) ** 2)), m = stop_gradient(max(abs(x)))"""
    for text in ("sqrt(sum(x ** 2, axis=A, keepdims=B))", "norm(x, ord=2, axis=A, keepdims=B)"):
        for fit in site.fits(text):
            x, axis = site.workshop.expr(fit.bindings["x"]), fit.bindings["A"]
            call, shop = site.call, site.workshop
            if x.shape == ():
                continue
            largest = call("max", call("abs", x), axis=axis, keepdims=True)
            m = call("stop_gradient", largest)
            if axis is None:  # one number: no need to keep the axes
                m = call("stop_gradient", call("max", call("abs", x)))
            inside = shop.power(shop.divide(x, m), 2)
            root = call("sqrt", call("sum", inside, axis=axis, keepdims=fit.bindings["B"]))
            outer = m
            if axis is not None and not fit.bindings["B"]:
                outer = call("stop_gradient", call("max", call("abs", x), axis=axis))
            yield (
                site.fitted(shop.multiply(outer, root), fit),
                (call("greater", m, shop.number(0)),),
            )


@by_hand()
def mean_of_squares(site: Site) -> Iterator[Expr]:
    """mean(x ** 2) -> sum(x * (x / n)), which overflows only where the mean does."""
    for fit in site.fits("mean(x ** 2, axis=A, keepdims=B)"):
        x, axis = site.workshop.expr(fit.bindings["x"]), fit.bindings["A"]
        count = 1
        axes = range(len(x.shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        for one in axes:
            count *= x.shape[one]
        shop = site.workshop
        small = shop.multiply(x, site.call("divide", x, shop.number(count)))
        yield site.fitted(site.call("sum", small, axis=axis, keepdims=fit.bindings["B"]), fit)


RULES: tuple[Rewrite, ...] = (
    rule("sqrt(x ** 2)", "abs(x)"),
    rule("abs(x ** 2)", "x ** 2"),
    rule("sqrt(a ** 2 + b ** 2)", "hypot(a, b)"),
    rule("sqrt(1 + x ** 2)", "hypot(1, x)"),
    rule("sqrt(sum(x ** 2, **K))", "norm(x, **K)"),
    scaled_root_of_squares,
    rule("norm(x, ord=2, **K) ** 2", "sum(x ** 2, **K)", kink="0 where x = 0"),
    rule(
        "mean(x ** 2, axis=A, keepdims=B) - mean(x, axis=A, keepdims=B) ** 2",
        "mean((x - mean(x, axis=A, keepdims=True)) ** 2, axis=A, keepdims=B)",
    ),
    rule(
        "sum(a ** 2, **K) + sum(b ** 2, **K) - 2 * sum(a * b, **K)",
        "sum((a - b) ** 2, **K)",
    ),
    rule("sqrt(relu(x))", _SAFE_ROOT, kink="0 where x <= 0"),
    rule("sqrt(x)", _SAFE_ROOT, "x >= 0", kink="0 where x = 0", last=True),
    rule("x ** 2 / y ** 2", "(x / y) ** 2"),
    rule("sum(x, **K) / c", "sum(x / c, **K)"),
    rule("sum(x, **K) / y", "sum(x / y, **K)"),
    rule("sum(x ** 2, **K) / c", "sum(x * (x / c), **K)"),
    mean_of_squares,
    rule("acos(cos(x))", "abs(x)", "abs(x) <= 3.14159"),
    rule("acos(a / sqrt(a ** 2 + b ** 2))", "atan2(abs(b), a)", "b != 0"),
    rule(
        "acos(sum(a * b) / (norm(a) * norm(b)))",
        "2 * atan2(norm(a / norm(a) - b / norm(b)), norm(a / norm(a) + b / norm(b)))",
    ),
    rule("acos(x)", "2 * atan2(sqrt(1 - x), sqrt(1 + x))", "abs(x) < 1"),
)
