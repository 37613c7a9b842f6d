"""Square roots, norms, variances and distances.

Sources: Herbie, core/rules.rkt (rem-sqrt-square, hypot); Higham, Accuracy and stability of
numerical algorithms, 1.9 and 27.8; JAX FAQ, gradients contain NaN where using where.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradcheck_cli.domain.program import CONSTANT
from gradcheck_cli.domain.thresholds import Residue
from gradcheck_cli.explain.algebra.expressions import Expr
from gradcheck_cli.explain.rewrites.rule import Rewrite, Site, by_hand, rule

RECIPROCAL: Residue = 1e-6  # tolerance of n * (1 / n), if 1 / n is written with seven digits
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
            if axis is None:  # one number, without axes
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
def scaled_root_of_powers(site: Site) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """sum(abs(x) ** p) ** (1 / p) -> m * sum((abs(x) / m) ** p) ** (1 / p), m as above"""
    call, shop = site.call, site.workshop
    for power in ("y) ** (1 / y)", "n) ** k"):
        for fit in site.fits(f"sum(abs(x) ** {power[0]}, axis=A, keepdims=B{power[1:]}"):
            given = fit.bindings
            x, axis, keep = shop.expr(given["x"]), given["A"], given["B"]
            if x.shape == () or (
                "n" in given and abs(given["n"].value * given["k"].value - 1) > RECIPROCAL
            ):
                continue
            size = call("abs", x)
            inner = call("stop_gradient", call("max", size, axis=axis, keepdims=True))
            outer = call("stop_gradient", call("max", size, axis=axis, keepdims=keep))
            exponent = shop.expr(given["n" if "n" in given else "y"])
            parts = call("power", shop.divide(size, inner), exponent)
            total = call("sum", parts, axis=axis, keepdims=keep)
            root = call("power", total, shop.divide(shop.number(1), exponent))
            stated = (call("greater", inner, shop.number(0)),)
            yield site.fitted(shop.multiply(outer, root), fit), stated


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


@by_hand()
def spread_by_sums(site: Site) -> Iterator[Expr]:
    """sum(x ** 2) - sum(x) ** 2 / n -> sum((x - mean(x)) ** 2)"""
    text = "sum(x ** 2, axis=A, keepdims=B) - c * sum(x, axis=A, keepdims=B) ** 2"
    for fit in site.fits(text):
        x, axis = site.workshop.expr(fit.bindings["x"]), fit.bindings["A"]
        mean = site.call("mean", x, axis=axis, keepdims=True)
        count = math.prod(x.shape) / math.prod(mean.shape)
        if abs(fit.bindings["c"].value * count - 1) > RECIPROCAL:
            continue
        shop = site.workshop
        squares = shop.power(shop.subtract(x, mean), 2)
        total = site.call("sum", squares, axis=axis, keepdims=fit.bindings["B"])
        yield site.fitted(total, fit)


@by_hand()
def product_by_sums(site: Site) -> Iterator[Expr]:
    """sum(x * y) - sum(x) * sum(y) / n -> sum((x - mean(x)) * (y - mean(y)))"""
    parts = [f"sum({of}, axis=A, keepdims=B)" for of in ("x * y", "x", "y")]
    for fit in site.fits("{} - c * {} * {}".format(*parts)):
        x, y = (site.workshop.expr(fit.bindings[name]) for name in "xy")
        axis, call, shop = fit.bindings["A"], site.call, site.workshop
        if x.shape != y.shape:
            continue
        means = [call("mean", one, axis=axis, keepdims=True) for one in (x, y)]
        count = math.prod(x.shape) / math.prod(means[0].shape)
        if abs(fit.bindings["c"].value * count - 1) > RECIPROCAL:
            continue
        apart = (shop.subtract(one, mean) for one, mean in zip((x, y), means, strict=True))
        product = shop.multiply(*apart)
        yield site.fitted(call("sum", product, axis=axis, keepdims=fit.bindings["B"]), fit)


@by_hand()
def halves(site: Site) -> Iterator[Expr]:
    """(a + b) / 2 -> a / 2 + b / 2"""
    expr, shop = site.expr, site.workshop
    if expr.op == "divide" and expr.args[0].op == "add" and expr.args[1].op == CONSTANT:
        by = expr.args[1]
        yield shop.add(*(shop.divide(part, by) for part in expr.args[0].args))


def _scaled(names: str) -> Rewrite:
    """The rule for the root of a few squares, scaled by the largest."""
    largest = f"abs({names[0]})"
    for name in names[1:]:
        largest = f"maximum({largest}, abs({name}))"
    m = f"stop_gradient({largest})"
    squares = " + ".join(f"({name} / {m}) ** 2" for name in names)
    old = " + ".join(f"{name} ** 2" for name in names)
    parts = " + ".join(f"({name} / m) ** 2" for name in names)
    text = f"sqrt({old}) -> m * sqrt({parts}), m = stop_gradient(the largest)"
    return rule(f"sqrt({old})", f"{m} * sqrt({squares})", f"{largest} > 0", text=text)


_LENGTHS = (
    "(norm(a) * norm(b))",
    "(sqrt(sum(a ** 2)) * sqrt(sum(b ** 2)))",
    "sqrt(sum(a ** 2) * sum(b ** 2))",
)

_A, _B = (f"where(norm({name}) > 0, {name}, 1)" for name in "ab")
_SAFE_COSINE = (
    f"where((norm(a) > 0) & (norm(b) > 0), sum({_A} * {_B}) / (norm({_A}) * norm({_B})), 0)"
)

RULES: tuple[Rewrite, ...] = (
    rule("sqrt(x ** 2)", "abs(x)"),
    rule("abs(x ** 2)", "x ** 2"),
    rule("sqrt(a ** 2 + b ** 2)", "hypot(a, b)"),
    rule("sqrt(1 + x ** 2)", "hypot(1, x)"),
    rule("sqrt(sum(x ** 2, **K))", "norm(x, **K)"),
    scaled_root_of_squares,
    scaled_root_of_powers,
    rule("(a ** 2 + b ** 2) / e ** 2", "(a / e) ** 2 + (b / e) ** 2"),
    rule("a + b - 2 * sqrt(a * b)", "((a - b) / (sqrt(a) + sqrt(b))) ** 2", "a > 0", "b > 0"),
    rule(
        "mean(x ** 2, axis=A, keepdims=B) - mean(x, axis=A, keepdims=B) ** 2",
        "mean((x - mean(x, axis=A, keepdims=True)) ** 2, axis=A, keepdims=B)",
    ),
    rule("sum(a ** 2, **K) + sum(b ** 2, **K) - 2 * sum(a * b, **K)", "sum((a - b) ** 2, **K)"),
    rule("sqrt(relu(x))", _SAFE_ROOT, kink="0 where x <= 0"),
    rule("sqrt(x)", _SAFE_ROOT, "x >= 0", kink="0 where x == 0", broad=True),
    rule("x ** 2 / y ** 2", "(x / y) ** 2"),
    rule("sum(x, **K) / c", "sum(x / c, **K)"),
    rule("sum(x, **K) / y", "sum(x / y, **K)"),
    rule("sum(x ** 2, **K) / c", "sum(x * (x / c), **K)"),
    mean_of_squares,
    rule("acos(cos(x))", "abs(x)", "abs(x) <= 3.14159"),
    rule(
        "acos(a / sqrt(a ** 2 + b ** 2 + e ** 2))", "atan2(hypot(b, e), a)", "(b != 0) | (e != 0)"
    ),
    rule("acos(a / sqrt(a ** 2 + b ** 2))", "atan2(abs(b), a)", "b != 0"),
    rule("norm(x, ord=2, axis=A, keepdims=B) ** 2", "sum(x ** 2, axis=A, keepdims=B)"),
    *(
        rule(
            f"acos(sum(a * b) / {lengths})",
            "2 * atan2(norm(a / norm(a) - b / norm(b)), norm(a / norm(a) + b / norm(b)))",
        )
        for lengths in _LENGTHS
    ),
    *(
        rule(f"1 - sum(a * b) / {lengths}", "sum((a / norm(a) - b / norm(b)) ** 2) / 2")
        for lengths in _LENGTHS
    ),
    *(
        rule(
            f"{product} / {lengths}",
            _SAFE_COSINE,
            kink="0 where norm(a) * norm(b) == 0",
            text=f"{product} / {lengths} -> the same in a double where, 0 where a or b is 0",
        )
        for product in ("sum(a * b)", "dot(a, b)")
        for lengths in _LENGTHS
    ),
    rule("sqrt(a ** 2 + b ** 2 + e ** 2)", "hypot(hypot(a, b), e)"),
    _scaled("ab"),
    _scaled("abe"),
    rule("x / (1 + x ** 2)", "x / hypot(1, x) / hypot(1, x)"),
    rule("x / (a ** 2 + b ** 2)", "x / hypot(a, b) / hypot(a, b)"),
    rule("x ** 2 / (1 + x ** 2)", "(x / hypot(1, x)) ** 2"),
    rule("asin(a / sqrt(a ** 2 + b ** 2))", "atan2(a, abs(b))", "b != 0"),
    rule("atan(a / b)", "atan2(a, b)", "b > 0"),
    rule("sqrt(a * b)", "sqrt(a) * sqrt(b)", "a > 0", "b > 0", broad=True),
    rule("x * y / z", "x / z * y", broad=True),
    rule("a * b / (x * y)", "a / x * (b / y)", broad=True),
    rule("1 / (1 / x + 1 / y)", "x * y / (x + y)"),
    rule("1 / (1 + 1 / x)", "x / (1 + x)"),
    rule(
        "mean(x * y, axis=A, keepdims=B)"
        " - mean(x, axis=A, keepdims=B) * mean(y, axis=A, keepdims=B)",
        "mean((x - mean(x, axis=A, keepdims=True)) * (y - mean(y, axis=A, keepdims=True)),"
        " axis=A, keepdims=B)",
    ),
    rule("dot(a, a) + dot(b, b) - 2 * dot(a, b)", "sum((a - b) ** 2)"),
    spread_by_sums,
    product_by_sums,
    halves,
)
