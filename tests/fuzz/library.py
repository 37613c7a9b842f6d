"""How far an engine's functions of a library are off: in ulps, beside what a proof of
`gradcheck search` assumes (`faithful.ULPS`).

    python -m tests.fuzz.library [--dtype float64] [--every N] [--only exp log]

In float32, every Nth number of those at which the function is neither its argument nor constant
is compared with float64; in float64, that many drawn ones with long double. Arrays are once
contiguous, so that kernels take their wide loops, and once strided, so that they take numbers one
by one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.search.enclosures.enclosed import LIBRARY_ULPS
from gradcheck_cli.search.enclosures.faithful import ULPS

_CHUNK = 1 << 21
_LEAST_DRAWN = 1 << 20


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _log_sigmoid(x: Any) -> Any:
    return -_softplus(-x)


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel, its function in torch, the right one, and the range in which it is measured.
    `several`: it is made of several functions, and off by a part of the result, as of a number
    whose ulp is least."""

    kernel: str
    name: str
    right: Any
    low: float
    high: float
    of: tuple[Any, ...] = ()
    several: bool = False


FUNCTIONS: Mapping[str, Function] = {
    f"{one.name}{one.of[0] if one.of else ''}": one
    for one in (
        Function("aten.exp", "exp", np.exp, -87.0, 88.7),
        Function("aten.expm1", "expm1", np.expm1, -20.0, 88.7),
        Function("aten.log", "log", np.log, 1.2e-38, 3.4e38),
        Function("aten.log1p", "log1p", np.log1p, -0.99999994, 3.4e38),
        Function("aten.log2", "log2", np.log2, 1.2e-38, 3.4e38),
        Function("aten.log10", "log10", np.log10, 1.2e-38, 3.4e38),
        Function("aten.tanh", "tanh", np.tanh, -10.0, 10.0),
        Function("aten.atan", "atan", np.arctan, -1e9, 1e9),
        Function("aten.asin", "asin", np.arcsin, -1.0, 1.0),
        Function("aten.acos", "acos", np.arccos, -1.0, 1.0),
        Function("aten.sin", "sin", np.sin, -1e6, 1e6),
        Function("aten.cos", "cos", np.cos, -1e6, 1e6),
        Function("aten.tan", "tan", np.tan, -1e6, 1e6),
        Function("aten.sigmoid", "sigmoid", _sigmoid, -87.0, 20.0, several=True),
        Function("aten.softplus", "nn.functional.softplus", _softplus, -87.0, 20.0, several=True),
        Function(
            "aten.log_sigmoid_forward",
            "nn.functional.logsigmoid",
            _log_sigmoid,
            -1e3,
            87.0,
            several=True,
        ),
        Function("aten.pow", "pow", lambda x: x**3.5, 1e-10, 1e10, (3.5,)),
        Function("aten.pow", "pow", lambda x: 1 / np.sqrt(x), 1e-30, 1e30, (-0.5,), True),
        Function("aten.pow", "pow", lambda x: 1 / (x * x), -1e15, 1e15, (-2.0,), True),
    )
}
_NEXT_TO_NOTHING = 2.0**-30  # below that, a function is its argument, or constant


def numbers(one: Function, dtype: str, every: int) -> Iterator[np.ndarray]:
    """Arguments in its range, in chunks."""
    if dtype == "float64":
        rng = np.random.default_rng(0)
        for _ in range(max(_LEAST_DRAWN // every, 1 << 12) * 16 // _CHUNK + 1):
            size = np.exp2(rng.uniform(-30, np.log2(max(abs(one.low), one.high)), _CHUNK))
            x = np.where(rng.random(_CHUNK) < 0.5, size, -size)
            yield x[(x >= one.low) & (x <= one.high)]
        return
    least = max(one.low, _NEXT_TO_NOTHING)
    ends = [(np.float32(max(least, 0.0)), np.float32(one.high), 1.0)]
    if one.low < 0:
        ends.append((np.float32(_NEXT_TO_NOTHING), np.float32(-one.low), -1.0))
    for low, high, sign in ends:
        first, last = (int(end.view(np.int32)) for end in (low, high))
        for begin in range(first, last + 1, _CHUNK * every):
            bits = np.arange(begin, min(begin + _CHUNK * every, last + 1), every, dtype=np.int32)
            yield np.float32(sign) * bits.view(np.float32)


def worst(one: Function, dtype: str, every: int) -> tuple[float, float]:
    """The largest error in ulps of the right result, and where it is."""
    import torch

    function = torch
    for part in one.name.split("."):
        function = getattr(function, part)
    wide, digits = (np.float64, 23) if dtype == "float32" else (np.longdouble, 52)
    most, place = 0.0, 0.0
    for x in numbers(one, dtype, every):
        with np.errstate(all="ignore"):
            right = one.right(x.astype(wide))
        mantissa, exponent = np.frexp(np.abs(right))
        ulp = np.ldexp(
            2 * mantissa if one.several else np.ones(len(x), wide), exponent - 1 - digits
        )
        whole = torch.from_numpy(x)
        spread = torch.empty(2 * len(x), dtype=whole.dtype)[::2]
        spread.copy_(whole)
        for taken in (whole, spread):
            computed = function(taken, *one.of).numpy()
            with np.errstate(all="ignore"):
                off = np.abs(computed.astype(wide) - right) / ulp
            off = np.where(np.isfinite(off) & (np.abs(right) > np.finfo(x.dtype).tiny), off, 0.0)
            at = int(np.argmax(off)) if len(off) else 0
            if len(off) and off[at] > most:
                most, place = float(off[at]), float(x[at])
    return most, place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--every", type=int, default=101)
    parser.add_argument("--only", nargs="*", default=list(FUNCTIONS))
    options = parser.parse_args()
    beyond = 0
    for name in options.only:
        one = FUNCTIONS[name]
        assumed = ULPS.get(one.kernel, (LIBRARY_ULPS,) * 2)[options.dtype == "float64"]
        most, place = worst(one, options.dtype, options.every)
        beyond += most > assumed
        print(f"{name:28} {most:.3f} ulps at {place!r}, assumed {assumed}", flush=True)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
