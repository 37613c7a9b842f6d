"""Compares a compiled check with compiling the same function by hand and running it once with its
backward pass.

    python benchmarks/compiled.py [ENGINE...] [--repeats N] [--more N]

Both sides run in turn, in processes of their own, and are measured in processor seconds of the
whole tree of processes, user and system; each number is a median. "with the start" is a run of one
check: by hand, Python starts, imports the framework, compiles one function and runs it once with
its backward pass. Both sides compile one program for value and gradients, in float32; the output is
a number, so that one backward pass gives the whole Jacobian. gradcheck also reads the spec,
computes the truth, for formulas in a second process, and prints the report. Of a layer it evaluates
the value in float64, and the gradient where float32 has lost digits: JAX compiles a program for
each, without optimising. "one more" is what each further function adds on either side. All caches
on disk are off, and the functions differ in a constant, so that each is compiled. The exit code is
1 if a check takes more than TARGET times as long as by hand.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from timing import medians, processor_seconds

TARGET = 1.2
GRADCHECK = (sys.executable, "-m", "gradcheck_cli", "run")
ENGINES = ("torch-compile", "tensorflow-xla", "jax-jit")
WITHOUT_CACHES = {
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "JAX_ENABLE_COMPILATION_CACHE": "0",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}

VALUES = {
    "x": [[0.3, -1.2, 0.8, 0.1], [1.1, 0.4, -0.7, 0.9], [-0.2, 0.6, 1.3, -1.1]],
    "w": [[0.5, -0.4], [0.2, 0.9], [-0.8, 0.3], [0.7, -0.1]],
}
MODEL = "sum(log(1 + exp(tanh(x @ w * {c}) * {c})) / sqrt(1 + exp(-{c} * (x @ w))))"
SPEC = "name: {name}\ninputs: {{x: {x}, w: {w}}}\ndtypes: [float32]\nmodes: [reverse]\n{subject}\n"
BODIES = {
    "torch-compile": "torch.sum(torch.log(1 + torch.exp(torch.tanh(x @ w * {c}) * {c}))"
    " / torch.sqrt(1 + torch.exp(-{c} * (x @ w))))",
    "tensorflow-xla": "tf.reduce_sum(tf.math.log(1 + tf.exp(tf.tanh(x @ w * {c}) * {c}))"
    " / tf.sqrt(1 + tf.exp(-{c} * (x @ w))))",
    "jax-jit": "jnp.sum(jnp.log(1 + jnp.exp(jnp.tanh(x @ w * {c}) * {c}))"
    " / jnp.sqrt(1 + jnp.exp(-{c} * (x @ w))))",
}
IMPORTS = {
    "torch-compile": "import torch",
    "tensorflow-xla": "import tensorflow as tf",
    "jax-jit": "import jax.numpy as jnp",
}
BY_HAND = {
    "torch-compile": """
import torch
import layers
for n in range({count}):
    x, w = (torch.tensor(one, requires_grad=True) for one in ({x}, {w}))
    torch.compile(getattr(layers, f"layer{{n}}"))(x, w).backward()
""",
    "tensorflow-xla": """
import tensorflow as tf
import layers
for n in range({count}):
    layer, x, w = getattr(layers, f"layer{{n}}"), tf.constant({x}), tf.constant({w})
    @tf.function(jit_compile=True)
    def step(x, w):
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = layer(x, w)
        return y, tape.gradient(y, (x, w))
    step(x, w)
""",
    "jax-jit": """
import jax
import layers
for n in range({count}):
    x, w = jax.numpy.array({x}), jax.numpy.array({w})
    step = jax.jit(jax.value_and_grad(getattr(layers, f"layer{{n}}"), (0, 1)))
    jax.block_until_ready(step(x, w))
""",
}


@dataclass(frozen=True, slots=True)
class Row:
    """What is checked, with commands for one and for several functions, gradcheck's and those by
    hand."""

    what: str
    ours: tuple[tuple[str, ...], tuple[str, ...]]
    by_hand: tuple[tuple[str, ...], tuple[str, ...]]


def rows(folder: Path, engine: str, more: int) -> Iterator[Row]:
    """The formula and the layer for one engine, written to the folder."""
    # smaller ones saturate no function, so that nothing is found, and no cause is looked for
    constants = [round(1 - n / 16, 4) for n in range(1 + more)]
    body = BODIES[engine]
    layers = [
        f"def layer{n}(x, w):\n    return {body.format(c=c)}" for n, c in enumerate(constants)
    ]
    (folder / "layers.py").write_text("\n\n\n".join([IMPORTS[engine], *layers]) + "\n", "utf-8")
    subjects = {
        "formula": [f"model: {MODEL.format(c=c)}" for c in constants],
        "layer": [f"implementations: {{{engine}: layers.py:layer{n}}}" for n in range(1 + more)],
    }
    hands = [
        (sys.executable, "-c", BY_HAND[engine].format(count=count, **VALUES))
        for count in (1, 1 + more)
    ]
    for what, several in subjects.items():
        files = []
        for count in (1, 1 + more):
            specs = [
                SPEC.format(name=f"{what}{n}", subject=one, **VALUES)
                for n, one in enumerate(several[:count])
            ]
            files.append(f"{what}s{count}.yaml")
            (folder / files[-1]).write_text("---\n".join(specs), "utf-8")
        first, last = (
            (*GRADCHECK, name, "--engine", engine, "--no-cache", "--jobs", "1") for name in files
        )
        yield Row(what, (first, last), (hands[0], hands[1]))


def seconds(command: Sequence[str], folder: Path) -> float:
    """Processor seconds of one command. Raises CalledProcessError if it fails."""
    variables = {**os.environ, **WITHOUT_CACHES, "PYTHONPATH": str(folder)}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # the first call compiles what has changed
    return processor_seconds(command, folder, variables, stderr=subprocess.DEVNULL)


def measured(row: Row, folder: Path, repeats: int) -> list[float]:
    """Medians of the four commands. The first call of each is dropped."""
    commands = (*row.ours, *row.by_hand)
    return medians(commands, lambda command: seconds(command, folder), repeats)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", default=ENGINES, metavar="ENGINE")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--more", type=int, default=5, help="functions beside the first")
    options = parser.parse_args()
    missed = 0
    print(f"{'gradcheck':>10} {'by hand':>9} {'ratio':>6}")
    for engine in options.engines:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for row in rows(folder, engine, options.more):
                one, many, hand_one, hand_many = measured(row, folder, options.repeats)
                pairs = {
                    "with the start": (one, hand_one),
                    "one more": (
                        (many - one) / options.more,
                        (hand_many - hand_one) / options.more,
                    ),
                }
                for which, (mine, other) in pairs.items():
                    late = mine / other > TARGET
                    missed += late
                    words = f"{engine}, {row.what}, {which}{', MISSED' if late else ''}"
                    print(f"{mine:9.3f}s {other:8.3f}s {mine / other:6.2f}  {words}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
