"""How many of PyTorch's own operations can be stated in rows of the op table.

The operations and their inputs are those of opinfo.py, in float64. Each is run once and recorded
(`engines/torch/recorder.py`); what the table does not know is recorded as the operations that
PyTorch composes it of. A sample counts if every operation between its inputs and its results
that gives floats has a kernel in rows, and if the kernel, in balls, gives the numbers that the
operation gave, to its rounding. Printed are the share of the samples, and by operation how many
samples it keeps out and why.

Exit code 1: less than TARGET of the samples count.

    python benchmarks/lift.py               all of it, some two minutes
    python benchmarks/lift.py --every 10    each tenth sample
    python benchmarks/lift.py --ops cholesky,nn.functional.gelu
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from opinfo import Check, checks
from torch.utils._pytree import tree_leaves

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.execution import Execution, Step
from gradcheck_cli.engines.torch.compositions import unfused
from gradcheck_cli.engines.torch.recorder import TorchRecorder
from gradcheck_cli.engines.trace.shadow import FIRST_BITS, Numbers, to_float
from reference_engine.arithmetic.arbs import precision

TARGET = 0.9
LARGEST = 20_000
"""Numbers that an operation takes and gives: beyond, balls take seconds."""

DIGITS = 1e-9
"""Of the largest number of a result: float64 linear algebra keeps as many on these samples."""

BALLS = Numbers(FIRST_BITS)


def obstacles(check: Check) -> Iterator[tuple[str, str]]:
    """The operations that keep a sample out, each with the reason."""
    recorder = TorchRecorder(composed=True)
    inputs = [tensor.clone().requires_grad_() for tensor in check.tensors]
    torch.manual_seed(0)
    with recorder.recording(), unfused():
        leaves = {recorder.slot(tensor) for tensor in inputs}
        result = check.function(*inputs)
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    wanted = {recorder.slot_of(tensor) for tensor in tensors}
    for step, slots in _between(recorder.execution, leaves, wanted):
        reason = _obstacle(recorder.execution, step, slots)
        if reason:
            yield step.name, reason


def _between(
    execution: Execution, leaves: set[int], wanted: set[int | None]
) -> Iterator[tuple[Step, set[int]]]:
    """The operations from the leaves to what is wanted, each with the slots of its results that
    are read and are not indices or masks."""
    moving = set(leaves)
    for step in execution.steps:
        if not moving.isdisjoint(step.args):
            moving.update(slot for slot in step.results if _is_continuous(execution, slot))
    found = []
    for step in reversed(execution.steps):
        read = wanted & moving & set(step.results)
        if read:
            wanted = wanted | set(step.args)
            found.append((step, read))
    return reversed(found)  # type: ignore[return-value]


def _is_continuous(execution: Execution, slot: int) -> bool:
    dtype = getattr(execution.slots[slot].native, "dtype", None)
    return dtype is not None and (dtype.is_floating_point or dtype.is_complex)


def _obstacle(execution: Execution, step: Step, slots: set[int]) -> str:
    """Why the step is not stated in rows; empty where it is."""
    if step.exact is None:
        return "has no kernel"
    if max(execution.slots[slot].size for slot in (*step.args, *step.results)) > LARGEST:
        return ""
    try:
        with precision(FIRST_BITS):
            found = step.exact([_given(execution, slot) for slot in step.args])
    except Exception as error:  # a kernel that does not take these arguments, or is wrong
        return f"{type(error).__name__}: {error}"
    for slot, value in zip(step.results, found, strict=True):
        if slot in slots and not _agree(
            to_float(value), execution.values(slot), _eps(execution, slot)
        ):
            return "gives other numbers"
    return ""


def _given(execution: Execution, slot: int) -> Any:
    native = execution.slots[slot].native
    return native if isinstance(native, (bool, int, float)) else BALLS.lift(execution.values(slot))


def _eps(execution: Execution, slot: int) -> float:
    fmt = execution.slots[slot].format
    return max(DIGITS, 0.0 if fmt is None else 4 * fmt.unit_roundoff)


def _agree(mine: Array, theirs: Array, eps: float) -> bool:
    if mine.shape != theirs.shape:
        return False
    finite = np.isfinite(theirs)
    size = np.max(np.abs(theirs), where=finite, initial=0.0)
    return bool(np.all(np.abs(mine[finite] - theirs[finite]) <= eps * size))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take each so many-th sample")
    parser.add_argument("--ops", default="", help="names of ops, with commas between them")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # the database tells of what is deprecated in it
    names = set(filter(None, options.ops.split(",")))
    taken = [c for c in islice(checks(), 0, None, options.every) if not names or c.name in names]
    kept_out: dict[tuple[str, str], list[str]] = defaultdict(list)
    count = 0
    for check in taken:
        try:
            found = set(obstacles(check))
        except Exception as error:  # the recorder's, or PyTorch's for a dtype that it lacks
            found = {("the recorder", f"{type(error).__name__}: {error}".splitlines()[0])}
        count += not found
        for obstacle in found:
            kept_out[obstacle].append(check.title)
    for (name, reason), titles in sorted(kept_out.items(), key=lambda item: -len(item[1])):
        print(f"{len(titles):5}  {name}: {reason[:80]} ({titles[0]})")
    print(f"\n{count} of {len(taken)} samples are stated in rows: {count / max(len(taken), 1):.1%}")
    return int(count < TARGET * len(taken))


if __name__ == "__main__":
    sys.exit(main())
