"""Every differentiable operation of PyTorch, checked by gradcheck and by torch.autograd.gradcheck.

The operations and their inputs come from PyTorch's own test database (`op_db` of
torch.testing._internal.common_methods_invocations): each op
that supports autograd, in float64, at its first SAMPLES sample inputs. Both tools run on each check
in turn, in the same process, with a copy of the same tensors. Shown are the verdicts, every
disagreement with both messages and, where it is known, its explanation, and the ratio of the times.
Where the Jacobian has more than LARGEST entries, torch, which keeps some ten of its size, is not
asked, and neither time counts.

Exit code 1: a target is missed. The targets: no disagreement with torch, unless it is explained
in `opinfo_notes.py`; at most TARGET of torch's time.

    python benchmarks/opinfo.py             all of it, some ten minutes
    python benchmarks/opinfo.py --every 10  each tenth check
    python benchmarks/opinfo.py --quick     torch is asked only where gradcheck complains: no times
    python benchmarks/opinfo.py --ops cholesky,nn.functional.gelu
"""

from __future__ import annotations

import argparse
import sys
import time
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from opinfo_notes import NOTES
from torch.utils._pytree import tree_flatten, tree_unflatten

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.layer import LayerProblem, as_program
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.engines.torch.engine import TorchEngine

# PyTorch's helpers for tests derive a class from one of this package, which no operation needs.
sys.modules.setdefault("expecttest", cast(ModuleType, SimpleNamespace(TestCase=unittest.TestCase)))
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

SAMPLES = 4
TARGET = 0.5  # of the time that torch.autograd.gradcheck takes
LARGEST = 100_000_000  # entries of a Jacobian: 0.8 GB, of which torch took 22 GB for 5 times that
GRAVE = ("error", "warning")
HERE = Span(1, 1, 1, 2)


