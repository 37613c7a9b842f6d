"""Compares the time of `check` for second derivatives with that of torch.autograd.gradgradcheck, on
the same operations of PyTorch's own database, at the same samples in float64.

    python benchmarks/second_order.py                      40 operations, spread over all
    python benchmarks/second_order.py --ops sinc,linalg.eigh
    python benchmarks/second_order.py --count 10
    python benchmarks/second_order.py --count 60 --seed 3011     drawn at random

Prints for each operation the processor seconds of gradgradcheck (reverse over reverse, and forward
over reverse if the operation has it) and of `check(order=2)`, which checks first derivatives in
both modes and second derivatives in all four compositions; and then the sums and the median of the
ratios, without the operations at which gradgradcheck stops at the first wrong entry. Both run once,
in turn, on one thread of one process, after a call that is not counted.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gradcheck_cli import check
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.torch import suite


def seconds(call: Callable[[], object]) -> tuple[float, bool]:
    """Processor seconds, and whether the call finished."""
    started, ended = time.process_time(), True
    try:
        call()
    except Exception as error:
        ended = False
        print(f"    {type(error).__name__}: {str(error).splitlines()[0][:90]}")
    return time.process_time() - started, ended


def measured(op: str) -> tuple[float, float, bool] | None:
    """Seconds of gradgradcheck and of `check`, and whether both finished; None if there are no
    second derivatives."""
    info = suite.database()[op]
    try:
        sample = suite.samples(op, 1, False)[0]
    except Unsupported:
        return None
    if not info.supports_gradgrad:
        return None
    layer = suite.Operation(op, sample.number, False)
    given = [torch.from_numpy(np.array(x)) for x in sample.inputs.values()]
    tracked = [x.clone().requires_grad_() for x in given]

    def theirs() -> Any:
        return torch.autograd.gradgradcheck(
            layer, tracked, check_fwd_over_rev=info.supports_fwgrad_bwgrad
        )

    ours, whole = seconds(lambda: check(layer, *given, order=2, dtypes="float64"))
    time_of_theirs, ended = seconds(theirs)
    return time_of_theirs, ours, whole and ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="how many operations")
    parser.add_argument("--seed", type=int, help="of a random draw; default: spread over all")
    parser.add_argument("--ops", default="", help="names of operations, with commas between them")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    names = suite.names()
    chosen = names[:: len(names) // options.count]
    if options.seed is not None:
        chosen = random.Random(options.seed).sample(sorted(names), options.count)
    chosen = options.ops.split(",") if options.ops else chosen
    measured(chosen[0])  # imports, and whatever is compiled when it is first called
    sums, ratios = np.zeros(2), []
    for op in chosen:
        found = measured(op)
        if found is None:
            continue
        theirs, ours, both = found
        if both:
            sums += theirs, ours
            ratios.append(ours / theirs)
        print(f"{op:45s} {theirs:7.2f} {ours:7.2f}  {ours / theirs:6.1f}", flush=True)
    print(f"{'together':45s} {sums[0]:7.2f} {sums[1]:7.2f}  {sums[1] / sums[0]:6.1f}")
    print(f"{'median':61s}  {np.median(ratios):6.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
