"""Measures what each replacement in a framework gains: processor time with it, and without it.

    python benchmarks/replacements.py [--count 60] [--repeats 7] [--only NAME]

Replacements are named as in GRADCHECK_PLAIN_FRAMEWORKS, which switches them off. One formula shows
the effect on starting up; several formulas and a training path show the effect on running. The exit
code is 1 if a replacement gains less than WORTH in all of them, and so is not worth its place.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from against import HERE, MANY, REPEATS, Workload, compared, environment, workloads

from gradcheck_cli.engines.jax.startup import CONTEXTS, EQUATIONS
from gradcheck_cli.engines.kit.startup import SWITCH
from gradcheck_cli.engines.tensorflow.startup import IMPORTS
from gradcheck_cli.engines.torch.startup import COMPILER, DECOMPOSITIONS

WORTH = 0.05  # of the processor time of a run
TRAINING = HERE / "specs" / "examples" / "linear_regression_trained.yaml"
REPLACED = {
    COMPILER: "torch",
    DECOMPOSITIONS: "torch",
    IMPORTS: "tensorflow",
    CONTEXTS: "jax",
    EQUATIONS: "jax",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=MANY, help="formulas of a longer run")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--only", default="", choices=["", *REPLACED])
    given = parser.parse_args()
    missed = 0
    print(f"{'':20} {'':15} {'with':>8} {'without':>8} {'gain':>6}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variables = environment(HERE, folder)
        workloads(folder, given.count)
        for part, engine in REPLACED.items():
            if given.only not in ("", part):
                continue
            best = 0.0
            for what, specs in (
                ("one formula", folder / "one-formulas"),
                (f"{given.count} formulas", folder / "many-formulas"),
                ("a training path", TRAINING),
            ):
                workload = Workload(part, (str(specs), "--engine", engine))
                sides = (variables, {**variables, SWITCH: part})
                used, plain = compared(workload, sides, folder, given.repeats)
                gain = 1 - used.seconds / plain.seconds
                best = max(best, gain)
                times = f"{used.seconds:7.2f}s {plain.seconds:7.2f}s {gain:6.1%}"
                print(f"{part:20} {what:15} {times}", flush=True)
            missed |= best < WORTH
    return missed


if __name__ == "__main__":
    sys.exit(main())
