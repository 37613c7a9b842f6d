"""Measures the cost of checking a large layer: processor time in forwards of the layer, and memory.

    python benchmarks/large_layer.py [PARAMETERS] [tanh|relu|module|jax|tensorflow]

The layer is a dense PyTorch layer in float32 with a batch of 64, a module of two of them with a
ReLU between, or a layer with a ReLU in another framework. The limits are multiples of the memory of
its arrays; a training step takes twice that memory, with all gradients. A smaller layer is checked
first, so that imports do not count. The exit code is 1 if the check finds anything, because the
layer is right, or if it costs more than the limits.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gradcheck_cli import check

PARAMETERS = 10_000_000
SMALL = 40_000
BATCH = 64
FORWARDS = 20
# For a layer of 1e7 parameters, with one thread: the cost in forwards (measured: 131, 155, 211, 321
# and 333), and memory in arrays of the layer (measured: 4.2, 4.6, 6.2, 6.1 and 7.0). Two arrays in
# float64 take 4.
MOST = {
    "tanh": (165.0, 5.0),
    "relu": (200.0, 5.0),
    "module": (260.0, 7.0),
    "jax": (400.0, 8.0),
    "tensorflow": (450.0, 9.0),
}


def tanh(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w)


def relu(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ w)


class Module(torch.nn.Module):
    """A module of square matrices, each with `size` rows."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(size, size), torch.nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)))


def of_jax(inputs: list[Any]) -> tuple[Callable[..., Any], list[Any]]:
    import jax

    jax.config.update("jax_enable_x64", True)
    return lambda x, w: jax.numpy.maximum(x @ w, 0), [jax.numpy.asarray(x) for x in inputs]


def of_tensorflow(inputs: list[Any]) -> tuple[Callable[..., Any], list[Any]]:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return lambda x, w: tf.nn.relu(x @ w), [tf.constant(x) for x in inputs]


def made(kind: str, parameters: int) -> tuple[Callable[..., Any], list[Any]]:
    """A layer and its inputs."""
    torch.manual_seed(0)
    if kind == "module":
        size = math.isqrt(parameters // 2)
        return Module(size), [torch.randn(BATCH, size)]
    size = math.isqrt(parameters)
    inputs = [torch.randn(BATCH, size), torch.randn(size, size) / math.sqrt(size)]
    if kind in ("jax", "tensorflow"):
        return (of_jax if kind == "jax" else of_tensorflow)([x.numpy() for x in inputs])
    return (relu if kind == "relu" else tanh), inputs


def peak_mb() -> float:
    """The peak memory of this process, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> int:
    given = [word for word in sys.argv[1:] if word[0].isdigit()]
    kind = next((word for word in sys.argv[1:] if word not in given), "tanh")
    small, few = made(kind, SMALL)
    check(small, *few, dtypes=["float32"])
    layer, inputs = made(kind, int(float(given[0])) if given else PARAMETERS)
    output = layer(*inputs)
    start = time.process_time()
    for _ in range(FORWARDS):
        done = layer(*inputs)
        if kind == "jax":
            done.block_until_ready()
    forward_s = (time.process_time() - start) / FORWARDS
    before_mb = peak_mb()
    start = time.process_time()
    report = check(layer, *inputs, dtypes=["float32"])
    check_s = time.process_time() - start
    held = list(layer.parameters()) if isinstance(layer, torch.nn.Module) else []
    sizes = [math.prod(array.shape) for array in (*inputs, *held, output)]
    own_mb = np.dtype(np.float32).itemsize * sum(sizes) / 1e6
    count = sum(sizes[len(held) == 0 : -1])
    print(f"{kind}, {count} parameters: {report.results[0].status}")
    print(
        f"  a forward takes {forward_s:.3f} s, the check {check_s:.1f} s: {check_s / forward_s:.0f}"
    )
    more_mb = peak_mb() - before_mb
    step_mb = 2 * own_mb
    print(
        f"  {own_mb:.0f} MB of arrays, {step_mb:.0f} MB in a step of training, "
        f"{more_mb:.0f} MB more for the check: {more_mb / own_mb:.1f} and {more_mb / step_mb:.1f}"
    )
    most_forwards, most_memory = MOST[kind]
    dear = check_s > most_forwards * forward_s or more_mb > most_memory * own_mb
    return int(report.results[0].status != "passed" or dear)


if __name__ == "__main__":
    sys.exit(main())
