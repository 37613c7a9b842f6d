"""Second derivatives of layers: right, wrong, missing, and not to be had."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradcheck_cli.checks.second_order.compositions import HessianCase
from gradcheck_cli.engines.torch.layer import TorchSubject
from gradcheck_cli.truth.layers.second_order import SecondTruth
from tests.checks.making import examined
from tests.every import first

SECOND = ("reverse", "reverse-over-reverse")
FORWARD = "forward-over-reverse"
X = np.array([0.3, -1.2, 2.0])


class Sine(torch.autograd.Function):
    """sin, whose backward gives `second` of the derivative of the cosine."""

    second = 1.0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(x)

    @classmethod
    def slope(cls, x: Any) -> Any:
        return cls.second * torch.cos(x) + (1 - cls.second) * torch.cos(x).detach()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * Sine.slope(ctx.saved_tensors[0])


class Half(Sine):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * Half.slope(ctx.saved_tensors[0])

    second = 0.5


class Detached(Sine):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * torch.cos(ctx.saved_tensors[0].detach())


class Frozen(Sine):
    """As JAX has it, which gives zeros where there is nothing."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * torch.cos(x.detach()) + 0 * x


class Once(Sine):
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return g * torch.cos(ctx.saved_tensors[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (Sine, None),
        (Half, "wrong in every precision"),
        (Detached, "no second derivative"),
        (Frozen, "wrong in every precision"),
        (Once, "`once_differentiable` forbids a second derivative of `Once`"),
    ],
)
def test_backwards_that_are_differentiated(layer: Any, words: str | None, dtype: str) -> None:
    answer = examined(layer, {"x": X}, dtype=dtype, modes=SECOND)
    assert answer.failure is None
    found = [finding for finding in answer.findings if finding.severity == "error"]
    assert [finding.code for finding in found] == ([] if words is None else ["GC106"])
    assert words is None or words in found[0].message
    status = {check.mode: check.status for check in answer.checks}
    assert status == {"reverse": "passed", SECOND[1]: "passed" if words is None else "failed"}


@pytest.mark.parametrize(
    ("layer", "names", "looks"),
    [
        # zero, and what rounding leaves of terms; by y there is no derivative
        (lambda x, y: (x**3 / (x * x)).sum() + y.sum(), "xy", [True]),
        (Half, "x", [True, False]),
    ],
)
def test_rounding_is_weighed_for_suspects_and_for_all_where_that_does_not_explain_them(
    layer: Any, names: str, looks: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    costed = HessianCase.costed

    def counted(self: HessianCase) -> Any:
        asked.append(self.suspect_entries is not None)
        return costed(self)

    monkeypatch.setattr(HessianCase, "costed", counted)
    answer = examined(layer, dict.fromkeys(names, X), modes=SECOND)
    assert answer.failure is None
    assert asked == looks
    assert bool(answer.findings) == (looks == [True, False])


def test_what_raises_is_no_engine_error() -> None:
    class Refuses(Sine):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if torch.is_grad_enabled():
                raise RuntimeError("only once")
            return g * torch.cos(ctx.saved_tensors[0])

    (found,) = examined(Refuses, {"x": X}, modes=SECOND).findings
    assert found.code == "GC106"
    assert "only once: `Refuses` is the only custom function" in found.message


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), X),
        (lambda x: torch.relu(x) ** 2, np.array([1.0, 0.0, -1.0])),
        (lambda x: torch.logsumexp(x, 0), np.linspace(-3, 3, 30)),
    ],
    ids=["parameters with dots", "a kink of the gradient", "directions"],
)
def test_right_second_derivatives_raise_no_alarm(layer: Any, x: Any) -> None:
    torch.manual_seed(0)
    for dtype in ("float64", "float32"):
        answer = examined(layer, {"x": x}, dtype=dtype, modes=(*SECOND, FORWARD))
        assert {finding.severity for finding in answer.findings} <= {"note"}
        assert {check.status for check in answer.checks} == {"passed"}
        assert {check.mode for check in answer.checks} == {*SECOND, FORWARD}


def _off(x: Any) -> Any:
    """Half of the second derivative of sin."""
    return Half.apply(x)


