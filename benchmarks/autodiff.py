"""Measures the claims about the speed of `reference_engine`: the value and gradient of the same
programs, compared with HIPS autograd, and with PyTorch on one thread (shown, without a target).

Each program is written as a user of the library would write it. The gradients are compared first.
The sides are then timed in turn, in one process and thread, and the ratio is that of the medians.
Times are of the thread alone, which other work on the machine affects least. Peak memory counts the
allocations of Python and NumPy during one call (tracemalloc). The exit code is 1 if a target is
missed.
"""

# ruff: noqa: E402 - libraries read their number of threads when they are imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_variable] = "1"

import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import torch
from autograd.scipy.signal import convolve
from autograd.scipy.special import expit
from autograd.scipy.special import logsumexp as autograd_logsumexp

import reference_engine as re

Call = Callable[[], tuple[Any, Any]]

SMALL, LARGE = 2.0, 1.0  # how many times faster than autograd a gradient must be
MEMORY = 1.0  # how much of autograd's peak a large one may need
LINEAR = 20.0  # 100 000 operations to 10 000: 10, and as much for caches; quadratic would be 100
ROUNDING = 1e-9  # relative; the programs round differently, about 1e-13 here


@dataclass(frozen=True, slots=True)
class Problem:
    """A scalar program in three libraries.

    ours, theirs    called with the parameters; theirs, for autograd, with a tuple of them
    pytorch         like ours, on tensors
    parameters      float64 arrays to differentiate with respect to
    calls           number of calls that are timed together
    target          how many times faster than autograd
    as_theirs       the parameters, or a gradient, in autograd's layout; its own inverse
    """

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    pytorch: Callable[..., Any]
    parameters: tuple[Any, ...]
    calls: int
    target: float
    as_theirs: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple


def regression() -> Problem:
    x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.2])
    x_torch, y_torch = torch.tensor(x), torch.tensor(y)

    def ours(w: Any, b: Any) -> Any:
        return re.mean((w * x + b - y) ** 2)

    def theirs(parameters: Any) -> Any:
        w, b = parameters
        return anp.mean((w * x + b - y) ** 2)

    def pytorch(w: Any, b: Any) -> Any:
        return torch.mean((w * x_torch + b - y_torch) ** 2)

    at = (np.array(1.5), np.array(0.5))
    return Problem("linear regression, 3 points", ours, theirs, pytorch, at, 5, SMALL)


def lstm_cell(random: np.random.Generator, n: int = 16) -> Problem:
    x, h, c = random.standard_normal((3, n))
    x_torch, h_torch, c_torch = (torch.tensor(v) for v in (x, h, c))

    def ours(w: Any, u: Any, b: Any) -> Any:
        z = x @ w + h @ u + b
        keep, take, show = re.sigmoid(z[:n]), re.sigmoid(z[n : 2 * n]), re.sigmoid(z[2 * n : 3 * n])
        cell = keep * c + take * re.tanh(z[3 * n :])
        return re.sum(show * re.tanh(cell))

    def theirs(parameters: Any) -> Any:
        w, u, b = parameters
        z = anp.dot(x, w) + anp.dot(h, u) + b
        keep, take, show = expit(z[:n]), expit(z[n : 2 * n]), expit(z[2 * n : 3 * n])
        cell = keep * c + take * anp.tanh(z[3 * n :])
        return anp.sum(show * anp.tanh(cell))

    def pytorch(w: Any, u: Any, b: Any) -> Any:
        z = x_torch @ w + h_torch @ u + b
        keep, take, show, new = z.split(n)
        cell = torch.sigmoid(keep) * c_torch + torch.sigmoid(take) * torch.tanh(new)
        return torch.sum(torch.sigmoid(show) * torch.tanh(cell))

    at = tuple(0.3 * random.standard_normal(shape) for shape in ((n, 4 * n), (n, 4 * n), (4 * n,)))
    return Problem("LSTM cell of width 16", ours, theirs, pytorch, at, 5, SMALL)


