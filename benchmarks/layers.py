"""Compares the cost of checking a PyTorch layer with that of torch.autograd.gradcheck.

The script counts the forward runs and backward passes of the layer itself, and measures the
processor time of one check in float64 on one thread, which excludes other work on the machine. Both
sides run in turn, so that a slow moment affects both. Memory is the peak of separate processes,
above the memory of imports and data. The exit code is 1 if a target is missed. Causes are not
searched for, because torch.autograd.gradcheck reports none.

    python benchmarks/layers.py
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem, as_program
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.engines.torch.engine import TorchEngine

SPAN = Span(1, 1, 1, 1)
SLOW = 100.0  # at least this many times faster than gradcheck
FAST = 3.0  # at most this many times the time of gradcheck with fast_mode
MEMORY = 5.0  # at most this many times the memory of one forward and one backward
REPEATS = 100


@dataclass
class Counted:
    """A layer that counts its own runs."""

    forward: Callable[[Any], Any]
    backward: Callable[[Any, Any], Any]
    forwards: int = 0
    backwards: int = 0
    function: Any = field(init=False)

    def __post_init__(self) -> None:
        outer = self

        class Layer(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                outer.forwards += 1
                ctx.save_for_backward(x)
                return outer.forward(x)

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                outer.backwards += 1
                return outer.backward(g, ctx.saved_tensors[0])

        self.function = Layer


def problem_of(layer: Any, inputs: Mapping[str, Any], dtype: str = "float64") -> LayerProblem:
    """The question whether the gradients of a live layer are right."""
    implementation = Implementation("torch", "layer", "", SPAN, live=layer)
    spec = Spec(
        name="layer",
        source=Source("layer.yaml", ""),
        span=SPAN,
        program=as_program(implementation, {name: v.shape for name, v in inputs.items()}, ()),
        points=({name: Input(name, v, True) for name, v in inputs.items()},),
        wrt=(),
        implementations=(implementation,),
    )
    return LayerProblem(spec, implementation, 0, dtype, ("reverse",))


def checked(engine: TorchEngine, layer: Any, x: Any) -> LayerAnswer:
    return examine(engine, problem_of(layer, {"x": x}), blaming=False)


def is_wrong(answer: LayerAnswer) -> bool:
    return any(finding.severity == "error" for finding in answer.findings)


def fastest(*works: Callable[[], Any], repeats: int = REPEATS) -> list[float]:
    """The processor seconds of the fastest of several runs, which are made in turn."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, took in zip(works, times, strict=True):
            started = time.process_time()
            work()
            took.append(time.process_time() - started)
    return [min(took) for took in times]


def sines() -> Counted:
    return Counted(
        lambda x: (torch.sin(x) * x).sum(), lambda g, x: g * (torch.cos(x) * x + torch.sin(x))
    )


def one_wrong(matrix: Any) -> Counted:
    """1000 outputs of 1000 inputs, with one entry of the Jacobian wrong by 1e-5."""

    def backward(g: Any, x: Any) -> Any:
        result = (g @ matrix) * torch.cos(x)
        result[456] += g[123] * matrix[123, 456] * torch.cos(x[456]) * 1e-5
        return result

    return Counted(lambda x: matrix @ torch.sin(x), backward)


def many_inputs(engine: TorchEngine) -> bool:
    """5120 inputs and one output: the times of both."""
    x = np.random.default_rng(0).standard_normal(5120)
    tensor = torch.tensor(x, requires_grad=True)
    layer = sines()
    apply = layer.function.apply
    checked(engine, layer.function, x)  # excludes imports at first use
    torch.autograd.gradcheck(apply, (tensor,), fast_mode=True)
    ours, fast = fastest(
        lambda: checked(engine, layer.function, x),
        lambda: torch.autograd.gradcheck(apply, (tensor,), fast_mode=True),
    )
    (slow,) = fastest(lambda: torch.autograd.gradcheck(apply, (tensor,)), repeats=1)
    layer.forwards = layer.backwards = 0
    right = not is_wrong(checked(engine, layer.function, x))
    met = slow / ours >= SLOW and ours / fast <= FAST and right
    print(
        f"5120 inputs          gradcheck {slow * 1e3:.0f} ms, fast_mode {fast * 1e3:.1f} ms, here "
        f"{ours * 1e3:.1f} ms: {slow / ours:.0f}x faster than gradcheck (target {SLOW:.0f}), "
        f"{ours / fast:.2f}x fast_mode (target {FAST:.0f}); {layer.forwards} forwards, "
        f"{layer.backwards} backwards  {_verdict(met)}"
    )
    return met


