"""python -m tests.fuzz: random inputs for everything that must hold for every input.

    python -m tests.fuzz                            10,000 inputs of all kinds
    python -m tests.fuzz --times 10                 100,000
    python -m tests.fuzz formulas --inputs 500      one kind
    python -m tests.fuzz formulas --seed 7 --only 123    one input again

Without --seed, a new seed is drawn and printed.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import nullcontext

from tests.fuzz.backwards import Backwards
from tests.fuzz.compositions import Compositions
from tests.fuzz.driver import Fuzzer, Processes, fuzz
from tests.fuzz.formulas import Formulas
from tests.fuzz.layers import Layers
from tests.fuzz.oddities import Oddities
from tests.fuzz.signals import Signals
from tests.fuzz.specs import Specs

FUZZERS: dict[str, tuple[Callable[[], Fuzzer], int]] = {
    "specs": (Specs, 8770),
    "formulas": (Formulas, 460),
    "backwards": (Backwards, 360),
    "compositions": (Compositions, 60),
    "oddities": (Oddities, 300),
    "layers": (Layers, 40),
    "signals": (Signals, 10),
}
"""Name -> the fuzzer, and how many of 10,000 inputs are its."""


os.environ["GRADCHECK_NO_CACHE"] = "1"  # every input is run


def main(arguments: list[str]) -> int:
    """Exit code 0 without a finding, 1 with one."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(FUZZERS))
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--times", type=float, default=1.0, help="of the 10,000 inputs")
    parser.add_argument("--inputs", type=int, help="of each kind, in place of its share")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes: one a processor"
    )
    parser.add_argument("--only", type=int, help="the number of one input")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.kinds) - FUZZERS.keys()
    if unknown:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(FUZZERS)}")
    seed = secrets.randbelow(1 << 32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    told = []
    with Processes(chosen.jobs) if chosen.only is None else nullcontext() as processes:
        for name in chosen.kinds or FUZZERS:
            make, share = FUZZERS[name]
            if processes is None:
                told.append(fuzz(make(), seed, [[chosen.only]]))
            else:
                count = round(share * chosen.times) if chosen.inputs is None else chosen.inputs
                told.append(processes.fuzz(make, seed, range(count)))
            print(told[-1], flush=True)
    findings = sum(len(figures.findings) for figures in told)
    inputs, seconds = sum(f.inputs for f in told), sum(f.seconds for f in told)
    processor = sum(figures.processor for figures in told)
    print(
        f"{inputs} inputs, {findings} findings, {seconds:.0f} s ({processor:.0f} s of processors), "
        f"seed {seed}"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
