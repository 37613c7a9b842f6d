"""How far an engine's functions of a library are off: in ulps, beside what a proof of
`gradcheck search` assumes (`faithful.ULPS`).

    python -m tests.fuzz.library [--engine E] [--dtype float64] [--every N] [--only exp log]

In half precision, all numbers are compared with float64. In float32, every Nth number of those at
which the function is neither its argument nor constant is; in float64, that many drawn ones are
compared with long double. Arrays of PyTorch are once contiguous, so that kernels take their wide
loops, and once strided, so that they take numbers one by one.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.special

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.search.enclosures.enclosed import LIBRARY_ULPS
from gradcheck_cli.search.enclosures.faithful import LOOSE_ULPS, PIECES, STEEPER_ULPS, ULPS

_CHUNK = 1 << 21
_LEAST_DRAWN = 1 << 20


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _in_float64(function: Any) -> Callable[[Any], Any]:
    """To the digits of float64."""
    return lambda x: function(np.asarray(x, np.float64)).astype(x.dtype)


def _log_sigmoid(x: Any) -> Any:
    return -_softplus(-x)


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel, its name in the framework, the right function, and where it is measured.
    `several`: it is made of several functions, and off by a part of the result, as of a number
    whose ulp is least. `within`: in how many ulps it is between these ends, in float32 alone,
    where smaller results count as `at_least`."""

    kernel: str
    name: str
    right: Any
    low: float
    high: float
    of: tuple[Any, ...] = ()
    several: bool = False
    within: float = 0.0
    at_least: float = 0.0


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
_RANGES = {
    "exp": (np.exp, -87.0, 88.72),
    "log": (np.log, 1.2e-38, 3.4e38),
    "log1p": (np.log1p, -0.28, 3.4e38),
    "tanh": (np.tanh, -10.0, 10.0),
    "sigmoid": (_sigmoid, -87.0, 20.0),
    "atan": (np.arctan, -1e9, 1e9),
    "sin": (np.sin, -1e5, 1e5),
    "cos": (np.cos, -1e5, 1e5),
    "erf": (_in_float64(scipy.special.erf), -4.0, 4.0),
    "erfc": (_in_float64(scipy.special.erfc), -9.0, 9.0),
    "lgamma": (_in_float64(scipy.special.gammaln), 1e-30, 1e30),
    "digamma": (_in_float64(scipy.special.psi), 1e-30, 1e30),
    "reciprocal": (lambda x: 1 / x, 1.2e-38, 2.0**101),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-30, 1e30),
}
_IN_JAX = {
    "sigmoid": "nn.sigmoid",
    "atan": "numpy.arctan",
    "erf": "lax.erf",
    "erfc": "lax.erfc",
    "rsqrt": "lax.rsqrt",
    "lgamma": "lax.lgamma",
    "digamma": "lax.digamma",
}
_KERNELS = {("jax", "sigmoid"): "logistic"}
_POWERS = (0.5, -1.5, 3.5, 29.5, -95.5)


def functions(engine: str) -> Mapping[str, Function]:
    """The functions of an engine's library that are measured, by name. Those of engines that round
    several times are off by a part of the result."""
    if engine == "torch":
        return FUNCTIONS
    found = {}
    for name, (right, low, high) in _RANGES.items():
        kernel = _KERNELS.get((engine, name), name if engine == "jax" else name.capitalize())
        path = _IN_JAX.get(name, f"numpy.{name}") if engine == "jax" else f"math.{name}"
        whole = Function(kernel, path, right, low, high, several=True)
        if kernel in LOOSE_ULPS:
            found[name] = whole
        for least, most, within in PIECES.get(kernel, ()):
            ends = max(least, low), min(most, high)
            of_1 = 1.0 if name.endswith("gamma") else 0.0
            piece = replace(whole, low=ends[0], high=ends[1], within=within, at_least=of_1)
            found[f"{name} from {least:g} to {most:g}"] = piece
    if "reciprocal" in found:  # its rule allows for two smallest normal numbers more there
        far = {"low": 2.0**101, "high": 2.0**126, "within": 4.25, "at_least": 2.0**-103}
        found["reciprocal beyond 2^101"] = replace(found["reciprocal"], **far)
    kernel, path = ("pow", "numpy.power") if engine == "jax" else ("Pow", "math.pow")
    for p in _POWERS:
        how: Any = {"of": (p,), "several": True}
        found[f"pow {p}"] = Function(kernel, path, lambda x, p=p: x**p, 1e-30, 1e30, **how)
    return found


