"""Compares the cost of a certified gradient of a layer with that of its own backward in float64.

    python benchmarks/lifted_layer.py [PARAMETERS|mlp|convolutions|attention|elementwise ...]

All layers with 1e4, 1e5 and 1e6 parameters, unless some are named.

The layer is lifted once. Its truth along a cotangent (`cotangent @ J` of all leaves) and along a
direction (`J @ tangent`) is then enclosed in float balls. The unit of both costs is a pass of the
layer: forward and backward in float64. Both sides run in turn on one thread, so that a busy machine
slows both. The table has the fastest of each, in processor time, and the memory beyond the layer's
own pass. The exit code is 1 if a truth costs more than MOST passes.
"""

from __future__ import annotations

import math
import os
import sys
import time
import tracemalloc
from collections.abc import Callable

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as in workers; read when NumPy is imported

import numpy as np
import torch
from torch import nn

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.certified.lifted import LiftedTruth
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.layer import LayerProblem
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.engines.torch.engine import TorchEngine

MOST = 100.0
PARAMETERS = (1e4, 1e5, 1e6)
REPEATS = 7
BATCH = 16


class Attention(nn.Module):
    """A block of a transformer with twelve square matrices."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(
            size, 4, 4 * size, dropout=0.0, batch_first=True, activation="gelu"
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x)


class Elementwise(nn.Module):
    """A gate with its own weights for every number."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(size)), nn.Parameter(torch.randn(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.a * x) * torch.tanh(self.b * x) + torch.exp(-x * x)


def mlp(parameters: int) -> tuple[nn.Module, torch.Tensor]:
    size = math.isqrt(parameters // 2)
    layers = nn.Sequential(nn.Linear(size, size), nn.Tanh(), nn.Linear(size, size))
    return layers, torch.randn(BATCH, size)


def convolutions(parameters: int) -> tuple[nn.Module, torch.Tensor]:
    channels = max(4, math.isqrt(parameters // 18))
    net = nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(channels, channels, 3, padding=1, stride=2),
        nn.AdaptiveAvgPool2d(1),
    )
    return net, torch.randn(2, channels, 8, 8)


def attention(parameters: int) -> tuple[nn.Module, torch.Tensor]:
    size = max(8, 4 * (math.isqrt(parameters // 12) // 4))
    return Attention(size), torch.randn(2, BATCH, size)


def elementwise(parameters: int) -> tuple[nn.Module, torch.Tensor]:
    return Elementwise(parameters // 2), torch.randn(parameters // 2)


Make = Callable[[int], tuple[nn.Module, torch.Tensor]]
LAYERS: dict[str, Make] = {
    make.__name__: make for make in (mlp, convolutions, attention, elementwise)
}


def bound(layer: nn.Module, x: torch.Tensor) -> BoundLayer:
    """A layer as a check in float64 binds it."""
    engine = TorchEngine()
    engine.load()
    span = Span(1, 1, 1, 2)
    implementation = Implementation("torch", type(layer).__name__, ".", span, live=layer)
    spec = Spec(
        name="layer",
        source=Source("layer.py", ""),
        span=span,
        program=Program((), {}, (), ""),
        points=({"x": Input("x", x.numpy().astype(np.float64), True)},),
        wrt=(),
        implementations=(implementation,),
    )
    problem = LayerProblem(spec, implementation, 0, "float64", ("reverse",))
    subjects = Subjects(engine, problem)
    subject = subjects.bound("float64")
    return BoundLayer("torch", problem, subject, subject, subjects.bound)


def passes(
    net: nn.Module, x: torch.Tensor, cotangent: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> Callable[[], object]:
    """A forward and a backward pass, with gradients of all parameters and of the input."""
    x.requires_grad_()
    leaves = [x, *net.parameters()]

    def run() -> object:
        y = net(x)
        return torch.autograd.grad(y, leaves, torch.from_numpy(cotangent).reshape(y.shape))

    return run


def seconds(call: Callable[[], object]) -> float:
    """The processor seconds of a call."""
    started = time.process_time()
    call()
    return time.process_time() - started


def row(make: Make, parameters: int) -> float:
    """Print the row of one layer. Returns the cost of the more expensive truth, in passes."""
    torch.manual_seed(0)
    net, x = make(parameters)
    layer = bound(net, x)
    subject = layer.highest
    truth = LiftedTruth(layer)
    rng = generator(0, 1)
    cotangent = rng.standard_normal(sum(output.size for output in subject.outputs))
    moving = [leaf for leaf in subject.leaves if leaf.differentiable]
    tangents = {truth.words[leaf.name]: rng.standard_normal(leaf.size) for leaf in moving}
    own_pass = passes(net.double(), x.double(), cotangent)
    found: dict[str, list[float]] = {"pass": [], "vjp": [], "jvp": []}
    for _ in range(REPEATS):
        found["pass"] += [seconds(own_pass) for _ in range(REPEATS)]
        found["vjp"].append(seconds(lambda: truth.products().pulled(cotangent)))
        found["jvp"].append(seconds(lambda: truth.products().pushed(tangents)))
    tracemalloc.start()
    truth.products().pulled(cotangent)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    own, pulled, pushed = (min(times) for times in found.values())
    count = sum(leaf.size for leaf in moving if leaf.role == "parameter")
    print(
        f"{make.__name__:14}{count:9}{own * 1e3:11.2f} ms{pulled / own:8.1f}{pushed / own:8.1f}"
        f"{memory / 8 / sum(leaf.size for leaf in moving):10.1f}"
    )
    return max(pulled, pushed) / own


def main() -> int:
    torch.set_num_threads(1)
    given = sys.argv[1:]
    sizes = [float(word) for word in given if word not in LAYERS] or PARAMETERS
    makes = [LAYERS[word] for word in given if word in LAYERS] or LAYERS.values()
    print("layer         parameters   its pass  vjp    jvp   memory, in arrays of the leaves")
    worst = max(row(make, int(size)) for size in sizes for make in makes)
    print(f"at most {worst:.1f} passes; {MOST:.0f} are allowed")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
