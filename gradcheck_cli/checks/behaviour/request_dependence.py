"""Whether what is requested changes the answer (GC608)."""

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

MOST = 4  # subsets and outputs that are requested by themselves; a mistake shows in the first


def requested(bench: Bench) -> Iterator[Fault]:
    """The first answer that changes with what is differentiated."""
    untracked = list(_without_gradients(bench))
    yield from untracked
    needs_graph = any(fault.severity == "note" for fault in untracked)
    if needs_graph or not untracked:
        yield from _some_gradients(bench, needs_graph)


def _without_gradients(bench: Bench) -> Iterator[Fault]:
    """That the graph is missing is a note: a layer that differentiates by its inputs, registers a
    hook or refuses to run without gradients says so itself, and none of its numbers is wrong. Any
    other error is met by all who only evaluate the layer."""
    where, other = "when no gradients are tracked", OtherRun("untracked")
    try:
        ran = bench.subject.run(Call(tracking=False))
    except Exception as error:
        refused = _lacks_graph(error) or _is_refusal(error)
        severity: Severity | None = "note" if refused else None
        yield raised(Codes.REQUEST_DEPENDENT, where, error, other, severity)
        return
    found = bench.differ(bench.first, ran, lambda: bench.bars, bench.near, ())
    if found is not None:
        yield found.fault(Codes.REQUEST_DEPENDENT, found.depending(where), other)


def _lacks_graph(error: Exception) -> bool:
    """Whether it was raised since something does not require a gradient, as its words are."""
    return isinstance(error, RuntimeError) and bool(_REQUIRES_GRADIENT.search(str(error)))


def _is_refusal(error: Exception) -> bool:
    """Whether a statement of the user's own code raised it, and no operation that failed."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or of_a_library(trace.tb_frame.f_globals.get("__name__")):
        return False
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return bool(_REFUSAL.search(line))


def subsets(bench: Bench) -> list[tuple[str, ...]]:
    """Inputs alone, parameters alone, and each of the inputs by itself; the first of these for a
    layer that is compiled, as it is for each by itself."""
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
        found = bench.differ(bench.first, ran, lambda: bench.bars, bench.near, wrt)
        if found is not None:
            yield found.fault(Codes.REQUEST_DEPENDENT, found.depending(where), other)
            return


def used_outputs(bench: Bench) -> Iterator[Fault]:
    """The first answer that changes with the outputs that are used."""
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
        found = bench.differ(whole, ran, lambda: bench.bars, bench.near)
        if found is not None:
            yield found.fault(Codes.REQUEST_DEPENDENT, found.depending(where), other)
            return


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return f"{shown}, ..." if len(names) > 3 else shown
