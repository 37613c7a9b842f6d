"""The finding codes. A code never changes its meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from gradcheck_cli.domain.records import dataclass

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Code:
    """One finding code: `summary` is one sentence; the page is shown by `gradcheck explain
    CODE`."""

    code: str
    name: str
    severity: Severity
    summary: str


_SAID: dict[str, tuple[Severity, str]] = {}


def _code(severity: Severity) -> Callable[[str, str], str]:
    def enter(code: str, summary: str) -> str:
        _SAID[code] = severity, summary
        return code

    return enter


_error, _warning, _note = _code("error"), _code("warning"), _code("note")


class Codes:
    """The codes by name: `Codes.WRONG_GRADIENT` is "GC101". No other place writes a code as a
    literal."""

    WRONG_GRADIENT: Final = _error("GC101", "The gradient is wrong in every precision.")
    MISSING_GRADIENT: Final = _error(
        "GC102", "The engine returns no gradient, but the derivative is not zero."
    )
    WRONG_SHAPE_OR_DTYPE: Final = _error(
        "GC103", "The gradient has another shape or dtype than its input."
    )
    WRONG_OUTPUT: Final = _error(
        "GC104", "The values of the layer differ from the formula that it should equal."
    )
    MODES_DISAGREE: Final = _error("GC105", "Reverse and forward mode give different derivatives.")
    WRONG_SECOND_DERIVATIVE: Final = _error(
        "GC106", "The first derivative is right, the second is not."
    )
    ENGINES_DISAGREE: Final = _warning("GC107", "Engines disagree, and the truth is unknown.")
    COMPILED_GRADIENT: Final = _error(
        "GC108", "The compiled derivative is wrong, but the uncompiled one is right."
    )
    MISSING_OUTPUT: Final = _error("GC109", "The layer returns no floating-point array.")
    IMPLEMENTATIONS_DIFFER: Final = _error(
        "GC110", "Two implementations of one spec compute different functions."
    )
    NAN_GRADIENT: Final = _error("GC201", "The gradient is nan, but the derivative is finite.")
    INFINITE_GRADIENT: Final = _error(
        "GC202", "The gradient is infinite, but the derivative is finite or does not exist."
    )
    NON_FINITE_OUTPUT: Final = _error("GC203", "The output itself is nan or infinite.")
    PRECISION_LOSS: Final = _error(
        "GC301", "Right in exact arithmetic, but digits are lost in this dtype."
    )
    UNDERFLOW_TO_ZERO: Final = _error(
        "GC302", "The gradient is zero although the dtype can hold the truth."
    )
    UNSTABLE_OUTPUT: Final = _warning(
        "GC303",
        "The value of the formula lost digits in this dtype, and rounding the inputs does not "
        "explain it.",
    )
    DIFFERENCE_ERROR: Final = _warning(
        "GC304", "A finite difference was requested; this is its error."
    )
    DOCUMENTED_APPROXIMATION: Final = _warning(
        "GC305", "The gradient is an approximation that the engine documents, or the layer makes."
    )
    KINK: Final = _note("GC401", "The function has a kink here: one-sided derivatives differ.")
    UNDEFINED_DERIVATIVE: Final = _warning("GC402", "There is no finite derivative at this point.")
    DISCONTINUITY: Final = _warning("GC403", "The function jumps at this point.")
    CLIPPED_GRADIENT: Final = _warning(
        "GC404", "A bound that guards a pole makes the gradient exactly zero."
    )
    UNDECIDED: Final = _warning("GC501", "The check could not decide; this never counts as a pass.")
    ILL_CONDITIONED: Final = _note("GC502", "Rounding the inputs alone explains the error.")
    UNPROVEN: Final = _note(
        "GC504",
        "A search of the domain found neither a failure of some kind nor a proof that there is "
        "none.",
    )
    STOCHASTIC: Final = _note("GC601", "The layer draws random numbers; calls are re-seeded.")
    NONDETERMINISTIC: Final = _error(
        "GC602", "The same call gives a different result, even with the same random numbers."
    )
    INPUT_MUTATED: Final = _error("GC603", "The layer writes to its inputs or parameters.")
    UPSTREAM_MUTATED: Final = _error("GC604", "The backward writes to the upstream gradient.")
    STATEFUL_GRADIENT: Final = _error(
        "GC605", "A gradient depends on other calls, or affects them."
    )
    LAYOUT_DEPENDENT: Final = _error(
        "GC606", "The result depends on the memory layout of the arrays."
    )
    NONLINEAR_BACKWARD: Final = _error(
        "GC607", "The backward is not linear in the upstream gradient."
    )
    REQUEST_DEPENDENT: Final = _error(
        "GC608",
        "A value or gradient depends on which gradients are requested, or which outputs are used.",
    )
    ENGINE_RAISED: Final = _error("GC701", "The engine raised an exception.")
    ENGINE_CRASHED: Final = _error("GC702", "The engine's process died.")
    ENGINE_TIMED_OUT: Final = _error("GC703", "The engine did not answer in time.")
    OUT_OF_MEMORY: Final = _error("GC704", "The engine exceeded its memory limit.")
    UNSUPPORTED_OPERATION: Final = _note("GC705", "The engine cannot express this program or mode.")
    INTERNAL: Final = _error(
        "GC706", "gradcheck itself failed: an exception in its own truth, judge or explanation."
    )
    UNREADABLE_FILE: Final = _error("GC901", "The spec file cannot be read.")
    YAML_SYNTAX: Final = _error("GC902", "The file is not valid YAML for a spec.")
    SPEC_SCHEMA: Final = _error("GC903", "A key or a value is not allowed in a spec.")
    FORMULA_SYNTAX: Final = _error(
        "GC904", "The formula uses something outside the formula language."
    )
    UNKNOWN_NAME: Final = _error(
        "GC905", "The formula uses a name or operation that does not exist."
    )
    SHAPE_MISMATCH: Final = _error("GC906", "The shapes in the formula do not fit together.")
    NOTHING_TO_DIFFERENTIATE: Final = _error(
        "GC907", "The output, or every input, is not floating-point."
    )
    UNUSED_ALLOW: Final = _warning("GC908", "A finding that the spec allows no longer occurs.")


CODES = {
    code: Code(code, name.lower().replace("_", "-"), *_SAID[code])
    for name, code in vars(Codes).items()
    if name.isupper()
}
"""Each code with its row, in the order of `Codes`. The code's name is made from the constant's."""


class Families:
    """The prefix of codes with one kind of cause: `code.startswith(Families.SPEC)`."""

    NOT_FINITE: Final = "GC2"
    ROUNDING: Final = "GC3"
    POINT: Final = "GC4"
    TRUTH: Final = "GC5"
    ENGINE: Final = "GC7"
    SPEC: Final = "GC9"


NAN_OR_INFINITE = (Codes.NAN_GRADIENT, Codes.INFINITE_GRADIENT)
NOT_FINITE = (*NAN_OR_INFINITE, Codes.NON_FINITE_OUTPUT)
UNSTABLE = (*NOT_FINITE, Codes.PRECISION_LOSS, Codes.UNDERFLOW_TO_ZERO, Codes.UNSTABLE_OUTPUT)
"""Findings that another way to compute the same function may repair."""

ENGINE_FAILED = (
    *(Codes.ENGINE_RAISED, Codes.ENGINE_CRASHED, Codes.ENGINE_TIMED_OUT),
    *(Codes.OUT_OF_MEMORY, Codes.INTERNAL),
)
"""Findings that prevent other findings."""
