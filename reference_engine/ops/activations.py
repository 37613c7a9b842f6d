"""Activation functions of neural networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reference_engine.arithmetic.constants import SELU_LEFT, SELU_SCALE, TWO_SQRT_2_OVER_PI, decimal
from reference_engine.floats import in_float32
from reference_engine.op import Op, Point, composite, in_both, row
from reference_engine.ops.exponential import exp, sigmoid, softplus, tanh
from reference_engine.ops.selection import clip, greater, greater_equal, less, logical_and, where
from reference_engine.ops.special import ndtr
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

log_sigmoid: Op = row(
    "log_sigmoid",
    in_float32(lambda x: -np.logaddexp(-x, 0)),
    Elementwise(lambda g, y, x: g * sigmoid(-x)),
    aliases=("logsigmoid",),
).says(
    "log(1 / (1 + exp(-x))), as -logaddexp(-x, 0)",
    "sigmoid(-x)",
    stability="the logarithm is never taken of a rounded sigmoid, nor 1 - sigmoid(x) formed",
)


def _on_the_right(x: Value, left: float) -> Value:
    """Where the branch of slope 1 counts. At 0, the branch with the smaller slope counts."""
    return greater(x, 0) if left <= 1 else greater_equal(x, 0)


def _leaky_relu_part(g: Value, y: Value, x: Value, negative_slope: float = 0.01) -> Value:
    return where(_on_the_right(x, negative_slope), g, negative_slope * g)


LEAST = "the smaller of the two slopes"

row(
    "leaky_relu",
    in_float32(lambda x, *, negative_slope=0.01: np.where(x > 0, x, negative_slope * x)),
    Elementwise(_leaky_relu_part),
    points=(
        Point("x = 0", "kink", (0.0,), (0.01,)).because(LEAST, jax=(1.0,)),
        Point("x < 0", "limit", (-1.0,), (0.01,)).because(
            "tf.nn.leaky_relu rounds its slope to float32 in every dtype",
            tensorflow=(float(np.float32(0.01)),),
        ),
    ),
    kinks_at=lambda x, negative_slope=0.01: np.equal(x, 0) & (negative_slope != 1),
).says(
    "x where x > 0, else negative_slope x",
    "1 where x > 0, else negative_slope",
    source="Maas, Hannun, Ng, Rectifier nonlinearities improve acoustic models (ICML 2013)",
)


@in_float32
def _elu_value(x: Any, *, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _elu_part(g: Value, y: Value, x: Value, alpha: float = 1.0) -> Value:
    right = _on_the_right(x, alpha)
    return where(right, g, g * (alpha * exp(where(right, 0.0, x))))


ANEW = "exp(x) is taken anew: y + alpha would lose every digit where y is close to -alpha"

REBUILT = "TensorFlow and JAX take y + alpha for the derivative"

elu: Op = row(
    "elu",
    _elu_value,
    Elementwise(_elu_part),
    points=(
        Point("x = 0, alpha > 1", "kink", (0.0,), (1.0,), {"alpha": 2.0}).because(
            f"{LEAST}; that of x < 0 in all others", frameworks=(2.0,)
        ),
        Point("x = 0, alpha < 1", "kink", (0.0,), (0.5,), {"alpha": 0.5}).because(LEAST),
        *in_both(
            Point("x far below 0", "limit", (-40.0,), (math.exp(-40),)).because(
                REBUILT, tensorflow=(0.0,), jax=(0.0,)
            )
        ),
    ),
    kinks_at=lambda x, alpha=1.0: np.equal(x, 0) & (alpha != 1),
).says(
    "x where x > 0, else alpha (exp(x) - 1)",
    "1 where x > 0, else alpha exp(x)",
    stability=ANEW,
    source="Clevert, Unterthiner, Hochreiter, Fast and accurate deep network learning by "
    "exponential linear units (ICLR 2016)",
)


@in_float32
def _selu_value(x: Any) -> Any:
    left = SELU_LEFT * np.expm1(np.minimum(x, 0))
    return np.where(x > 0, SELU_SCALE * x, left)


def _selu_part(g: Value, y: Value, x: Value) -> Value:
    right = greater_equal(x, 0)
    left = g * (SELU_LEFT * exp(where(right, 0.0, x)))
    return where(right, SELU_SCALE * g, left)


selu: Op = row(
    "selu",
    _selu_value,
    Elementwise(_selu_part),
    points=(
        Point("x = 0", "kink", (0.0,), (float(SELU_SCALE),)).because(
            LEAST, torch=(float(SELU_LEFT),), jax=(float(SELU_LEFT),)
        ),
        *in_both(
            Point("x far below 0", "limit", (-40.0,), (SELU_LEFT * math.exp(-40),)).because(
                REBUILT, tensorflow=(0.0,), jax=(0.0,)
            )
        ),
        Point("x just below 0", "limit", (-1e-300,), (float(SELU_LEFT),)).because(
            "exp(x) - 1 is 0 there in TensorFlow, which looks at the sign of y",
            tensorflow=(float(SELU_SCALE),),
        ),
    ),
    kinks_at=lambda x: np.equal(x, 0),
).says(
    "1.0507... (x where x > 0, else 1.6732... (exp(x) - 1))",
    "1.0507... (1 where x > 0, else 1.6732... exp(x))",
    stability=ANEW,
    source="Klambauer et al., Self-normalizing neural networks (NIPS 2017)",
)

GELU_CUBIC = decimal("0.044715")
FAR = 64.0  # beyond it the cubic's sigmoid is 0 or 1 in every format, and its derivative 0


def _gelu(x: Value, *, approximate: bool = False) -> Value:
    if not approximate:
        return x * ndtr(x)
    t = clip(x, min=-FAR, max=FAR)
    return x * sigmoid(TWO_SQRT_2_OVER_PI * (t * (1 + GELU_CUBIC * (t * t))))


_FAR = {"approximate": True}
_LEFT = "their 1 + tanh(u) is 0 there"
GELU_TAILS = (
    Point("x far below 0", "limit", (-12.0,), (-2.557895661674896e-31,)).because(
        "PyTorch's 1 + erf(x / sqrt(2)) is 0 there, and x phi(x) is left",
        torch=(-2.5756604827956727e-31,),
    ),
    *in_both(
        Point(
            "x far below 0, approximate", "limit", (-8.0,), (-4.7147845041068456e-20,), _FAR
        ).because(_LEFT, frameworks=(0.0,))
    ),
    *(
        Point(f"x {side}, approximate", "limit", (x,), (slope,), _FAR).because(
            "their x^3 overflows, and 0 * inf is nan", frameworks=(np.nan,)
        )
        for side, x, slope in (("huge", 1e300, 1.0), ("hugely negative", -1e300, 0.0))
    ),
    Point("every x, in float64", "limit", (1.0,), (1.0833154705876864,)).because(
        "tf.nn.gelu rounds its constants to float32 in every dtype",
        tensorflow=(1.0833154664465336,),
    ),
)

gelu: Op = composite("gelu", _gelu, points=GELU_TAILS).says(
    "x ndtr(x), ndtr the normal distribution function; if approximate, "
    "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2",
    "ndtr(x) + x exp(-x^2 / 2) / sqrt(2 pi); if approximate, that of the formula",
    stability="ndtr and not (1 + erf(x / sqrt(2))) / 2, sigmoid(2 u) and not (1 + tanh(u)) / 2:"
    " a 1 to which something is added loses the digits of the left tail",
    source="Hendrycks, Gimpel, Gaussian error linear units (2016)",
)

composite("silu", lambda x: x * sigmoid(x), aliases=("swish",)).says(
    "x sigmoid(x)",
    "sigmoid(x) + x sigmoid(x) sigmoid(-x)",
    stability="sigmoid(x) sigmoid(-x) and not sigmoid(x) (1 - sigmoid(x))",
    source="Elfwing, Uchibe, Doya, Sigmoid-weighted linear units (2018)",
)

mish: Op = composite("mish", lambda x: x * tanh(softplus(x))).says(
    "x tanh(softplus(x))",
    "tanh(s) + x sech(s)^2 sigmoid(x) with s = softplus(x)",
    stability="sech(s)^2 and not 1 - tanh(s)^2, which is 0 where s is large",
    source="Misra, Mish: a self regularized non-monotonic activation function (BMVC 2020)",
)


def _hardtanh_value(x: Any, *, min: float = -1.0, max: float = 1.0) -> Any:
    if min > max:
        raise ValueError(f"min is {min:g}, which is more than max, {max:g}")
    return clip.raw(x, min=min, max=max)


def _hardtanh_part(g: Value, y: Value, x: Value, min: float = -1.0, max: float = 1.0) -> Value:
    return where(logical_and(greater(x, min), less(x, max)), g, 0.0)


hardtanh: Op = row(
    "hardtanh",
    _hardtanh_value,
    Elementwise(_hardtanh_part),
    aliases=("hard_tanh",),
    rounding="none",
    points=(
        *(
            Point(f"x = {bound}", "kink", (x,), (0.0,)).because(
                "0 is the least subgradient; tf.clip_by_value has 1, jnp.clip the mean",
                tensorflow=(1.0,),
                jax=(0.5,),
            )
            for bound, x in (("min", -1.0), ("max", 1.0))
        ),
    ),
    kinks_at=lambda x, min=-1.0, max=1.0: np.equal(x, min) | np.equal(x, max),
).says(
    "min(max(x, min), max)",
    "1 where min < x < max, else 0",
    source="Collobert, Large scale machine learning (2004); torch.nn.Hardtanh",
)

composite(
    "relu6",
    lambda x: hardtanh(x, min=0.0, max=6.0),
    rounding="none",
    points=tuple(Point(f"x = {bound:g}", "kink", (bound,), (0.0,)) for bound in (0.0, 6.0)),
    kinks_at=lambda x: np.equal(x, 0) | np.equal(x, 6),
).says(
    "min(max(x, 0), 6)",
    "1 where 0 < x < 6, else 0",
    source="Howard et al., MobileNets (2017); torch.nn.ReLU6",
)


def _softsign_part(g: Value, y: Value, x: Value) -> Value:
    d = 1 + abs(x)
    return g / d / d


row(
    "softsign",
    in_float32(lambda x: x / (1 + np.abs(x))),
    Elementwise(_softsign_part),
    points=in_both(
        Point("|x| large", "limit", (2.0**60,), (2.0**-120,)).because(
            "PyTorch and JAX take the quotient rule, in which the two terms cancel",
            torch=(0.0,),
            jax=(0.0,),
        )
    ),
).says(
    "x / (1 + |x|)",
    "1 / (1 + |x|)^2",
    stability="divided twice, so that no square overflows; the quotient rule would subtract "
    "two nearly equal terms far out",
    source="Bergstra et al., Quadratic polynomials learn better image features (2009)",
)