TIED = {
    "a kink that the other input does not see": lambda x, y: torch.exp(
        torch.maximum(y * x, torch.log1p(abs(x)))
    ),
    "a tie of which each axis sees one piece": lambda x, y: torch.cos(torch.maximum(x, y)),
    "an even kink beside a curve": lambda x, y: 1 / (1 + (1e-4 * (1 + x) - abs(y)) ** 2) + x * y,
    "a tie that no axis sees": lambda x, y: torch.maximum(x * x, y * y) + x * y,
    "over an axis": lambda x, y: torch.exp(torch.stack([x * y, y, x]).amax(0)),
    "sorted": lambda x, y: torch.exp(torch.sort(torch.stack([x * y, y, x]), 0).values[0]),
}


@pytest.mark.parametrize("name", first(2, TIED))
def test_where_the_gradient_has_no_derivative_nothing_is_wrong(name: str) -> None:
    values = {"x": np.array([0.0, 0.4]), "y": np.array([0.0, -1.3])}
    answer = examined(TIED[name], values, modes=(*SECOND, FORWARD))
    assert answer.failure is None
    assert {finding.severity for finding in answer.findings} <= {"note"}


@pytest.mark.parametrize("place", first(1, range(4)))
def test_a_tie_that_no_axis_sees_is_seen_at_every_entry(place: int) -> None:
    x, y = np.array([0.3, -1.2, 2.0, 0.7]), np.array([0.9, 0.4, -1.3, 0.2])
    x[place] = y[place] = 0.0
    answer = examined(TIED["a tie that no axis sees"], {"x": x, "y": y}, modes=SECOND)
    assert answer.failure is None
    assert {finding.severity for finding in answer.findings} <= {"note"}


@pytest.mark.parametrize("name", first(2, TIED))
def test_what_is_wrong_beside_a_kink_is_found(name: str) -> None:
    values = {"x": np.array([0.0, 0.4]), "y": np.array([0.0, -1.3])}
    answer = examined(
        lambda x, y: TIED[name](x, y) + _off(3 * y), values, modes=SECOND, blaming=False
    )
    found = [finding for finding in answer.findings if finding.severity == "error"]
    assert {(one.code, one.input) for one in found} == {("GC106", "y.y")}


BESIDE = {
    "a row": lambda x, y: abs(x) * y,
    "a curve": lambda x, y: torch.relu(x) * x * y,
    "a tie of two": lambda x, y: torch.maximum(x, x * x) * torch.cos(y),
    "a sum": lambda x, y: torch.relu(x) ** 2 + x * y,
}


@pytest.mark.parametrize("name", first(2, BESIDE))
def test_a_kink_that_an_input_does_not_cross_excuses_nothing_by_it(name: str) -> None:
    # abs(x) y at x = 0: the row of y has a kink along x, and none along y
    values = {"x": np.array([0.0]), "y": np.array([0.7])}
    answer = examined(BESIDE[name], values, modes=(*SECOND, FORWARD))
    assert {finding.severity for finding in answer.findings} <= {"note"}
    answer = examined(
        lambda x, y: BESIDE[name](x, y) + _off(3 * y), values, modes=SECOND, blaming=False
    )
    found = [finding for finding in answer.findings if finding.severity == "error"]
    assert {(one.code, one.input) for one in found} == {("GC106", "y.y")}


class Opaque(torch.autograd.Function):
    """sin(y) + |y^2| with the backward of a framework: sign(0) is 0."""

    @staticmethod
    def forward(ctx: Any, y: Any) -> Any:
        ctx.save_for_backward(y)
        return torch.as_tensor(np.sin(y.detach().numpy()) + np.abs(y.detach().numpy() ** 2))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * (torch.cos(y) + torch.sign(y * y) * 2 * y)


@pytest.mark.parametrize("layer", [Opaque, lambda y: torch.sin(y) + abs(y * y)])
def test_a_kink_that_is_touched_is_none_of_the_whole(layer: Any) -> None:
    """|y^2| is y^2: its second derivative is 2 at 0 as elsewhere."""
    answer = examined(layer, {"y": np.array([0.0])}, modes=SECOND)
    (found,) = [finding for finding in answer.findings if finding.severity == "error"]
    assert (found.code, found.entries[0].truth) == ("GC106", pytest.approx(2.0))


class Pushed(torch.autograd.Function):
    """sin with a jvp. Its backward gives `second` of the derivative of the cosine."""

    second = 1.0

    @staticmethod
    def forward(x: Any) -> Any:
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        slope = torch.cos(ctx.saved_tensors[0])
        return g * (Pushed.second * slope + (1 - Pushed.second) * slope.detach())

    @staticmethod
    def jvp(ctx: Any, x_dot: Any) -> Any:
        return x_dot * torch.cos(ctx.saved_tensors[0])


