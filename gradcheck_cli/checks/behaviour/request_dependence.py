"""Check whether the request for certain gradients or outputs changes the answer (GC608)."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator

import numpy as np

from gradcheck_cli.checks.behaviour.baseline import Bench, Fault, raised
from gradcheck_cli.domain.behaviour import OtherRun
from gradcheck_cli.domain.codes import Codes, Severity
from gradcheck_cli.engines.layer.capture import of_a_library
from gradcheck_cli.engines.layer.subject import Call

_REQUIRES_GRADIENT = re.compile(r"requires?[ _]grad")
_REFUSAL = re.compile(r"\b(raise|assert)\b")

MOST = 4  # the most subsets and outputs to request alone; a mistake shows in the first few


def requested(bench: Bench) -> Iterator[Fault]:
    """The first answer that depends on which leaves are differentiated."""
    untracked = list(_without_gradients(bench))
    yield from untracked
    needs_graph = any(fault.severity == "note" for fault in untracked)
    if needs_graph or not untracked:
        yield from _some_gradients(bench, needs_graph)


def _without_gradients(bench: Bench) -> Iterator[Fault]:
    """Run without gradients. A refusal because the graph is missing is a note: the layer
    differentiates with respect to its inputs, registers a hook or checks for gradients, and returns
    no wrong number. Any other exception hits everyone who only evaluates the layer."""
    where, other = "when no gradients are tracked", OtherRun("untracked")
    try:
        ran = bench.subject.run(Call(tracking=False))
    except Exception as error:
        refused = _lacks_graph(error) or _is_refusal(error)
        severity: Severity | None = "note" if refused else None
        yield raised(Codes.REQUEST_DEPENDENT, where, error, other, severity)
        return
    apart = bench.differ(bench.first, ran, ())
    if apart is not None:
        yield apart.fault(Codes.REQUEST_DEPENDENT, apart.depending(where), other)


def _lacks_graph(error: Exception) -> bool:
    """Whether the error says that something does not require a gradient."""
    return isinstance(error, RuntimeError) and bool(_REQUIRES_GRADIENT.search(str(error)))


def _is_refusal(error: Exception) -> bool:
    """Whether a `raise` or `assert` of the user's own code raised it, not a failing operation."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or of_a_library(trace.tb_frame.f_globals.get("__name__")):
        return False
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return bool(_REFUSAL.search(line))


def subsets(bench: Bench) -> list[tuple[str, ...]]:
    """Subsets of leaves to request: all inputs, all parameters, and each input alone; only the
    first of them for a compiled layer, which is compiled for each."""
    inputs = tuple(n for n, leaf in bench.leaves.items() if leaf.role == "input")
    others = tuple(n for n in bench.leaves if n not in inputs)
    sets = [inputs, others, *((name,) for name in inputs)]
    wanted = [s for s in dict.fromkeys(sets) if s and s != tuple(bench.leaves)]
    return wanted[: 1 if bench.subject.stages else MOST]


def _some_gradients(bench: Bench, needs_graph: bool) -> Iterator[Fault]:
    for wrt in subsets(bench):
        where = f"where only {_listed(wrt)} requires a gradient"
        other = OtherRun("some leaves", names=wrt)
        try:
            ran = bench.run(Call(wrt=wrt))
        except Exception as error:
            if needs_graph and _lacks_graph(error):
                continue  # it needs the graph of another input
            yield raised(Codes.REQUEST_DEPENDENT, where, error, other)
            return
        apart = bench.differ(bench.first, ran, wrt)
        if apart is not None:
            yield apart.fault(Codes.REQUEST_DEPENDENT, apart.depending(where), other)
            return


def used_outputs(bench: Bench) -> Iterator[Fault]:
    """The first answer that depends on which outputs are used."""
    outputs = bench.subject.outputs
    for output in outputs[:MOST] if len(outputs) > 1 else ():
        row = np.zeros(bench.size)
        inside = slice(output.start, output.start + output.size)
        row[inside] = bench.row[inside]
        where = f"where `{output.name}` is the only output in use"
        other = OtherRun("one output", names=(output.name,))
        whole = bench.run(row=row)
        try:
            ran = bench.run(Call(used_outputs=(output.name,)), row=row)
        except Exception as error:
            yield raised(Codes.REQUEST_DEPENDENT, where, error, other)
            return
        apart = bench.differ(whole, ran)
        if apart is not None:
            yield apart.fault(Codes.REQUEST_DEPENDENT, apart.depending(where), other)
            return


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return f"{shown}, ..." if len(names) > 3 else shown
