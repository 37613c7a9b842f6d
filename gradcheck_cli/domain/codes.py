"""The finding codes. A code never changes its meaning."""

from __future__ import annotations

from typing import Final, Literal

from gradcheck_cli.domain.records import dataclass

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Code:
    """What a code is: `summary` is one sentence; the page is `gradcheck explain CODE`."""

    code: str
    name: str
    severity: Severity
    summary: str


CODES: dict[str, Code] = {}
"""Each code with its row, in the order of `Codes`."""


def _code(code: str, name: str, severity: Severity, summary: str) -> str:
    CODES[code] = Code(code, name, severity, summary)
    return code


class Codes:
    """The codes by name: `Codes.WRONG_GRADIENT` is "GC101". Nothing else writes a code down."""

    WRONG_GRADIENT: Final = _code(
        "GC101", "wrong-gradient", "error", "The gradient is wrong in every precision."
    )
    MISSING_GRADIENT: Final = _code(
        "GC102",
        "missing-gradient",
        "error",
        "The engine returns no gradient, but the derivative is not zero.",
    )
    WRONG_SHAPE_OR_DTYPE: Final = _code(
        "GC103",
        "wrong-shape-or-dtype",
        "error",
        "The gradient has another shape or dtype than its input.",
    )
    WRONG_OUTPUT: Final = _code(
        "GC104",
        "wrong-output",
        "error",
        "The values of the layer differ from the formula that it should equal.",
    )
    MODES_DISAGREE: Final = _code(
        "GC105", "modes-disagree", "error", "Reverse and forward mode give different derivatives."
    )
    WRONG_SECOND_DERIVATIVE: Final = _code(
        "GC106",
        "wrong-second-derivative",
        "error",
        "The first derivative is right, the second is not.",
    )
    ENGINES_DISAGREE: Final = _code(
        "GC107", "engines-disagree", "warning", "Engines disagree, and the truth is unknown."
    )
    COMPILED_GRADIENT: Final = _code(
        "GC108",
        "compiled-gradient",
        "error",
        "The compiled derivative is wrong where the uncompiled one is right.",
    )
    MISSING_OUTPUT: Final = _code(
        "GC109", "missing-output", "error", "The layer returns no floating array."
    )
    IMPLEMENTATIONS_DIFFER: Final = _code(
        "GC110",
        "implementations-differ",
        "error",
        "Two implementations of one spec compute different functions.",
    )
    NAN_GRADIENT: Final = _code(
        "GC201", "nan-gradient", "error", "The gradient is nan, but the derivative is finite."
    )
    INFINITE_GRADIENT: Final = _code(
        "GC202",
        "infinite-gradient",
        "error",
        "The gradient is infinite, but the derivative is finite or does not exist.",
    )
    NON_FINITE_OUTPUT: Final = _code(
        "GC203", "non-finite-output", "error", "The output itself is nan or infinite."
    )
    PRECISION_LOSS: Final = _code(
        "GC301",
        "precision-loss",
        "error",
        "Right in exact arithmetic, but digits are lost in this dtype.",
    )
    UNDERFLOW_TO_ZERO: Final = _code(
        "GC302",
        "underflow-to-zero",
        "error",
        "The gradient is zero although the dtype can hold the truth.",
    )
    UNSTABLE_OUTPUT: Final = _code(
        "GC303",
        "unstable-output",
        "warning",
        "The value of the formula lost digits in this dtype, and its inputs do not explain it.",
    )
    DIFFERENCE_ERROR: Final = _code(
        "GC304",
        "difference-error",
        "warning",
        "A difference quotient was requested: its error.",
    )
    DOCUMENTED_APPROXIMATION: Final = _code(
        "GC305",
        "documented-approximation",
        "warning",
        "The engine returns an approximation that it documents.",
    )
    KINK: Final = _code(
        "GC401", "kink", "note", "The function has a kink here: one-sided derivatives differ."
    )
    UNDEFINED_DERIVATIVE: Final = _code(
        "GC402", "undefined-derivative", "warning", "There is no finite derivative at this point."
    )
    DISCONTINUITY: Final = _code(
        "GC403", "discontinuity", "warning", "The function jumps at this point."
    )
    CLIPPED_GRADIENT: Final = _code(
        "GC404",
        "clipped-gradient",
        "warning",
        "A bound beside a pole makes the gradient exactly zero.",
    )
    UNDECIDED: Final = _code(
        "GC501", "undecided", "warning", "The check could not tell; it never counts as a pass."
    )
    ILL_CONDITIONED: Final = _code(
        "GC502", "ill-conditioned", "note", "Rounding the inputs alone explains the error."
    )
    UNPROVEN: Final = _code(
        "GC504",
        "unproven",
        "note",
        "A search of the domain found no failure of a kind, and no proof that there is none.",
    )
    STOCHASTIC: Final = _code(
        "GC601", "stochastic", "note", "The layer draws random numbers; calls are re-seeded."
    )
    NONDETERMINISTIC: Final = _code(
        "GC602",
        "nondeterministic",
        "error",
        "The same call gives another result, with the same random numbers too.",
    )
    INPUT_MUTATED: Final = _code(
        "GC603", "input-mutated", "error", "The layer writes to its inputs or parameters."
    )
    UPSTREAM_MUTATED: Final = _code(
        "GC604", "upstream-mutated", "error", "The backward writes to the upstream gradient."
    )
    STATEFUL_GRADIENT: Final = _code(
        "GC605",
        "stateful-gradient",
        "error",
        "A gradient depends on other calls, or changes them.",
    )
    LAYOUT_DEPENDENT: Final = _code(
        "GC606",
        "layout-dependent",
        "error",
        "The result depends on the memory layout of the arrays.",
    )
    NONLINEAR_BACKWARD: Final = _code(
        "GC607",
        "nonlinear-backward",
        "error",
        "The backward is not linear in the upstream gradient.",
    )
    REQUEST_DEPENDENT: Final = _code(
        "GC608",
        "request-dependent",
        "error",
        "A value or gradient depends on which gradients are requested, or which outputs are used.",
    )
    ENGINE_RAISED: Final = _code(
        "GC701", "engine-raised", "error", "The engine raised an exception."
    )
    ENGINE_CRASHED: Final = _code("GC702", "engine-crashed", "error", "The engine's process died.")
    ENGINE_TIMED_OUT: Final = _code(
        "GC703", "engine-timed-out", "error", "The engine did not answer in time."
    )
    OUT_OF_MEMORY: Final = _code(
        "GC704", "out-of-memory", "error", "The engine exceeded its memory limit."
    )
    UNSUPPORTED_OPERATION: Final = _code(
        "GC705", "unsupported-operation", "note", "The engine cannot express this program or mode."
    )
    INTERNAL: Final = _code(
        "GC706",
        "internal",
        "error",
        "gradcheck itself failed: an exception in its own truth, judge or explanation.",
    )
    UNREADABLE_FILE: Final = _code(
        "GC901", "unreadable-file", "error", "The spec file cannot be read."
    )
    YAML_SYNTAX: Final = _code(
        "GC902", "yaml-syntax", "error", "The file is not the YAML that a spec needs."
    )
    SPEC_SCHEMA: Final = _code(
        "GC903", "spec-schema", "error", "A key or a value is not what a spec may have."
    )
    FORMULA_SYNTAX: Final = _code(
        "GC904",
        "formula-syntax",
        "error",
        "The formula uses something outside the formula language.",
    )
    UNKNOWN_NAME: Final = _code(
        "GC905",
        "unknown-name",
        "error",
        "The formula uses a name or operation that does not exist.",
    )
    SHAPE_MISMATCH: Final = _code(
        "GC906", "shape-mismatch", "error", "The shapes in the formula do not fit together."
    )
    NOTHING_TO_DIFFERENTIATE: Final = _code(
        "GC907",
        "nothing-to-differentiate",
        "error",
        "The output, or every input, is not floating-point.",
    )
    UNUSED_ALLOW: Final = _code(
        "GC908", "unused-allow", "warning", "What the spec allows is not found any more."
    )


class Families:
    """The first digit of codes that have one kind of cause: `code.startswith(Families.SPEC)`."""

    NOT_FINITE: Final = "GC2"
    ROUNDING: Final = "GC3"
    POINT: Final = "GC4"
    TRUTH: Final = "GC5"
    SPEC: Final = "GC9"


NOT_FINITE = (Codes.NAN_GRADIENT, Codes.INFINITE_GRADIENT, Codes.NON_FINITE_OUTPUT)
UNSTABLE = (*NOT_FINITE, Codes.PRECISION_LOSS, Codes.UNDERFLOW_TO_ZERO, Codes.UNSTABLE_OUTPUT)
"""What another way of computing the same function may mend."""

ENGINE_FAILED = (
    *(Codes.ENGINE_RAISED, Codes.ENGINE_CRASHED, Codes.ENGINE_TIMED_OUT),
    *(Codes.OUT_OF_MEMORY, Codes.INTERNAL),
)
"""What keeps other findings from being made."""
