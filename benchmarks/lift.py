"""Measures how many of PyTorch's own operations can be lifted to rows of the op table.

The operations and their inputs are those of `gradcheck suite torch-ops`, in float64. The forward of
each is recorded and written as a program (`engines/layer/lifting.py`), and each step is compared
with PyTorch's result. The output is the share of lifted samples, and the reasons for the others.

The exit code is 1 if less than TARGET of the samples were lifted. For a part of the samples, the
share may be lower by two standard deviations, because chance decides which samples it has.

    python benchmarks/lift.py               all of it, some five minutes
    python benchmarks/lift.py --every 10    each tenth sample
    python benchmarks/lift.py --ops cholesky,nn.functional.gelu
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections import defaultdict
from itertools import islice

from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.cli.suite import SAMPLES
from gradcheck_cli.domain.layer import LayerProblem
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.suite import SuiteRequest
from gradcheck_cli.engines.kit.suite import listing
from gradcheck_cli.engines.torch.engine import TorchEngine
from gradcheck_cli.run.suite import specs_of

MODULE = "gradcheck_cli.engines.torch.suite"
TARGET = 0.9


def obstacle(engine: TorchEngine, spec: Spec) -> str:
    """Why the sample cannot be lifted; empty if it can."""
    problem = LayerProblem(spec, spec.implementations[0], 0, "float64", ("reverse",))
    try:
        Subjects(engine, problem).bound("float64").lift().without_islands()
    except Exception as error:  # also PyTorch's own, of dtypes and layouts that it lacks
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take each so many-th sample")
    parser.add_argument("--ops", default="", help="names of ops, with commas between them")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # about deprecated operations in the database
    engine = TorchEngine()
    engine.load()
    names = options.ops.split(",") if options.ops else listing(SuiteRequest(MODULE)).names
    samples = listing(SuiteRequest(MODULE, tuple(names), SAMPLES)).samples
    kept_out: dict[str, list[str]] = defaultdict(list)
    count = 0
    for spec in islice(specs_of("torch-ops", samples, ("torch",)), 0, None, options.every):
        count += 1
        if reason := obstacle(engine, spec):
            kept_out[reason].append(spec.name)
    for reason, titles in sorted(kept_out.items(), key=lambda item: -len(item[1])):
        print(f"{len(titles):5}  {reason[:120]} ({titles[0]})")
    lifted = count - sum(len(titles) for titles in kept_out.values())
    print(f"\n{lifted} of {count} samples are lifted: {lifted / max(count, 1):.1%}")
    chance = math.sqrt(count * TARGET * (1 - TARGET)) if options.every > 1 else 0.0
    return int(lifted < TARGET * count - 2 * chance)


if __name__ == "__main__":
    sys.exit(main())
