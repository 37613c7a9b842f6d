"""What a check of a large layer costs: processor time in forwards of the layer, and memory.

    python benchmarks/large_layer.py [PARAMETERS] [tanh|relu|module]

The layer is a dense one of PyTorch in float32, with a batch of 64, or a module of two of them with
ReLUs between them. Its memory is that of its arrays, of which limits are multiples; a step of
training takes twice that, with all gradients. A smaller layer is checked before, so that imports
are not counted. Ends with 1 where the check finds anything, as the layer is right, or costs more
than the limits.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable

import torch

from gradcheck_cli import check

PARAMETERS = 10_000_000
SMALL = 40_000
BATCH = 64
FORWARDS = 20
# Of a layer of 1e7 parameters, with one thread: forwards, of which 130, 150 and 200 were measured,
# and memory in arrays of the layer, of which 4.1, 4.4 and 6.9 were. Two in float64 take 4.
MOST = {"tanh": (165.0, 5.0), "relu": (200.0, 5.0), "module": (260.0, 8.0)}


def tanh(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w)


def relu(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ w)


class Module(torch.nn.Module):
    """Of square matrices, each of `size` rows."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(size, size), torch.nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)))


def made(kind: str, parameters: int) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
    """A layer and its inputs."""
    torch.manual_seed(0)
    if kind == "module":
        size = math.isqrt(parameters // 2)
        return Module(size), [torch.randn(BATCH, size)]
    size = math.isqrt(parameters)
    inputs = [torch.randn(BATCH, size), torch.randn(size, size) / math.sqrt(size)]
    return (relu if kind == "relu" else tanh), inputs


def peak_mb() -> float:
    """The most memory that this process has held, in megabytes."""
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
        layer(*inputs)
    forward_s = (time.process_time() - start) / FORWARDS
    before_mb = peak_mb()
    start = time.process_time()
    report = check(layer, *inputs, dtypes=["float32"])
    check_s = time.process_time() - start
    held = list(layer.parameters()) if isinstance(layer, torch.nn.Module) else []
    own_mb = sum(array.nbytes for array in (*inputs, *held, output)) / 1e6
    count = sum(array.numel() for array in (*inputs[len(held) == 0 :], *held))
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