def test_forward_over_reverse_is_judged_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for second, status in ((1.0, "passed"), (0.5, "failed")):
        monkeypatch.setattr(Pushed, "second", second)
        answer = examined(Pushed, {"x": X}, modes=("reverse", FORWARD), blaming=False)
        statuses = {check.mode: check.status for check in answer.checks}
        assert statuses == {"reverse": "passed", FORWARD: status}
        assert {found.code for found in answer.findings} == ({"GC106"} if second != 1 else set())


def test_forward_over_reverse_is_left_out_where_there_is_no_forward_mode() -> None:
    answer = examined(Sine, {"x": X}, modes=(*SECOND, FORWARD))
    assert {check.mode for check in answer.checks} == set(SECOND)
    assert any("forward over reverse was left out" in note for note in answer.notes)


class HalvedByX(torch.autograd.Function):
    """sin(x) * w, whose gradient by x is halved: its second derivatives are of another function."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return torch.sin(x) * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * torch.cos(x) * w / 2, g * torch.sin(x)


def test_what_is_wrong_at_first_has_no_second_derivative_to_be_held_against() -> None:
    answer = examined(HalvedByX, {"x": X, "w": X + 2}, modes=SECOND)
    assert [(finding.code, finding.input) for finding in answer.findings] == [("GC101", "x")]
    second = [check for check in answer.checks if check.mode == "reverse-over-reverse"]
    assert [(check.input, check.status) for check in second] == [("w.w", "passed")]
    assert "torch float64: second derivatives by `x` are not checked: the first is wrong" in (
        answer.notes
    )


MATRIX = np.array([[1.0, 2.0], [3.0, 0.5]])


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (torch.prod, np.array([0.0, 1.5, 2.0])),
        (torch.prod, np.array([0.0, 0.0, 2.0])),
        (lambda x: torch.cumprod(x, 0), np.array([0.5, 0.0, 2.0])),
        (torch.det, MATRIX),
        (lambda x: torch.slogdet(x)[1], MATRIX),
        (lambda x: torch.linalg.solve(x, torch.ones(2, dtype=x.dtype)), MATRIX),
        (torch.linalg.inv, MATRIX),
    ],
    ids=["a zero", "two zeros", "cumprod", "det", "slogdet", "solve", "inv"],
)
def test_forward_over_reverse_has_the_tangents_of_what_was_saved(layer: Any, x: Any) -> None:
    """As `torch.func.hessian` has them: a backward that is not recorded drops them."""
    answer = examined(layer, {"x": x}, modes=("reverse", FORWARD))
    assert not answer.findings
    assert {check.mode: check.status for check in answer.checks}[FORWARD] == "passed"


def alarms(answer: Any) -> list[tuple[str | None, str]]:
    assert answer.failure is None
    return [(f.mode, f.code) for f in answer.findings if f.mode not in ("reverse", "forward")]


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(torch.det, id="det"),
        pytest.param(lambda x: torch.linalg.lu(x)[2], id="lu", marks=pytest.mark.exhaustive),
    ],
)
def test_second_derivatives_that_are_zero_are_what_rounding_leaves(layer: Any) -> None:
    """Of det within one row, say: float64 gives 3e-18, which is no truth for float32's 1e-8."""
    x = np.array([[1.0, 2.0, 0.3], [0.4, 1.5, 0.2], [0.1, 0.7, 2.2]])
    assert not alarms(examined(layer, {"x": x}, dtype="float32", modes=(*SECOND, FORWARD)))


class Saturated(torch.autograd.Function):
    """tanh with the usual backward, which gives 0 beyond 19, and a jvp that is right there."""

    @staticmethod
    def forward(x: Any) -> Any:
        return torch.tanh(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (1 - Saturated.apply(ctx.saved_tensors[0]) ** 2)

    @staticmethod
    def jvp(ctx: Any, x_dot: Any) -> Any:
        return x_dot / torch.cosh(ctx.saved_tensors[0]) ** 2


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (lambda x: 1e17 * Saturated.apply(x), np.array([20.0])),
        (lambda x: 1e30 * torch.sigmoid(x), np.array([45.0, 30.0])),
        (lambda x: torch.softmax(x, 0), np.array([60.0, 0.0, 1.0])),
    ],
    ids=["tanh", "sigmoid", "softmax"],
)
def test_differences_of_a_gradient_that_is_lost_are_no_truth(layer: Any, x: Any) -> None:
    """Where 1 - y^2 is 0, so is its difference; the second derivative that is right is not."""
    found = alarms(examined(layer, {"x": x}, modes=(*SECOND, FORWARD)))
    assert {code for _, code in found} <= {"GC501", "GC301", "GC302"}