@dataclass(frozen=True, slots=True)
class Check:
    """One op at one sample: a function of the tensors that require grad, and these."""

    name: str
    sample: int
    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]
    nondet_tol: float

    @property
    def title(self) -> str:
        return f"{self.name}[{self.sample}]"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one tool said (empty: it passed), and the seconds it took."""

    complaint: str
    seconds: float


def checks() -> Iterator[Check]:
    for op in op_db:
        if not op.supports_autograd or torch.float64 not in op.supported_dtypes("cpu"):
            continue
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        torch.manual_seed(0)
        np.random.seed(0)
        samples = op.sample_inputs("cpu", torch.float64, requires_grad=True)
        for place, sample in enumerate(islice(samples, SAMPLES)):
            function, tensors = _as_function(op, sample)
            # a sparse tensor has no entries to step along one by one
            if tensors and all(tensor.layout == torch.strided for tensor in tensors):
                yield Check(name, place, function, tensors, op.gradcheck_nondet_tol)


def _as_function(op: Any, sample: Any) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    """The op at the sample as a function of what requires grad, wherever that stands."""
    leaves, tree = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [
        i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]

    def function(*given: torch.Tensor) -> Any:
        moved = list(leaves)
        for place, tensor in zip(places, given, strict=True):
            moved[place] = tensor
        first, args, kwargs = tree_unflatten(moved, tree)
        result = op.gradcheck_wrapper(op.get_op(), first, *args, **kwargs)
        return sample.output_process_fn_grad(result)

    return function, tuple(leaves[i].detach() for i in places)


def entries(check: Check) -> int:
    """Of the Jacobian; 0 where the op cannot be run."""
    try:
        result = check.function(*(tensor.clone() for tensor in check.tensors))
    except Exception:  # which both tools will tell of
        return 0
    outputs = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)]
    differentiable = [t for t in outputs if t.is_floating_point() or t.is_complex()]
    return sum(t.numel() for t in differentiable) * sum(t.numel() for t in check.tensors)


def torch_says(check: Check) -> Outcome:
    args = tuple(tensor.clone().requires_grad_() for tensor in check.tensors)
    started = time.perf_counter()
    try:
        torch.autograd.gradcheck(check.function, args, nondet_tol=check.nondet_tol)
        complaint = ""
    except Exception as error:
        complaint = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return Outcome(complaint, time.perf_counter() - started)


def gradcheck_says(engine: TorchEngine, check: Check) -> Outcome:
    started = time.perf_counter()
    answer = examine(engine, problem(check))
    seconds = time.perf_counter() - started
    if answer.failure is not None:
        return Outcome(answer.failure.message, seconds)
    grave = [_words(found) for found in answer.findings if found.severity in GRAVE]
    return Outcome("; ".join(grave), seconds)


def _words(found: Finding) -> str:
    return f"{found.code} {found.message}"


def problem(check: Check) -> LayerProblem:
    implementation = Implementation("torch", check.name, "", HERE, live=check.function)
    inputs = {
        f"x{i}": Input(f"x{i}", tensor.numpy().copy(), True)
        for i, tensor in enumerate(check.tensors)
    }
    shapes = {name: entry.value.shape for name, entry in inputs.items()}
    spec = Spec(
        name=check.name,
        source=Source("op_db", ""),
        span=HERE,
        program=as_program(implementation, shapes, ()),
        points=(inputs,),
        wrt=(),
        implementations=(implementation,),
    )
    return LayerProblem(spec, implementation, 0, "float64", ("reverse",))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take each so many-th check")
    parser.add_argument("--first", type=int, default=0, help="begin with this check")
    parser.add_argument("--ops", default="", help="names of ops, with commas between them")
    parser.add_argument("--quick", action="store_true", help="ask torch as little as possible")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # the database tells of what is deprecated in it
    names = set(filter(None, options.ops.split(",")))
    engine = TorchEngine()
    engine.load()
    taken = islice(checks(), options.first, None, options.every)
    times, tally = Counter[str](), Counter[str]()
    unexplained = 0
    for check in taken:
        if names and check.name not in names:
            continue
        ours = gradcheck_says(engine, check)
        note = NOTES.get(check.name, "")
        if options.quick and not ours.complaint:
            tally["gradcheck passes"] += 1
            continue
        if entries(check) > LARGEST:
            tally["too large for torch"] += 1
            unexplained += bool(ours.complaint) and not note
            _show(check, ours, None, note)
            continue
        theirs = torch_says(check)
        times.update(ours=ours.seconds, torch=theirs.seconds)
        tally[_class(ours, theirs)] += 1
        if bool(ours.complaint) != bool(theirs.complaint):
            unexplained += not note
            _show(check, ours, theirs, note)
        elif options.ops or ours.seconds > 5 + 5 * theirs.seconds:
            _show(check, ours, theirs, "")
    return _summary(tally, times, unexplained, timed=not options.quick)


def _class(ours: Outcome, theirs: Outcome) -> str:
    if not theirs.complaint:
        return "only gradcheck complains" if ours.complaint else "both pass"
    return "both complain" if ours.complaint else "only torch complains"


def _show(check: Check, ours: Outcome, theirs: Outcome | None, note: str) -> None:
    """`theirs` is None where torch was not asked."""
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in check.tensors)
    beside = f"torch {theirs.seconds:.2f} s" if theirs else "torch was not asked"
    print(f"{check.title}  {shapes}  {ours.seconds:.2f} s, {beside}")
    print(f"    gradcheck  {ours.complaint[:300] or 'passes'}")
    if theirs:
        print(f"    torch      {theirs.complaint[:200] or 'passes'}")
    if note:
        print(f"    because    {note}")
    sys.stdout.flush()


def _summary(tally: Counter[str], times: Counter[str], unexplained: int, timed: bool) -> int:
    print()
    for what, count in tally.most_common():
        print(f"{count:6}  {what}")
    ours, theirs = times["ours"], times["torch"]
    print(f"{tally.total():6}  checks; gradcheck {ours:.1f} s, torch {theirs:.1f} s")
    ratio = ours / theirs if theirs else 0.0
    print(
        f"ratio {ratio:.2f} (target {TARGET}); disagreements without an explanation: {unexplained}"
    )
    return int(unexplained > 0 or (timed and ratio > TARGET))


if __name__ == "__main__":
    sys.exit(main())