def mixture(random: np.random.Generator) -> Problem:
    """The log-likelihood of 10 points in the plane under 3 Gaussians with diagonal covariances."""
    data = random.standard_normal((10, 1, 2))
    data_torch = torch.tensor(data)

    def ours(weights: Any, means: Any, scales: Any) -> Any:
        z = (data - means) * re.exp(-scales)
        each = weights - re.logsumexp(weights) - re.sum(scales, axis=1)
        return re.sum(re.logsumexp(each - 0.5 * re.sum(z**2, axis=2), axis=1))

    def theirs(parameters: Any) -> Any:
        weights, means, scales = parameters
        z = (data - means) * anp.exp(-scales)
        each = weights - autograd_logsumexp(weights) - anp.sum(scales, axis=1)
        return anp.sum(autograd_logsumexp(each - 0.5 * anp.sum(z**2, axis=2), axis=1))

    def pytorch(weights: Any, means: Any, scales: Any) -> Any:
        z = (data_torch - means) * torch.exp(-scales)
        each = weights - torch.logsumexp(weights, 0) - torch.sum(scales, 1)
        return torch.sum(torch.logsumexp(each - 0.5 * torch.sum(z**2, 2), 1))

    at = tuple(0.5 * random.standard_normal(shape) for shape in ((3,), (3, 2), (3, 2)))
    return Problem("Gaussian mixture, 10 points", ours, theirs, pytorch, at, 5, SMALL)


def perceptron(random: np.random.Generator, n: int = 256) -> Problem:
    x, y = random.standard_normal((2, n, n))
    x_torch, y_torch = torch.tensor(x), torch.tensor(y)

    def ours(*layers: Any) -> Any:
        h = x
        for w, b in zip(layers[:3], layers[3:], strict=True):
            h = re.tanh(h @ w + b)
        return re.mean((h - y) ** 2)

    def theirs(layers: Any) -> Any:
        h = x
        for w, b in zip(layers[:3], layers[3:], strict=True):
            h = anp.tanh(anp.dot(h, w) + b)
        return anp.mean((h - y) ** 2)

    def pytorch(*layers: Any) -> Any:
        h = x_torch
        for w, b in zip(layers[:3], layers[3:], strict=True):
            h = torch.tanh(h @ w + b)
        return torch.mean((h - y_torch) ** 2)

    at = tuple(0.06 * random.standard_normal(shape) for shape in [(n, n)] * 3 + [(n,)] * 3)
    return Problem("3 layers 256 x 256, batch 256", ours, theirs, pytorch, at, 1, LARGE)


def convolution(random: np.random.Generator) -> Problem:
    """16 images of 8 channels, 32 x 32, and 16 kernels of 5 x 5. autograd's convolution flips the
    kernels, and takes their channels first."""
    x = random.standard_normal((16, 8, 32, 32))
    x_torch = torch.tensor(x)

    def ours(w: Any, b: Any) -> Any:
        return re.mean(re.tanh(re.conv2d(x, w) + b))

    def theirs(parameters: Any) -> Any:
        w, b = parameters
        y = convolve(x, w, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode="valid")
        return anp.mean(anp.tanh(y + b))

    def pytorch(w: Any, b: Any) -> Any:
        return torch.mean(torch.tanh(torch.nn.functional.conv2d(x_torch, w) + b))

    def as_theirs(layer: tuple[Any, ...]) -> tuple[Any, ...]:
        w, b = layer
        return np.ascontiguousarray(w.swapaxes(0, 1)[:, :, ::-1, ::-1]), b

    at = (0.1 * random.standard_normal((16, 8, 5, 5)), random.standard_normal((16, 1, 1)))
    return Problem("convolution, 5 x 5", ours, theirs, pytorch, at, 1, LARGE, as_theirs)


def chain(random: np.random.Generator) -> Problem:
    def ours(x: Any) -> Any:
        y = re.log(re.sqrt(re.exp(0.5 * re.tanh(x)) + 1.0))
        return re.mean(re.sin(y) * x)

    def theirs(parameters: Any) -> Any:
        (x,) = parameters
        y = anp.log(anp.sqrt(anp.exp(0.5 * anp.tanh(x)) + 1.0))
        return anp.mean(anp.sin(y) * x)

    def pytorch(x: Any) -> Any:
        y = torch.log(torch.sqrt(torch.exp(0.5 * torch.tanh(x)) + 1.0))
        return torch.mean(torch.sin(y) * x)

    at = (random.standard_normal(1_000_000),)
    return Problem("8 operations on 1 000 000", ours, theirs, pytorch, at, 1, LARGE)


