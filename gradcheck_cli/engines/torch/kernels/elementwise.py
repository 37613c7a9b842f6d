"""Kernels that work element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.torch.kernels.names import RENAMED, SAME_NAME
from gradcheck_cli.engines.trace import exact_kernels as exact
from gradcheck_cli.engines.trace.exact_kernels import Kernel, row


def scaled(x: Any, alpha: Any) -> Any:
    return x if alpha == 1 else x * alpha


def _arithmetic(name: str) -> Kernel:
    """A row of two numbers, in which a mask counts as a number too."""
    return lambda a, b: row(name)(exact.as_floating(a), exact.as_floating(b))


def _div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    quotient = row("divide")(a, b)
    if rounding_mode is None:
        return quotient
    return row("floor")(quotient) if rounding_mode == "floor" else exact.towards_zero(quotient)


def _round(x: Any, decimals: int = 0) -> Any:
    if decimals == 0:
        return row("round")(x)
    power = 10 ** abs(decimals)
    return row("round")(x * power) / power if decimals > 0 else row("round")(x / power) * power


def _softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    """Softplus. Beyond the threshold it returns x itself, as PyTorch documents."""
    scaled = x * beta
    return row("where")(row("greater")(scaled, float(threshold)), x, row("softplus")(scaled) / beta)


def _elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    return row("elu")(x * input_scale, alpha=float(alpha)) * scale


def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return row("where")(mask, float(value) if isinstance(value, int) else value, x)


def _filled(x: Any, value: Any) -> Any:
    value = float(value) if isinstance(value, (int, float)) else value
    return row("where")(np.ones(x.shape, np.bool_), value, x)


def _cast(x: Any, *how: Any, dtype: Any = None, **more: Any) -> Any:
    """A cast. A real number that becomes complex gives a pair."""
    x = exact.as_floating(x)
    if "complex" in str(dtype):
        return row("stack")(x, np.zeros(x.shape), axis=-1)
    return x


def _is_nan(x: Any) -> Any:
    """A symbolic mask if the program must hold for other numbers too; otherwise the mask of the
    run."""
    return row("not_equal")(x, x) if exact.is_general(x) else (None,)


def _log_sigmoid(x: Any) -> Any:
    """The value, and exp(-|x|), which the kernel of the derivative takes."""
    return exact.stable_log_sigmoid(x), row("exp")(-row("abs")(x))


def _glu(x: Any, dim: int = -1) -> Any:
    half = x.shape[dim] // 2
    before = (slice(None),) * (dim % x.ndim)
    gate = row("getitem")(x, index=(*before, slice(half, None)))
    return row("getitem")(x, index=(*before, slice(0, half))) * row("sigmoid")(gate)


def _threshold(x: Any, threshold: float, value: float) -> Any:
    return row("where")(row("greater")(x, float(threshold)), x, float(value))


def _soft_shrink(x: Any, lambd: float = 0.5) -> Any:
    below = row("where")(row("less")(x, -float(lambd)), x + lambd, 0.0)
    return row("where")(row("greater")(x, float(lambd)), x - lambd, below)


def _hard_shrink(x: Any, lambd: float = 0.5) -> Any:
    below = row("where")(row("less")(x, -float(lambd)), x, 0.0)
    return row("where")(row("greater")(x, float(lambd)), x, below)


ELEMENTWISE: dict[str, Kernel] = {
    **{name: row(name) for name in SAME_NAME},
    **{name: row(ours) for name, ours in RENAMED.items()},
    "mul": _arithmetic("multiply"),
    "add": lambda a, b, alpha=1: _arithmetic("add")(a, scaled(b, alpha)),
    "sub": lambda a, b, alpha=1: row("subtract")(a, scaled(b, alpha)),
    "rsub": lambda a, b, alpha=1: row("subtract")(b, scaled(a, alpha)),
    **{"div": _div, "fmod": exact.rest_of_quotient},
    **{"round": _round, "trunc": exact.towards_zero, "clamp": exact.clamped},
    "clamp_min": lambda x, min: exact.clamped(x, min),
    "clamp_max": lambda x, max: exact.clamped(x, None, max),
    **dict.fromkeys(("_to_copy", "to"), _cast),
    "fill": _filled,
    "polygamma": lambda n, x: row("polygamma")(x, n=n),
    "softplus": _softplus,
    "elu": _elu,
    "celu": lambda x, alpha=1: alpha * row("elu")(x / alpha, alpha=1.0),
    "hardsigmoid": lambda x: row("relu6")(x + 3) / 6,
    "hardswish": lambda x: x * row("relu6")(x + 3) / 6,
    **{"glu": _glu, "threshold": _threshold},
    "_prelu_kernel": lambda x, weight: row("where")(row("greater")(x, 0.0), x, weight * x),
    **{"softshrink": _soft_shrink, "hardshrink": _hard_shrink},
    "lerp": lambda a, b, weight: a + weight * (b - a),
    "addcmul": lambda x, a, b, *, value=1: x + scaled(a * b, value),
    "addcdiv": lambda x, a, b, *, value=1: x + scaled(row("divide")(a, b), value),
    "gelu": lambda x, *, approximate="none": row("gelu")(x, approximate=approximate == "tanh"),
    "leaky_relu": lambda x, slope=0.01: row("leaky_relu")(x, negative_slope=float(slope)),
    "hardtanh": lambda x, low=-1, high=1: row("hardtanh")(x, min=float(low), max=float(high)),
    "logit": lambda x, eps=None: row("logit")(x if eps is None else exact.clamped(x, eps, 1 - eps)),
    "masked_fill": _masked_fill,
    "log_sigmoid_forward": _log_sigmoid,
    "isnan": _is_nan,
}