def test_a_second_derivative_that_became_zero_is_lost() -> None:
    """The curvature of mish is -4e-20 at 25, where its slope is 1."""
    found = examined(torch.nn.functional.mish, {"x": np.array([25.0])}, modes=SECOND).findings
    assert {finding.code for finding in found} == {"GC302"}


THIRD = "reverse-over-reverse-over-reverse"
FORWARD_THIRD = "forward-over-reverse-over-reverse"


class Stepped(Sine):
    """Whose third derivative is cut off."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        slope, bend = torch.cos(x).detach(), torch.sin(x).detach()
        return g * (slope - bend * (x - x.detach()))


def at_third(layer: Any, **inputs: Any) -> Any:
    return examined(layer, inputs, modes=(*SECOND, FORWARD, THIRD, FORWARD_THIRD))


def test_right_third_derivatives_pass_in_both_compositions() -> None:
    answer = at_third(lambda x, w: torch.tanh(x * w).sum() * torch.exp(x), x=X, w=X + 2)
    assert {finding.severity for finding in answer.findings} <= {"note"}
    third = {check.mode: check.status for check in answer.checks if check.mode not in SECOND}
    assert third == dict.fromkeys((FORWARD, THIRD, FORWARD_THIRD), "passed")


def test_a_third_derivative_that_is_cut_off_is_wrong() -> None:
    (found,) = at_third(Stepped, x=X).findings
    assert (found.code, found.mode) == ("GC106", THIRD)
    assert "no third derivative" in found.message


def test_third_derivatives_of_a_wrong_second_one_are_left_out() -> None:
    answer = at_third(Detached, x=X)
    assert [(found.code, found.mode) for found in answer.findings] == [("GC106", SECOND[1])]
    assert "torch float64: third derivatives by `x` are not checked: the second is wrong" in (
        answer.notes
    )


def test_third_derivatives_of_a_layer_that_is_not_lifted_are_undecided() -> None:
    class InNumPy(Sine):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.from_numpy(np.sin(x.detach().numpy()))

    answer = at_third(InNumPy, x=X)
    (found,) = (found for found in answer.findings if found.severity != "note")
    assert found.code == "GC501"
    assert "a third derivative needs a certificate" in found.message


def test_what_rounding_absorbed_beside_an_operation_without_a_formula_is_undecided_for_that() -> (
    None
):
    def layer(x: Any) -> Any:
        roots = torch.linalg.eigvals(x[:4].reshape(2, 2)).real
        return torch.tanh(x[4:]).sum() + roots.sum() ** 2

    x = np.array([2.0, 1.0, 0.5, 3.0, 17.3, 18.2])
    answer = examined(layer, {"x": x}, modes=SECOND)
    (undecided,) = [found for found in answer.findings if found.code == "GC501"]
    assert "rounding may have absorbed it" in undecided.message


LARGE = np.random.default_rng(0).standard_normal((2, 8, 20))


@pytest.mark.exhaustive
def test_of_a_large_layer_that_is_lifted_no_difference_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(SecondTruth, "blocks")
    modes = (*SECOND, FORWARD, THIRD, FORWARD_THIRD)
    answer = examined(lambda x, w: torch.tanh(x @ w.T), {"x": LARGE[0], "w": LARGE[1]}, modes=modes)
    assert not [finding for finding in answer.findings if finding.severity != "note"]
    assert {check.mode for check in answer.checks} == set(modes)


def test_a_large_layer_whose_second_derivative_is_cut_off_is_wrong() -> None:
    answer = examined(lambda x: Half.apply(x) ** 2, {"x": LARGE[0]}, modes=SECOND)
    assert {found.code for found in answer.findings} == {"GC106"}


def square_beside_nothing(x: torch.Tensor, nothing: torch.Tensor) -> torch.Tensor:
    return (x**2).sum() + nothing.sum()


def test_an_input_without_entries_has_no_second_derivative() -> None:
    given = {"x": X, "nothing": np.ones((0, 3))}
    answer = examined(square_beside_nothing, given, modes=(*SECOND, FORWARD))
    assert answer.failure is None
    assert answer.findings == ()
    assert {check.input for check in answer.checks if check.mode == FORWARD} == {"x.x"}


class Sinc(torch.autograd.Function):
    """sin(x) / x with a value of its own at 0, where its derivative is constant."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        safe = torch.where(x == 0, torch.ones_like(x), x)
        return torch.where(x == 0, torch.ones_like(x), torch.sin(safe) / safe)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        safe = torch.where(x == 0, torch.ones_like(x), x)
        slope = (safe * torch.cos(safe) - torch.sin(safe)) / (safe * safe)
        return g * torch.where(x == 0, torch.zeros_like(x), slope)


