"""Check whether results depend on the memory layout of arrays (GC606)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from gradcheck_cli.checks.behaviour.baseline import Apart, Bench, Fault, raised
from gradcheck_cli.domain.behaviour import OtherRun
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.records import replace
from gradcheck_cli.engines.layer.subject import Call, CallResult, Layout

WORDS: dict[Layout, str] = {
    "transposed": "is transposed in memory",
    "sliced": "is a slice with gaps in memory",
    "expanded": "is expanded (stride 0), as the upstream gradient of a sum is",
}


def layouts_of(bench: Bench) -> tuple[Layout, ...]:
    """The layouts of inputs to try. A compiled layer is compiled for each layout, so it gets only
    one, which all its inputs can have."""
    if not bench.subject.stages:
        return tuple(WORDS)
    flat = any(leaf.role == "input" and leaf.rank < 2 for leaf in bench.leaves.values())
    return ("sliced",) if flat else ("transposed",)


def of_upstream(bench: Bench) -> Iterator[Fault]:
    """Run the backward with other layouts of the upstream gradient, which the loss decides."""
    ones = np.ones(bench.size)
    for layout, words in WORDS.items():
        row = ones if layout == "expanded" else bench.row
        first = bench.run(row=row) if layout == "expanded" else bench.first
        where = f"where the upstream gradient {words}"
        other = OtherRun("upstream layout", layout)
        try:
            ran = bench.run(Call(layouts=(layout,)), row=row)
        except Exception as error:
            yield raised(Codes.LAYOUT_DEPENDENT, where, error, other)
            return
        apart = _differ(bench, first, ran, Call(), row)
        if apart is not None:
            yield apart.fault(Codes.LAYOUT_DEPENDENT, apart.depending(where), other)
            return


def of_inputs(bench: Bench) -> Iterator[Fault]:
    """Run the layer with other layouts of its inputs. An exception is only a warning: no wrong
    number results. Layers that draw random numbers are skipped: draws follow the order of
    memory."""
    if bench.first.random:
        return
    for layout in layouts_of(bench):
        first, values = bench.first, {}
        if layout == "expanded":
            values = _repeated(bench)
            alike = bench.ran_at(values) if values else None
            if alike is None:
                continue
            first = alike
        where = f"where an input {WORDS[layout].partition(',')[0]}"
        other = OtherRun("input layout", layout)
        try:
            ran = bench.run(Call(values=values, inputs=layout))
        except Exception as error:
            yield raised(Codes.LAYOUT_DEPENDENT, where, error, other, "warning")
            return
        if layout == "expanded":
            first, ran = (_of_memory(bench, one, values) for one in (first, ran))
        apart = _differ(bench, first, ran, Call(values=values), bench.row)
        if apart is not None:
            yield apart.fault(Codes.LAYOUT_DEPENDENT, apart.depending(where), other)
            return


def _of_memory(bench: Bench, ran: CallResult, values: Mapping[str, Array]) -> CallResult:
    """The run with gradients of entries that share memory replaced by their mean. Only their sum is
    defined: PyTorch's `as_strided` spreads it evenly over them."""
    gradients = dict(ran.gradients)
    for name, value in values.items():
        gradient = gradients.get(name)
        if gradient is None:
            continue
        mean = gradient.reshape(len(gradient), *value.shape)
        for axis in range(bench.leaves[name].rank):
            if np.array_equal(value, np.broadcast_to(value.take([0], axis), value.shape)):
                mean = np.broadcast_to(mean.mean(axis + 1, keepdims=True), mean.shape)
        gradients[name] = mean.reshape(gradient.shape)
    return replace(ran, gradients=gradients)


def _differ(
    bench: Bench, first: CallResult, ran: CallResult, call: Call, row: Array
) -> Apart | None:
    """Where a run in another layout differs from `first`, the run of the same call and row."""
    own = first is bench.first
    return bench.differ(first, ran, bars=None if own else lambda: bench.bars_of(first, call, row))


def _repeated(bench: Bench) -> dict[str, Array]:
    """The inputs with all rows equal to the first, so that they can be expanded."""
    return {
        leaf.name: np.broadcast_to(leaf.kept[:1].copy(), leaf.shape)
        for leaf in bench.leaves.values()
        if leaf.role == "input" and leaf.rank and len(leaf.kept) > 1
    }
