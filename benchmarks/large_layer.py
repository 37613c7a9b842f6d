"""What a check of a large layer costs: processor time in forwards of the layer, and memory.

    python benchmarks/large_layer.py [PARAMETERS]

The layer is a dense one of PyTorch in float32, with a batch of 64. Its memory is that of its
arrays, of which limits are multiples; a step of training takes twice that, with all gradients. A
smaller layer is checked before, so that imports are not counted. Ends with 1 where the check finds
anything, as the layer is right, or costs more than the limits.
"""

from __future__ import annotations

import math
import resource
import sys
import time

import torch

from gradcheck_cli import check

PARAMETERS = 10_000_000
BATCH = 64
FORWARDS = 20
MOST_FORWARDS = 210.0  # of a layer of 1e7 parameters: 175 were measured, where a forward is fast
MOST_MEMORY = 6.0  # times the arrays of the layer: two in float64 take 4, and 4.8 were measured


def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w)


def peak_mb() -> float:
    """The most memory that this process has held, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> int:
    size = math.isqrt(int(float(sys.argv[1])) if len(sys.argv) > 1 else PARAMETERS)
    torch.manual_seed(0)
    x, w = torch.randn(BATCH, size), torch.randn(size, size) / math.sqrt(size)
    check(layer, x[:2, :200], w[:200, :200], dtypes=["float32"])
    layer(x, w)
    start = time.process_time()
    for _ in range(FORWARDS):
        layer(x, w)
    forward_s = (time.process_time() - start) / FORWARDS
    before_mb = peak_mb()
    start = time.process_time()
    report = check(layer, x, w, dtypes=["float32"])
    check_s = time.process_time() - start
    own_mb = (2 * x.nbytes + w.nbytes) / 1e6
    print(f"{size * size} parameters: {report.results[0].status}")
    print(
        f"  a forward takes {forward_s:.3f} s, the check {check_s:.1f} s: {check_s / forward_s:.0f}"
    )
    more_mb = peak_mb() - before_mb
    step_mb = 2 * own_mb
    print(
        f"  {own_mb:.0f} MB of arrays, {step_mb:.0f} MB in a step of training, "
        f"{more_mb:.0f} MB more for the check: {more_mb / own_mb:.1f} and {more_mb / step_mb:.1f}"
    )
    dear = check_s > MOST_FORWARDS * forward_s or more_mb > MOST_MEMORY * own_mb
    return int(report.results[0].status != "passed" or dear)


if __name__ == "__main__":
    sys.exit(main())