def test_a_gradient_that_is_guarded_at_the_point() -> None:
    answer = examined(lambda x: Sinc.apply(x), {"x": np.array([0.0])}, modes=SECOND)
    (finding,) = answer.findings
    assert (finding.code, finding.mode) == ("GC106", "reverse-over-reverse")
    (entry,) = finding.entries
    assert entry.computed == 0
    assert entry.truth is not None
    assert float(entry.truth) == pytest.approx(-1 / 3, abs=1e-6)


def test_what_a_softmax_absorbs_is_not_a_wrong_second_derivative() -> None:
    """1 - p is 0 in both precisions, and what is left is the same number in both."""

    def layer(x: Any) -> Any:
        return torch.softmax(x, -1)

    modes = ("reverse", FORWARD)
    answer = examined(layer, {"x": np.array([0.0, 40.0, -3.0])}, modes=modes)
    assert [(one.code, one.mode) for one in answer.findings if one.mode != "reverse"] == [
        ("GC501", None)
    ]


@pytest.mark.parametrize("step", first(1, [0.2, 0.3]))
def test_terms_that_cancel_beside_larger_entries_are_no_doubt(step: float) -> None:
    """Transitions that are a sum u_i + v_j make states independent of each other: the second
    derivatives across time are 0, but for the rounding of these sums."""

    def chain(scores: Any) -> Any:
        moves = torch.arange(9, dtype=scores.dtype).reshape(3, 3) * step
        state = scores[0]
        for row in scores[1:]:
            state = torch.logsumexp(state[:, None] + moves, 0) + row
        return torch.logsumexp(state, 0)

    scores = np.random.default_rng(3).normal(size=(4, 3))
    answer = examined(chain, {"scores": scores}, modes=("reverse", *SECOND))
    assert {one.severity for one in answer.findings} <= {"note"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_second_derivative_of_zero_is_not_absorbed(dtype: str) -> None:
    """The divergence of a distribution from itself, beside that from another."""

    def divergence(x: Any) -> Any:
        log_p, q = torch.log_softmax(x, -1), torch.softmax(x.flip(0), -1)
        return torch.nn.functional.kl_div(log_p, q, reduction="none")

    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).numpy()
    answer = examined(divergence, {"x": x}, modes=("reverse", *SECOND), dtype=dtype)
    assert {one.severity for one in answer.findings} <= {"note"}


class StopsUpstream(torch.autograd.Function):
    """Its own Hessian is right for every upstream gradient that depends on nothing."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g.detach() * 3 * x**2


class StopsHalf(StopsUpstream):
    """Of the upstream gradient, half."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (g / 2 + g.detach() / 2) * 3 * x**2


class HandsOn(StopsUpstream):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


@pytest.mark.parametrize("function", [StopsUpstream, StopsHalf, HandsOn])
def test_a_backward_that_stops_the_upstream_gradient(function: Any) -> None:
    modes = ("reverse", "reverse-over-reverse")
    answer = examined(function, {"x": np.array([0.7, -1.3])}, modes=modes)
    if function is HandsOn:
        assert not answer.findings
        return
    (finding,) = answer.findings
    assert finding.code == "GC106"
    assert finding.message.startswith("the derivative of the gradient by the upstream gradient")
    assert finding.place is not None
    assert finding.place.text == "g.detach()"


@pytest.mark.parametrize(("layer", "asks"), [(Sine, False), (Half, True)])
def test_the_highest_precision_is_asked_where_something_is_not_right(
    layer: Any, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certified truth needs none beside it."""
    run: list[tuple[str, str]] = []
    hvp = TorchSubject.hvp

    def counted(self: TorchSubject, mode: Any, *args: Any) -> Any:
        run.append((self.dtype, mode))
        return hvp(self, mode, *args)

    monkeypatch.setattr(TorchSubject, "hvp", counted)
    answer = examined(layer, {"x": X}, dtype="float32", modes=SECOND)
    assert bool(answer.findings) == asks
    assert run.count(("float32", SECOND[1])) >= X.size
    assert (("float64", SECOND[1]) in run) == asks
