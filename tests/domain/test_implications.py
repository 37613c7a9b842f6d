from dataclasses import replace

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.implications import OF_A_CASE, OF_LAYERS, without_implied
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Finding


def found(code: str, **about: str | None) -> Finding:
    return replace(Finding(code, "error", "", Span(1, 1, 1, 1), "torch", "float32"), **about)


def test_an_ill_conditioned_gradient_implies_an_ill_conditioned_output() -> None:
    output, gradient = found(Codes.ILL_CONDITIONED), found(Codes.ILL_CONDITIONED, input="x")
    other = found(Codes.ILL_CONDITIONED, engine="jax")
    assert without_implied([output, gradient, other], OF_A_CASE) == [gradient, other]
    assert without_implied([output], OF_A_CASE) == [output]


def test_a_disagreement_implies_that_nobody_knows_the_truth() -> None:
    unknown = found(Codes.UNDECIDED, engine=None, input="x")
    apart = found(Codes.ENGINES_DISAGREE, engine=None, input="x")
    assert without_implied([unknown, apart], OF_A_CASE) == [apart]
    elsewhere = replace(apart, input="w")
    assert without_implied([unknown, elsewhere], OF_A_CASE) == [unknown, elsewhere]


def test_a_wrong_gradient_implies_that_modes_disagree() -> None:
    modes = found(Codes.MODES_DISAGREE, dtype=None)
    wrong = found(Codes.WRONG_GRADIENT, mode="reverse")
    assert without_implied([modes, wrong], OF_LAYERS) == [wrong]
    lost = found(Codes.UNDERFLOW_TO_ZERO, mode="forward")
    assert without_implied([modes, lost], OF_LAYERS) == [lost]
    infinite = found(Codes.INFINITE_GRADIENT, mode="reverse")
    assert without_implied([modes, infinite], OF_LAYERS) == [modes, infinite]
    forward = replace(infinite, mode="forward")
    assert without_implied([modes, forward], OF_LAYERS) == [forward]
    output = found(Codes.NON_FINITE_OUTPUT, mode="reverse")
    assert without_implied([modes, output], OF_LAYERS) == [output]
    of_jax = replace(wrong, engine="jax")
    assert without_implied([modes, of_jax], OF_LAYERS) == [modes, of_jax]


def test_numbers_imply_the_same_code_from_the_checks_of_behaviour() -> None:
    behaviour = found(Codes.ENGINE_RAISED, dtype=None)
    numbers = found(Codes.ENGINE_RAISED)
    assert without_implied([behaviour, numbers], OF_LAYERS) == [numbers]


def test_a_backward_that_is_not_linear_implies_wrong_second_derivatives_of_its_input() -> None:
    bent = found(Codes.NONLINEAR_BACKWARD, dtype=None, input="layer.weight")
    block = found(Codes.WRONG_SECOND_DERIVATIVE, input="x.layer_weight")
    other = found(Codes.WRONG_SECOND_DERIVATIVE, input="x.x")
    assert without_implied([bent, block, other], OF_LAYERS) == [bent, other]


def test_a_missing_gradient_implies_that_forward_mode_is_wrong_there() -> None:
    cut = found(Codes.MISSING_GRADIENT, mode="reverse", input="w")
    forward = found(Codes.WRONG_GRADIENT, mode="forward", input="w")
    reverse = found(Codes.WRONG_GRADIENT, mode="reverse", input="w")
    assert without_implied([cut, forward, reverse], OF_LAYERS) == [cut, reverse]
