"""How long `check` takes in process, beside torch.autograd.gradcheck on the same small layers.

    python benchmarks/small_layers.py [--repeats N]

Prints for each layer the milliseconds of processor time of torch's slow mode, of `check` in the
same dtype and mode, and of `check` without options (two dtypes, both modes), how many times
torch's these are, and how often each of the three runs the layer forward. All run in turn on one
thread of one process: a busy machine slows all. Ends with 1 where a layer takes more times torch's
than `SAME` and `DEFAULT` allow.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from gradcheck_cli import check

SAME, DEFAULT = 9.0, 15.0
"""Times torch's, for any of the layers. On a machine with nine times as much to do as it has cores,
where a check loses more to it than torch does, the most that was measured is 8.2 and 14.2."""


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, w = ctx.saved_tensors
        return g * w, (g * x).sum(0)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        rms = (x * x).mean(-1, keepdim=True).sqrt()
        ctx.save_for_backward(x, weight, rms)
        return weight * x / rms

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, weight, rms = ctx.saved_tensors
        z = g * weight
        return (z - x * (z * x).mean(-1, keepdim=True) / rms**2) / rms, (g * x / rms).sum(0)


def layers() -> Mapping[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]]:
    """By name: a layer and its inputs in float64."""
    torch.manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    return {
        "Scale": (Scale.apply, (draw(2, 3), draw(3))),
        "RMSNorm": (RMSNorm.apply, (draw(2, 3), draw(3))),
        "softplus": (torch.nn.functional.softplus, (draw(6),)),
        "linear, tanh": (lambda x, w, b: torch.tanh(x @ w + b), (draw(4, 3), draw(3, 2), draw(2))),
        "layer_norm": (lambda x: torch.nn.functional.layer_norm(x, (5,)), (draw(3, 5),)),
    }


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    """The median of several runs, after one that is not counted."""
    call()
    taken = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        taken.append(time.process_time() - started)
    return 1e3 * statistics.median(taken)


def forward_runs(layer: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> str:
    """How often torch's check, `check` in the same dtype and mode, and `check` run the layer."""
    runs = 0

    def counted(*given: torch.Tensor) -> Any:
        nonlocal runs
        runs += 1
        return layer(*given)

    found = []
    for call in (
        partial(torch.autograd.gradcheck, counted, inputs),
        partial(check, counted, *inputs, dtypes=["float64"], modes=["reverse"]),
        partial(check, counted, *inputs),
    ):
        call()  # the program of a layer is recorded at its first check
        runs = 0
        call()
        found.append(f"{runs:3}")
    return " ".join(found)


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    assert all(check(layer, *inputs).passed for layer, inputs in layers().values())
    print(
        f"{'layer':14} {'torch':>8} {'same':>8} {'times':>6} {'default':>8} {'times':>6}   "
        "forward runs"
    )
    worst = [0.0, 0.0]
    for name, (layer, inputs) in layers().items():
        slow = milliseconds(partial(torch.autograd.gradcheck, layer, inputs), repeats)
        alike = partial(check, layer, *inputs, dtypes=["float64"], modes=["reverse"])
        same = milliseconds(alike, repeats)
        default = milliseconds(partial(check, layer, *inputs), repeats)
        print(
            f"{name:14} {slow:8.2f} {same:8.2f} {same / slow:6.1f} {default:8.2f} "
            f"{default / slow:6.1f}   {forward_runs(layer, inputs)}"
        )
        worst = [max(worst[0], same / slow), max(worst[1], default / slow)]
    if worst[0] > SAME or worst[1] > DEFAULT:
        sys.exit(f"more than {SAME:g} times torch's in the same mode, or {DEFAULT:g} by default")


if __name__ == "__main__":
    main()