def assumed(one: Function, engine: str, dtype: str) -> float:
    """What a proof assumes of it, in ulps."""
    if engine == "torch":
        return ULPS.get(one.kernel, (LIBRARY_ULPS,) * 2)[dtype == "float64"]
    if one.within:
        return one.within
    place = ("float32", "float64").index(dtype) + 1 if "16" not in dtype else 0
    more = STEEPER_ULPS.get(one.kernel, 0.0) if dtype == "float64" else 0.0
    return LOOSE_ULPS[one.kernel][place] + more * sum(map(abs, one.of))


_NEXT_TO_NOTHING = 2.0**-30  # below that, a function is its argument, or constant


def numbers(one: Function, dtype: str, every: int) -> Iterator[np.ndarray]:
    """Arguments in its range, in chunks."""
    if "16" in dtype:
        kind = _numpy_dtype(dtype)
        x = np.arange(1 << 16, dtype=np.uint16).view(kind)
        wide = x.astype(np.float64)
        with np.errstate(invalid="ignore"):
            inside = (wide >= one.low) & (wide <= one.high)
        yield x[inside & ((np.abs(wide) >= FORMATS[dtype].smallest_normal) | (wide == 0))]
        return
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
            x = np.float32(sign) * bits.view(np.float32)
            yield x[(x >= one.low) & (x <= one.high)]


def _numpy_dtype(dtype: str) -> Any:
    import ml_dtypes

    return ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)


def _function(engine: str, one: Function) -> Callable[[np.ndarray], Iterator[np.ndarray]]:
    """What a framework computes, of a whole array and in other ways, if it has several loops."""
    module = importlib.import_module(engine)
    if engine == "jax":
        module.config.update("jax_enable_x64", True)  # type: ignore[attr-defined]
    function: Any = module
    for part in one.name.split("."):
        function = getattr(function, part)

    def call(x: np.ndarray) -> Iterator[np.ndarray]:
        if engine != "torch":
            array = module.numpy.asarray(x) if engine == "jax" else module.constant(x)
            yield np.asarray(function(array, *one.of))
            return
        whole = module.from_numpy(x)
        spread = module.empty(2 * len(x), dtype=whole.dtype)[::2]
        spread.copy_(whole)
        for taken in (whole, spread):
            yield function(taken, *one.of).numpy()

    return call


def worst(one: Function, dtype: str, every: int, engine: str = "torch") -> tuple[float, float]:
    """The largest error in ulps of the right result, and where it is."""
    call, fmt = _function(engine, one), FORMATS[dtype]
    wide, digits = np.longdouble if dtype == "float64" else np.float64, fmt.bits - 1
    most, place = 0.0, 0.0
    for x in numbers(one, dtype, every):
        with np.errstate(all="ignore"):
            right = one.right(x.astype(wide))
        mantissa, exponent = np.frexp(np.maximum(np.abs(right), one.at_least))
        ulp = np.ldexp(
            2 * mantissa if one.several else np.ones(len(x), wide), exponent - 1 - digits
        )
        fits = (np.abs(right) > fmt.smallest_normal) & (np.abs(right) < fmt.largest)
        for computed in call(x):
            with np.errstate(all="ignore"):
                off = np.abs(computed.astype(wide) - right) / ulp
            off = np.where(fits & ~np.isnan(off), off, 0.0)
            at = int(np.argmax(off)) if len(off) else 0
            if len(off) and off[at] > most:
                most, place = float(off[at]), float(x[at])
    return most, place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--every", type=int, default=101)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    beyond, known = 0, functions(options.engine)
    for name in options.only or known:
        one = known[name]
        if one.within and options.dtype != "float32":
            continue
        most, place = worst(one, options.dtype, options.every, options.engine)
        limit = assumed(one, options.engine, options.dtype)
        beyond += most > limit
        print(f"{name:28} {most:.3f} ulps at {place!r}, assumed {limit}", flush=True)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
