"""Measures the cost of checking a large layer: processor time in forwards of the layer, and memory.

    python benchmarks/large_layer.py [PARAMETERS] [tanh|relu|module|jax|tensorflow] [--batch N]

The layer is a dense PyTorch layer in float32, a module of two of them with a ReLU between, or a
layer with a ReLU in another framework. A smaller layer is checked first, so that imports do not
count.

Memory is given in two units. The arrays of a layer are its inputs, its parameters and its output.
The layer's own memory is what one forward and one backward pass take in its own dtype: its arrays,
their gradients, and what the framework keeps in between. It is measured as the memory of the check
is: resident memory beyond that of the process before the layer existed.

The exit code is 1 if the check finds anything, because the layer is right, or if it costs more than
the limits, which hold for PARAMETERS and two batches.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradcheck_cli import check

PARAMETERS = 10_000_000
SMALL = 40_000
BATCH = 1024  # with few rows, a layer rather reads its parameters than computes with them
FORWARDS = 20
# For a layer of 1e7 parameters, with one thread, by batch: the most forwards, and memory in
# addition, in units of the layer's own. Two arrays in float64 take 2. Measured at 1024: 54, 55, 59,
# 80 and 78 forwards, of 0.29 to 0.51 s, and 2.9, 2.8, 2.8, 3.8 and 3.3 times the memory. Measured
# at 64: 109, 86, 102, 132 and 216, of 18 to 43 ms, and 2.2, 2.2, 2.8, 2.0 and 2.5. Half of that
# time goes into the numbers of the parameters, whatever the batch.
MOST = {
    64: {
        "tanh": (180.0, 3.0),
        "relu": (150.0, 3.0),
        "module": (190.0, 3.2),
        "jax": (230.0, 3.0),
        "tensorflow": (290.0, 3.0),
    },
    1024: {
        "tanh": (75.0, 3.4),
        "relu": (75.0, 3.4),
        "module": (80.0, 3.4),
        "jax": (110.0, 4.2),
        "tensorflow": (105.0, 3.4),
    },
}

Step = Callable[[], Any]
"""One forward and one backward pass; returns what it computed."""


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


def of_torch(layer: Callable[..., Any], inputs: list[torch.Tensor]) -> Step:
    def step() -> Any:
        held = list(layer.parameters()) if isinstance(layer, torch.nn.Module) else []
        given = [x.detach().requires_grad_() for x in inputs]
        y = layer(*given)
        return torch.autograd.grad(y, [*given, *held], torch.ones_like(y))

    return step


def of_jax(inputs: list[Any]) -> tuple[Callable[..., Any], list[Any], Step]:
    import jax

    jax.config.update("jax_enable_x64", True)

    def layer(x: Any, w: Any) -> Any:
        return jax.numpy.maximum(x @ w, 0)

    arrays = [jax.numpy.asarray(x) for x in inputs]

    def step() -> Any:
        y, vjp = jax.vjp(layer, *arrays)
        return jax.block_until_ready(vjp(jax.numpy.ones_like(y)))

    return layer, arrays, step


def of_tensorflow(inputs: list[Any]) -> tuple[Callable[..., Any], list[Any], Step]:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)

    def layer(x: Any, w: Any) -> Any:
        return tf.nn.relu(x @ w)

    tensors = [tf.constant(x) for x in inputs]

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            y = layer(*tensors)
        return tape.gradient(y, tensors)

    return layer, tensors, step


def made(kind: str, parameters: int, batch: int) -> tuple[Callable[..., Any], list[Any], Step]:
    """A layer, its inputs, and a step of its training."""
    torch.manual_seed(0)
    if kind == "module":
        size = math.isqrt(parameters // 2)
        module, x = Module(size), torch.randn(batch, size)
        return module, [x], of_torch(module, [x])
    size = math.isqrt(parameters)
    inputs = [torch.randn(batch, size), torch.randn(size, size) / math.sqrt(size)]
    if kind in ("jax", "tensorflow"):
        return (of_jax if kind == "jax" else of_tensorflow)([x.numpy() for x in inputs])
    layer = relu if kind == "relu" else tanh
    return layer, inputs, of_torch(layer, inputs)


def resident_mb(which: str = "VmRSS") -> float:
    """The resident memory of this process in megabytes: now, or at its peak (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{which}:")[1].split()[0]) / 1e3


def peak_mb(call: Callable[[], Any]) -> float:
    """The peak of resident memory during the call, in megabytes."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    call()
    return resident_mb("VmHWM")


def forward_s(kind: str, layer: Callable[..., Any], inputs: list[Any]) -> float:
    """Processor seconds of one forward pass."""
    start = time.process_time()
    for _ in range(FORWARDS):
        y = layer(*inputs)
        if kind == "jax":
            y.block_until_ready()
    return (time.process_time() - start) / FORWARDS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parameters", nargs="?", type=float, default=PARAMETERS)
    parser.add_argument("kind", nargs="?", choices=MOST[BATCH], default="tanh")
    parser.add_argument("--batch", type=int, default=BATCH)
    given = parser.parse_args()
    kind = given.kind
    small, few, step = made(kind, SMALL, given.batch)
    step()
    check(small, *few, dtypes=["float32"])

    before_mb = resident_mb()
    layer, inputs, step = made(kind, int(given.parameters), given.batch)
    own_mb = peak_mb(step) - before_mb
    one_s = forward_s(kind, layer, inputs)
    held = list(layer.parameters()) if isinstance(layer, torch.nn.Module) else []
    sizes = [math.prod(array.shape) for array in (*inputs, *held, layer(*inputs))]
    now_mb = resident_mb()
    arrays_mb = np.dtype(np.float32).itemsize * sum(sizes) / 1e6
    own_mb = max(own_mb, arrays_mb)  # of a small layer, it may have been free memory before

    reports = []
    start = time.process_time()
    more_mb = peak_mb(lambda: reports.append(check(layer, *inputs, dtypes=["float32"]))) - now_mb
    check_s = time.process_time() - start
    status = reports[0].results[0].status
    count = sum(sizes[len(held) == 0 : -1])
    print(f"{kind}, {count} parameters, a batch of {given.batch}: {status}")
    print(f"  a forward takes {one_s:.3f} s, the check {check_s:.1f} s: {check_s / one_s:.0f}")
    print(
        f"  its arrays {arrays_mb:.0f} MB, one forward and backward {own_mb:.0f} MB, the check "
        f"{more_mb:.0f} MB in addition: {more_mb / arrays_mb:.1f} and {more_mb / own_mb:.1f} times"
    )
    most_forwards, most_memory = MOST.get(given.batch, {}).get(kind, (math.inf, math.inf))
    dear = check_s > most_forwards * one_s or more_mb > most_memory * own_mb
    return int(status != "passed" or dear)


if __name__ == "__main__":
    sys.exit(main())
