"""Check what a layer writes to: inputs, parameters, the upstream gradient."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.checks.behaviour.baseline import Bench, Fault
from gradcheck_cli.domain.behaviour import OtherRun, Way
from gradcheck_cli.domain.codes import Codes

SHOWN = 3  # the most names in a message


def find_writes(bench: Bench) -> Iterator[Fault]:
    """GC603, GC604, and GC605 for writes of the backward that outlive it."""
    ran, leaves = bench.first, {leaf.name: leaf for leaf in bench.subject.leaves}
    for name in ran.changed:
        leaf = leaves[name]
        if leaf.role == "input":
            message = f"the layer writes to its input `{name}`"
            yield _write_fault(Codes.INPUT_MUTATED, message, name, "input written")
        elif leaf.differentiable:
            message = f"the forward run writes to the {_noun(leaf.role)} `{name}`"
            yield _write_fault(Codes.INPUT_MUTATED, message, name, "parameter written")
    if ran.upstream_changed:
        message = "the backward writes to the upstream gradient, which it does not own"
        yield _write_fault(Codes.UPSTREAM_MUTATED, message, None, "upstream written")
    if ran.output_written and not ran.changed_later:  # an output may be an input
        message = "the backward writes to the output of the forward, which it does not own"
        yield _write_fault(Codes.STATEFUL_GRADIENT, message, None, "output written backward")
    for name in ran.changed_later:
        leaf = leaves[name]
        if leaf.role == "input":
            message = f"the backward writes to the input `{name}`"
            yield _write_fault(Codes.INPUT_MUTATED, message, name, "input written backward")
        else:
            message = f"the backward writes to the {_noun(leaf.role)} `{name}`"
            yield _write_fault(Codes.STATEFUL_GRADIENT, message, name, "parameter written backward")
    if ran.accumulated:  # one call of `backward` adds to all of them
        names = [f"`{name}`" for name in ran.accumulated]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        message = (
            f"the layer itself adds to the `.grad` of {', '.join(names[:SHOWN])}{more}: a gradient "
            "is returned, and its caller adds it up"
        )
        yield Fault(
            Codes.STATEFUL_GRADIENT,
            message,
            ran.accumulated[0] if len(names) == 1 else None,
            other_run=OtherRun("own .grad", names=tuple(ran.accumulated)),
        )


def mutable_state(bench: Bench) -> tuple[str, ...]:
    """Names of the state that a forward run may change, as batch normalisation does."""
    leaves = {leaf.name: leaf for leaf in bench.subject.leaves}
    return tuple(
        name
        for name in bench.first.changed
        if leaves[name].role != "input" and not leaves[name].differentiable
    )


def _write_fault(code: str, message: str, name: str | None, way: Way) -> Fault:
    return Fault(code, message, name, other_run=OtherRun(way))


def _noun(role: str) -> str:
    return "tensor" if role == "captured" else role
