"""Which findings make others redundant, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.evaluation import modes_in
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding


@dataclass(frozen=True, slots=True)
class Implication:
    """A finding with a code of `implied` says nothing new beside one with a code of `by`, if
    `holds` is true for the two."""

    implied: Set[str]
    by: Set[str]
    holds: Callable[[Finding, Finding], bool]


def _same_engine(implied: Finding, by: Finding) -> bool:
    return implied.engine == by.engine


def _same_input(implied: Finding, by: Finding) -> bool:
    return implied.input == by.input


def _output_by_gradient(implied: Finding, by: Finding) -> bool:
    return implied.input is None and by.input is not None and _same_engine(implied, by)


def _behaviour_by_numbers(implied: Finding, by: Finding) -> bool:
    """Findings of the checks of behaviour have no dtype."""
    return implied.dtype is None and by.dtype is not None and _same_engine(implied, by)


def _same_code(implied: Finding, by: Finding) -> bool:
    return implied.code == by.code and _behaviour_by_numbers(implied, by)


def _by_another_pass(implied: Finding, by: Finding) -> bool:
    """Two equal backward passes differ, so the digits of one are luck."""
    run = by.other_run
    differ = run is not None and run.way == "one graph" and not (run.of_value or run.raises)
    return differ and implied.mode == "reverse" and _behaviour_by_numbers(by, implied)


def _forward_of_cut_input(implied: Finding, by: Finding) -> bool:
    return implied.mode == "forward" and _same_engine(implied, by) and _same_input(implied, by)


def _second_by_first_order(implied: Finding, by: Finding) -> bool:
    """The second derivative belongs to a composition whose inner or outer mode has a wrong
    derivative by an input of the block."""
    same = _same_engine(implied, by) and implied.dtype == by.dtype and implied.point == by.point
    if not same or by.mode not in modes_in(implied.mode or ""):
        return False
    return HessianBlock.is_of(implied.input or "", by.input or "")


def _of_its_lower_order(implied: Finding, by: Finding) -> bool:
    """`implied` is a third derivative, and `by` a lower one that its composition differentiates."""
    parts, lower = modes_in(implied.mode or ""), modes_in(by.mode or "")
    where = (implied.engine, implied.dtype, implied.point) == (by.engine, by.dtype, by.point)
    return where and 0 < len(lower) < len(parts) > 2 and parts[-len(lower) :] == lower


def _block_of_input(implied: Finding, by: Finding) -> bool:
    """The block belongs to the input. Blocks have the names of parameters without dots."""
    name = (by.input or "").replace(".", "_")
    measured = implied.dtype is not None and _same_engine(implied, by)
    return measured and HessianBlock.is_of(implied.input or "", name)


OF_A_CASE: tuple[Implication, ...] = (
    # if a gradient is ill-conditioned, so is its output
    Implication({Codes.ILL_CONDITIONED}, {Codes.ILL_CONDITIONED}, _output_by_gradient),
    # a disagreement of modes or engines says more than an unknown truth
    Implication({Codes.UNDECIDED}, {Codes.MODES_DISAGREE, Codes.ENGINES_DISAGREE}, _same_input),
    # the derivative of a wrong derivative
    Implication(
        {Codes.WRONG_SECOND_DERIVATIVE},
        {Codes.WRONG_GRADIENT, Codes.MISSING_GRADIENT},
        _second_by_first_order,
    ),
)

OF_ORDERS: tuple[Implication, ...] = (
    # the derivative of a wrong lower derivative
    Implication(CODES.keys(), CODES.keys(), _of_its_lower_order),
)

OF_LAYERS: tuple[Implication, ...] = (
    Implication(CODES.keys(), CODES.keys(), _same_code),
    # with these, forward and reverse mode cannot agree
    Implication(
        {Codes.MODES_DISAGREE},
        {
            Codes.NON_FINITE_OUTPUT,
            Codes.WRONG_GRADIENT,
            Codes.MISSING_GRADIENT,
            Codes.WRONG_SHAPE_OR_DTYPE,
            Codes.PRECISION_LOSS,
            Codes.UNDERFLOW_TO_ZERO,
        },
        _behaviour_by_numbers,
    ),
    Implication(
        {Codes.MODES_DISAGREE},
        {Codes.NAN_GRADIENT, Codes.INFINITE_GRADIENT, Codes.ENGINE_RAISED},
        lambda implied, by: by.mode == "forward" and _behaviour_by_numbers(implied, by),
    ),
    # a backward that is not linear in the cotangent has no derivative with it
    Implication({Codes.WRONG_SECOND_DERIVATIVE}, {Codes.NONLINEAR_BACKWARD}, _block_of_input),
    # no digits are lost where another pass has other ones
    Implication(
        {Codes.PRECISION_LOSS, Codes.UNDERFLOW_TO_ZERO}, {Codes.STATEFUL_GRADIENT}, _by_another_pass
    ),
    # an input without a gradient has no tangent either
    Implication(
        {Codes.WRONG_GRADIENT, Codes.UNDERFLOW_TO_ZERO},
        {Codes.MISSING_GRADIENT},
        _forward_of_cut_input,
    ),
)


def without_implied(findings: Iterable[Finding], table: Sequence[Implication]) -> list[Finding]:
    """The findings that no other finding implies."""
    every = list(findings)

    def is_implied(one: Finding) -> bool:
        return any(
            other.code in row.by and row.holds(one, other)
            for row in table
            if one.code in row.implied
            for other in every
            if other is not one
        )

    return [finding for finding in every if not is_implied(finding)]