def sides(problem: Problem) -> tuple[Call, Call, Call]:
    """The value and the gradients of each library: ours, autograd's, PyTorch's."""
    at = problem.parameters
    mine = re.value_and_grad(problem.ours, tuple(range(len(at))))
    other = autograd.value_and_grad(problem.theirs)
    at_other = problem.as_theirs(at)
    at_torch = [torch.tensor(p, requires_grad=True) for p in at]

    def with_torch() -> tuple[Any, Any]:
        y = problem.pytorch(*at_torch)
        return y, torch.autograd.grad(y, at_torch)

    return lambda: mine(*at), lambda: other(at_other), with_torch


def compare(problem: Problem, calls: tuple[Call, Call, Call]) -> None:
    """Raise AssertionError unless all three libraries compute the same value and gradients."""
    value, gradients = calls[0]()
    value_other, given = calls[1]()
    value_torch, by_torch = calls[2]()
    theirs = problem.as_theirs(given)
    for y, x_bars in ((value_other, theirs), (value_torch.detach(), by_torch)):
        np.testing.assert_allclose(y, value, rtol=ROUNDING)
        for x_bar, expected in zip(x_bars, gradients, strict=True):
            scale = float(np.max(np.abs(expected)))
            np.testing.assert_allclose(x_bar, expected, rtol=ROUNDING, atol=ROUNDING * scale)


def seconds(calls: tuple[Call, ...], together: int, for_seconds: float = 6.0) -> list[float]:
    """Median seconds of one call of each, timed in turn. The first of each is dropped."""
    taken: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + for_seconds
    while time.perf_counter() < end or len(taken[0]) < 6:
        for times, call in zip(taken, calls, strict=True):
            start = time.thread_time()
            for _ in range(together):
                call()
            times.append((time.thread_time() - start) / together)
    return [statistics.median(times[1:]) for times in taken]


def peak(call: Call) -> float:
    """Megabytes that one call allocates at most, including its results."""
    gc.collect()
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def report(problem: Problem) -> bool:
    """Print the row of a problem, and return whether its targets were met."""
    calls = sides(problem)
    compare(problem, calls)
    mine, other, with_torch = seconds(calls, problem.calls)
    met = other / mine >= problem.target
    large = problem.target == LARGE
    memory = ""
    if large:
        ours, theirs = peak(calls[0]), peak(calls[1])
        met &= ours / theirs <= MEMORY
        memory = f"{ours:8.1f} {theirs:9.1f} {ours / theirs:6.2f}"
    print(
        f"{problem.name:30} {mine * 1e3:9.3f} {other * 1e3:9.3f} {with_torch * 1e3:9.3f} "
        f"{other / mine:6.2f} {problem.target:6.1f} {memory}{'' if met else '  MISSED'}",
        flush=True,
    )
    return met


def long_chain(length: int) -> Call:
    def f(x: Any) -> Any:
        y = x
        for _ in range(length // 2):
            y = 0.999 * y + x
        return y

    return lambda: re.value_and_grad(f)(1.0)


def report_length() -> bool:
    short, long = seconds((long_chain(10_000), long_chain(100_000)), 1, 10.0)
    met = long / short <= LINEAR
    print(
        f"\n100 000 operations {long:.2f} s, 10 000 {short:.3f} s: "
        f"ratio {long / short:.1f}, at most {LINEAR:.0f}{'' if met else '  MISSED'}"
    )
    return met


def report_freed() -> bool:
    """Whether a backward pass over 100 recorded arrays of 0.8 MB frees all of them."""
    x = re.tensor(np.ones(100_000), requires_grad=True)
    tracemalloc.start()
    y = x
    for _ in range(100):
        y = re.sin(y)
    root = re.sum(y)
    del y
    held = tracemalloc.get_traced_memory()[0] / 1e6
    root.backward()
    left = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    met = left <= 2 * 0.8  # the gradient, and an array's worth of records
    print(
        f"100 recorded arrays: {held:.1f} MB before backward(), {left:.1f} MB after, "
        f"the gradient of 0.8 MB included{'' if met else '  MISSED'}"
    )
    return met


def main() -> int:
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    print(f"{'':30} {'value and gradient, ms':^29} {'ratio':>6} {'at':>6} {'peak, MB':^18}")
    print(
        f"{'':30} {'ours':>9} {'autograd':>9} {'torch':>9} {'':>6} {'least':>6} "
        f"{'ours':>8} {'autograd':>9} {'ratio':>6}"
    )
    problems = [
        regression(),
        lstm_cell(random),
        mixture(random),
        perceptron(random),
        convolution(random),
        chain(random),
    ]
    met = [report(problem) for problem in problems]
    met += [report_length(), report_freed()]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