def wrong_entry(engine: TorchEngine) -> bool:
    """One wrong entry in a million: who finds it, and the cost of naming it."""
    rng = np.random.default_rng(0)
    layer = one_wrong(torch.tensor(rng.standard_normal((1000, 1000))))
    x = rng.standard_normal(1000)
    answer = checked(engine, layer.function, x)
    places = [entry.index for finding in answer.findings for entry in finding.entries]
    forwards, backwards = layer.forwards, layer.backwards
    tensor = torch.tensor(x, requires_grad=True)
    fast = torch.autograd.gradcheck(
        layer.function.apply, (tensor,), fast_mode=True, raise_exception=False
    )
    met = places == [(123, 456)] and forwards <= 200 and backwards <= 25
    print(
        f"1000 x 1000, 1 wrong {places} named with {forwards} forwards (target 200) and "
        f"{backwards} backwards (target 25); fast_mode {'passes' if fast else 'fails'}  "
        f"{_verdict(met)}"
    )
    return met


class Dense(torch.nn.Module):
    """A layer with a million parameters."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(1000, 1000, dtype=torch.float64) / 32)

    def forward(self, x: Any) -> Any:
        return torch.tanh(_Count.apply(x @ self.weight))


class _Count(torch.autograd.Function):
    """The identity, which counts its calls."""

    runs = [0, 0]  # noqa: RUF012  counted by static methods

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        _Count.runs[0] += 1
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        _Count.runs[1] += 1
        return g.clone()


BATCH = 64


def million(engine: TorchEngine) -> bool:
    """A million parameters: the number of runs, the claim, and whether one error of 1e-6 of the
    gradient is found."""
    x = np.random.default_rng(0).standard_normal((BATCH, 1000))
    _Count.runs = [0, 0]
    started = time.process_time()
    answer = checked(engine, Dense(), x)
    seconds = time.process_time() - started
    forwards, backwards = _Count.runs
    promise = next((note for note in answer.notes if "would have been found" in note), "")
    own, ours = (_peak_of(what) for what in ("own", "check"))
    met = forwards <= 60 and backwards <= 12 and ours / own <= MEMORY and not is_wrong(answer)
    print(
        f"1 million parameters {forwards} forwards (target 60), {backwards} backwards (target 12), "
        f"{seconds:.1f} s; peak {ours:.0f} MB, {ours / own:.1f}x the {own:.0f} MB of the layer's "
        f"own forward and backward (target {MEMORY:.0f})  {_verdict(met)}\n{'':21}{promise}"
    )
    return met


def _peak_of(what: str) -> float:
    """Megabytes above the start, in a separate process."""
    command = [sys.executable, __file__, what]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _measure(what: str) -> None:
    """Print the peak memory of one piece of work, above the memory in use before it."""
    engine = TorchEngine()
    engine.load()
    small = np.random.default_rng(0).standard_normal((4, 1000))
    checked(engine, torch.nn.Linear(1000, 3, dtype=torch.float64), small)  # imports
    layer, x = Dense(), np.random.default_rng(0).standard_normal((BATCH, 1000))
    before = _reset_peak()
    if what == "own":
        tensor = torch.tensor(x, requires_grad=True)
        layer(tensor).sum().backward()
    else:
        checked(engine, layer, x)
    print((_peak() - before) / 1024)


def _reset_peak() -> float:
    """Kilobytes in use. The peak is counted from here on (Linux, see proc(5): clear_refs)."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return _status("VmRSS")


def _peak() -> float:
    return _status("VmHWM")


def _status(name: str) -> float:
    with open("/proc/self/status", encoding="ascii") as file:
        lines = dict(line.split(":", 1) for line in file)
    return (
        float(lines[name].split()[0])
        if name in lines
        else float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    )


def _verdict(met: bool) -> str:
    return "ok" if met else "MISSED"


def main() -> int:
    if len(sys.argv) > 1:
        _measure(sys.argv[1])
        return 0
    engine = TorchEngine()
    engine.load()
    torch.set_num_threads(1)
    return 0 if all([many_inputs(engine), wrong_entry(engine), million(engine)]) else 1


if __name__ == "__main__":
    sys.exit(main())
