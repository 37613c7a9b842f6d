"""The finding codes. A code never changes its meaning."""

from __future__ import annotations

from dataclasses import dataclass

from gradcheck_cli.domain.report import Severity


@dataclass(frozen=True, slots=True)
class Code:
    """A finding code: `summary` is one sentence; the page is `gradcheck explain CODE`."""

    code: str
    name: str
    severity: Severity
    summary: str


_ROWS: tuple[Code, ...] = (
    Code("GC101", "wrong-gradient", "error", "The gradient is wrong in every precision."),
    Code("GC102", "missing-gradient", "error", "The engine gives no gradient where there is one."),
    Code(
        "GC103",
        "wrong-shape-or-dtype",
        "error",
        "The gradient has another shape or dtype than its input.",
    ),
    Code(
        "GC104",
        "wrong-output",
        "error",
        "The layer computes something else than the formula that it should equal.",
    ),
    Code(
        "GC105", "modes-disagree", "error", "Reverse and forward mode give different derivatives."
    ),
    Code(
        "GC106",
        "wrong-second-derivative",
        "error",
        "The first derivative is right, the second is not.",
    ),
    Code("GC107", "engines-disagree", "warning", "Engines differ, and no truth says who is right."),
    Code("GC109", "missing-output", "error", "The layer returns no floating array."),
    Code("GC201", "nan-gradient", "error", "The gradient is nan where the truth is a number."),
    Code(
        "GC202",
        "infinite-gradient",
        "error",
        "The gradient is infinite, although the derivative is a number or does not exist.",
    ),
    Code("GC203", "non-finite-output", "error", "The output itself is nan or infinite."),
    Code(
        "GC301",
        "precision-loss",
        "error",
        "Right in exact arithmetic, but digits are lost in this dtype.",
    ),
    Code(
        "GC302",
        "underflow-to-zero",
        "error",
        "The gradient is zero although the dtype can hold the truth.",
    ),
    Code(
        "GC303",
        "unstable-output",
        "warning",
        "The value of the formula lost its digits in this dtype, though not to its inputs.",
    ),
    Code(
        "GC304",
        "difference-error",
        "warning",
        "A difference quotient was asked for; this is how far it is off.",
    ),
    Code(
        "GC305",
        "documented-approximation",
        "warning",
        "The engine gives what its documentation says, which is not the exact number.",
    ),
    Code("GC401", "kink", "note", "The function has a kink here: one-sided derivatives differ."),
    Code(
        "GC402", "undefined-derivative", "warning", "There is no finite derivative at this point."
    ),
    Code("GC403", "discontinuity", "warning", "The function jumps at this point."),
    Code(
        "GC404",
        "clipped-gradient",
        "warning",
        "A bound beside a pole makes the gradient exactly zero.",
    ),
    Code("GC501", "undecided", "warning", "The check could not tell; it never counts as a pass."),
    Code("GC502", "ill-conditioned", "note", "Rounding the inputs alone explains the error."),
    Code("GC601", "stochastic", "note", "The layer draws random numbers; calls are re-seeded."),
    Code(
        "GC602",
        "nondeterministic",
        "error",
        "The same call gives another result, with the same random numbers too.",
    ),
    Code("GC603", "input-mutated", "error", "The layer writes to its inputs or parameters."),
    Code("GC604", "upstream-mutated", "error", "The backward writes to the upstream gradient."),
    Code(
        "GC605",
        "stateful-gradient",
        "error",
        "A gradient depends on other calls, or leaves something behind for them.",
    ),
    Code(
        "GC606",
        "layout-dependent",
        "error",
        "The result depends on how the arrays lie in memory.",
    ),
    Code(
        "GC607",
        "nonlinear-backward",
        "error",
        "The backward is not linear in the upstream gradient.",
    ),
    Code(
        "GC608",
        "request-dependent",
        "error",
        "A value or gradient depends on which gradients are asked for, or which outputs are used.",
    ),
    Code("GC701", "engine-raised", "error", "The engine raised an exception."),
    Code("GC702", "engine-crashed", "error", "The engine's process died."),
    Code("GC703", "engine-timed-out", "error", "The engine did not answer in time."),
    Code("GC704", "out-of-memory", "error", "The engine took more memory than it may."),
    Code(
        "GC705", "unsupported-operation", "note", "The engine cannot express this program or mode."
    ),
    Code(
        "GC706",
        "internal",
        "error",
        "gradcheck itself made a mistake: an exception in its own truth, judge or explanation.",
    ),
    Code("GC901", "unreadable-file", "error", "The spec file cannot be read."),
    Code("GC902", "yaml-syntax", "error", "The file is not the YAML that a spec needs."),
    Code("GC903", "spec-schema", "error", "A key or a value is not what a spec may have."),
    Code(
        "GC904",
        "formula-syntax",
        "error",
        "The formula uses something outside the formula language.",
    ),
    Code(
        "GC905",
        "unknown-name",
        "error",
        "The formula uses a name or operation that does not exist.",
    ),
    Code("GC906", "shape-mismatch", "error", "The shapes in the formula do not fit together."),
    Code(
        "GC907",
        "nothing-to-differentiate",
        "error",
        "The output or every input is not a floating number.",
    ),
)

CODES: dict[str, Code] = {row.code: row for row in _ROWS}
