"""Compares the time of `check` in this process with that of the framework's own check on the same
small layers: torch.autograd.gradcheck in slow mode, or jax.test_util.check_grads in reverse mode.

    python benchmarks/small_layers.py [--framework torch|jax] [--repeats N]

Prints for each layer the milliseconds of processor time of the framework's check, of `check` in
float64 and reverse mode, and of `check` without options (two dtypes, all modes), the ratios of the
latter two to the first, and how often each of the three runs the layer forward. The three run in
turn on one thread of one process, as in a test suite, so a busy machine slows all. The exit code is
1 if a ratio is above `MOST`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gradcheck_cli import check

MOST = {"torch": (8.0, 14.0), "jax": (15.0, 40.0)}
"""The largest ratios to the framework's time, in the same mode and by default, for any layer. On a
machine with five times as much work as cores, which slows `check` more than the framework's check,
the largest measured ratios are 6.5 and 11.3 for PyTorch, 12.3 and 30.2 for JAX."""

ALIKE = {"dtypes": ["float64"], "modes": ["reverse"]}

Layers = Mapping[str, tuple[Callable[..., Any], Sequence[Any]]]
"""By name: a layer and its inputs in float64."""


def of_torch() -> tuple[Callable[..., Any], Layers]:
    """PyTorch's check, and layers of PyTorch."""
    import torch

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

    torch.set_num_threads(1)
    torch.manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    return torch.autograd.gradcheck, {
        "Scale": (Scale.apply, (draw(2, 3), draw(3))),
        "RMSNorm": (RMSNorm.apply, (draw(2, 3), draw(3))),
        "softplus": (torch.nn.functional.softplus, (draw(6),)),
        "linear, tanh": (lambda x, w, b: torch.tanh(x @ w + b), (draw(4, 3), draw(3, 2), draw(2))),
        "layer_norm": (lambda x: torch.nn.functional.layer_norm(x, (5,)), (draw(3, 5),)),
    }


def of_jax() -> tuple[Callable[..., Any], Layers]:
    """JAX's check, and the same layers of JAX."""
    import jax
    import numpy as np
    from jax import numpy as jnp
    from jax.test_util import check_grads

    jax.config.update("jax_enable_x64", True)

    def rms_of(x: Any) -> Any:
        return jnp.sqrt((x * x).mean(-1, keepdims=True))

    scale = jax.custom_vjp(lambda x, w: x * w)
    scale.defvjp(lambda x, w: (x * w, (x, w)), lambda kept, g: (g * kept[1], (g * kept[0]).sum(0)))
    rms_norm = jax.custom_vjp(lambda x, weight: weight * x / rms_of(x))

    def back(kept: tuple[Any, Any, Any], g: Any) -> tuple[Any, Any]:
        x, weight, rms = kept
        z = g * weight
        return (z - x * (z * x).mean(-1, keepdims=True) / rms**2) / rms, (g * x / rms).sum(0)

    rms_norm.defvjp(lambda x, weight: (weight * x / rms_of(x), (x, weight, rms_of(x))), back)

    def layer_norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    numbers = np.random.default_rng(3)

    def draw(*shape: int) -> Any:
        return jnp.asarray(numbers.standard_normal(shape))

    return partial(check_grads, order=1, modes=["rev"]), {
        "Scale": (scale, (draw(2, 3), draw(3))),
        "RMSNorm": (rms_norm, (draw(2, 3), draw(3))),
        "softplus": (jax.nn.softplus, (draw(6),)),
        "linear, tanh": (lambda x, w, b: jnp.tanh(x @ w + b), (draw(4, 3), draw(3, 2), draw(2))),
        "layer_norm": (layer_norm, (draw(3, 5),)),
    }


def milliseconds(calls: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The median of each over several turns, after one that is not counted."""
    taken: list[list[float]] = [[] for _ in calls]
    for turn in range(repeats + 1):
        for call, mine in zip(calls, taken, strict=True):
            started = time.process_time()
            call()
            if turn:
                mine.append(time.process_time() - started)
    return [1e3 * statistics.median(mine) for mine in taken]


def forward_runs(own: Callable[..., Any], layer: Callable[..., Any], inputs: Sequence[Any]) -> str:
    """How often the framework's check, `check` in the same dtype and mode, and plain `check` run
    the layer."""
    runs = 0

    def counted(*given: Any) -> Any:
        nonlocal runs
        runs += 1
        return layer(*given)

    found = []
    for call in (
        partial(own, counted, inputs),
        partial(check, counted, *inputs, **ALIKE),
        partial(check, counted, *inputs),
    ):
        call()  # the program of a layer is recorded at its first check
        runs = 0
        call()
        found.append(f"{runs:3}")
    return " ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--framework", choices=MOST, default="torch")
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    own, layers = of_torch() if given.framework == "torch" else of_jax()
    # any finding, even a note, takes more work
    assert not any(check(layer, *inputs).findings for layer, inputs in layers.values())
    print(
        f"{'layer':14} {given.framework:>8} {'same':>8} {'times':>6} {'default':>8} {'times':>6}   "
        "forward runs"
    )
    worst = [0.0, 0.0]
    for name, (layer, inputs) in layers.items():
        calls = (
            partial(own, layer, inputs),
            partial(check, layer, *inputs, **ALIKE),
            partial(check, layer, *inputs),
        )
        theirs, same, default = milliseconds(calls, given.repeats)
        print(
            f"{name:14} {theirs:8.2f} {same:8.2f} {same / theirs:6.1f} {default:8.2f} "
            f"{default / theirs:6.1f}   {forward_runs(own, layer, inputs)}",
            flush=True,
        )
        worst = [max(worst[0], same / theirs), max(worst[1], default / theirs)]
    most = MOST[given.framework]
    if worst[0] > most[0] or worst[1] > most[1]:
        sys.exit(
            f"more than {most[0]:g} times {given.framework}'s in the same mode, "
            f"or {most[1]:g} by default"
        )


if __name__ == "__main__":
    main()
