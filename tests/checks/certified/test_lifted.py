"""Layers are judged by the certified derivative of their own forward, where that is a program."""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.nn.functional import cross_entropy

from gradcheck_cli.checks import small
from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.certified import lifted
from gradcheck_cli.checks.certified.lifted import LiftedTruth, lifted_truth
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.evaluation import FIRST_ORDER, SECOND
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.truth import PointKind, Truth
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.lifting import NotLifted
from gradcheck_cli.truth.blocks import Differences
from tests.checks.making import examined, layer_problem, torch_engine
from tests.checks.test_verdicts import function
from tests.every import first

pytestmark = pytest.mark.usefixtures("one_thread")

X = {"x": np.array([0.3, -1.2, 0.7])}
FROM_THE_TRACE = "certified, from the trace"


def bound(layer: Any, x: Any = X["x"]) -> BoundLayer:
    problem = layer_problem(layer, {"x": x})
    subjects = Subjects(torch_engine(), problem)
    narrow = subjects.bound("float64")
    return BoundLayer("torch", problem, narrow, subjects.highest(narrow), subjects.bound)


def sources(layer: Any, **settings: Any) -> set[str]:
    return {check.truth for check in examined(layer, X, **settings).checks}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_layer_of_known_operations_is_certified(dtype: str) -> None:
    assert sources(lambda x: torch.exp(-(x**2)).sum() * x, dtype=dtype) == {FROM_THE_TRACE}


def test_where_the_value_vanishes_its_rounding_does_not() -> None:
    """log(x / (1 - x)) is 0 at 0.5, where a few ulps show nothing of how it rounds nearby."""
    LiftedTruth(bound(torch.logit, x=np.array([1e-30, 0.5, 0.999999])))
    LiftedTruth(bound(torch.sin, x=np.zeros(2)))


def test_an_output_below_the_last_digit_of_the_others_is_rounding() -> None:
    """PyTorch's second output is 0, and exactly -exp(-45): the same function, rounded."""
    LiftedTruth(bound(lambda x: torch.log_softmax(x, 0), x=np.array([-45.0, 0.0])))


def through_numpy(x: Any) -> Any:
    return x * torch.from_numpy(np.sin(x.detach().numpy()))


def through_a_number(x: Any) -> Any:
    return x * x.detach().max().item()


@pytest.mark.parametrize("layer", [through_numpy, through_a_number])
def test_what_leaves_the_framework_on_its_way_is_not_a_constant(layer: Any) -> None:
    with pytest.raises(NotLifted, match="do not compute its values nearby"):
        LiftedTruth(bound(layer))


def beside_its_floor(x: Any) -> Any:
    """PyTorch Geometric's deviation: what is clamped to the floor counts as 0."""
    deviation = (0 * x).clamp(min=1e-5).sqrt()
    return deviation.masked_fill(deviation <= math.sqrt(1e-5), 0.0) + x**2


def on_equal_sides(x: Any) -> Any:
    return torch.where((x / 3) * 3 >= x, 2 * x, 3 * x)


@pytest.mark.parametrize("layer", [beside_its_floor, on_equal_sides])
def test_rounding_that_decides_between_equal_numbers_accuses_nobody(layer: Any) -> None:
    answer = examined(layer, {"x": np.array([0.7, 1e3, 5.0])}, dtype="float64")
    assert not {finding.code for finding in answer.findings} & {"GC101", "GC301", "GC303"}


def test_cancellation_that_decides_is_still_an_error() -> None:
    """1 - cos(x) is 0 in float64, where 5e-21 is meant."""
    answer = examined(
        lambda x: torch.where(1 - torch.cos(x) > 0, x, 3 * x),
        {"x": np.array([1e-10])},
        dtype="float64",
    )
    assert {"GC301", "GC303"} <= {finding.code for finding in answer.findings}


def in_float32_only(layer: Any) -> Any:
    def narrow(x: Any) -> Any:
        if x.dtype != torch.float32:
            raise TypeError("float32, please")
        return layer(x)

    return narrow


class Tail(torch.autograd.Function):  # type: ignore[misc]
    """A sigmoid whose derivative vanishes in the tail."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, bar: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return bar * torch.where(y < 1e-6, torch.zeros_like(y), y * (1 - y))


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: torch.exp(-(x**2)).sum() * x,
        lambda x: torch.softmax(x, 0).cumsum(0),
        lambda x: torch.linalg.solve(torch.outer(x, x) + torch.eye(3), x),
        lambda x: torch.nn.functional.layer_norm(x, (3,)),
    ],
)
def test_a_layer_that_runs_in_float32_only_is_certified(layer: Any) -> None:
    assert sources(in_float32_only(layer), dtype="float32") == {FROM_THE_TRACE}


@pytest.mark.parametrize("layer", [through_numpy, through_a_number])
def test_in_float32_what_leaves_the_framework_is_no_constant_either(layer: Any) -> None:
    truths = sources(in_float32_only(layer), dtype="float32")
    assert FROM_THE_TRACE not in truths


def test_a_tail_is_judged_in_float32_only() -> None:
    answer = examined(in_float32_only(Tail.apply), {"x": np.array([-20.0])}, dtype="float32")
    assert {finding.code for finding in answer.findings} == {"GC101"}
    right = examined(in_float32_only(torch.sigmoid), {"x": np.array([-20.0])}, dtype="float32")
    assert not right.findings


def test_a_branch_is_followed_and_its_edge_is_not() -> None:
    def branching(x: Any) -> Any:
        return x * 2 if x[0] > 0.1 else x * 3

    def on_the_edge(x: Any) -> Any:
        return (x - 0.3) * 2 if x[0] > 0.3 else (x - 0.3) * 3

    notes: dict[str, None] = {}
    assert lifted_truth(bound(branching), notes) is not None
    assert not notes
    assert lifted_truth(bound(on_the_edge), notes) is None
    (note,) = notes
    assert "jump); finite differences decide" in note


def truth_of(layer: Any, x: Any) -> Truth:
    """The truth about a layer at one point."""
    there = bound(layer, np.array(x))
    whole = small.Whole(there, lifted_truth(there, {}), uncast=False)
    truth = whole.make_case(costs=True).truth
    assert truth is not None
    return truth


KINKS: dict[str, tuple[Any, list[float], list[int]]] = {
    "relu": (lambda x: torch.relu(x) * torch.exp(x), [0.0, 2.0, -1.0], [0]),
    "abs": (lambda x: torch.abs(x) + torch.sin(x), [0.0, 2.0, -1.0], [0]),
    "a bound": (lambda x: torch.clamp(x, -1.0, 2.0) ** 2, [0.5, 2.0, -1.0], [1, 2]),
    "a mask": (lambda x: torch.where(x > 0.5, 3 * x - 1.5, x - 0.5), [0.5, 2.0, -1.0], [0]),
    "max": (lambda x: x.max() + torch.sin(x).sum(), [2.0, 1.0, 2.0], [0, 2]),
    "order": (lambda x: (torch.sort(x)[0] * torch.arange(3.0)).sum(), [2.0, 1.0, 2.0], [0, 2]),
    "one of the largest": (lambda x: x[torch.argmax(x)] * 3, [2.0, 1.0, 2.0], [0, 2]),
    "a branch": (lambda x: x * 2 if x[0] > 0 else x * 2 - x[0], [0.0, 1.0, 2.0], [0]),
}


@pytest.mark.parametrize("name", KINKS)
def test_nothing_is_certified_at_a_kink(name: str) -> None:
    layer, x, at = KINKS[name]
    block = truth_of(layer, x).blocks["reverse", "x"]
    kinked = np.zeros(block.kind.shape, np.bool_)
    kinked[:, at] = block.kind[:, at] == PointKind.KINK
    assert np.any(kinked)
    assert not np.any(block.certified & kinked)
    assert np.all(block.lower[kinked] < block.upper[kinked])


@pytest.mark.parametrize("name", ["relu", "abs", "a bound"])
def test_entries_beside_a_kink_are_certified(name: str) -> None:
    layer, x, at = KINKS[name]
    truth = truth_of(layer, x)
    block = truth.blocks["reverse", "x"]
    elsewhere = np.setdiff1d(np.arange(3), at)
    assert np.all(block.certified[:, elsewhere])
    leaf = torch.tensor(x, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(layer, leaf).numpy().reshape(block.value.shape)
    assert_allclose(block.value[:, elsewhere], jacobian[:, elsewhere], rtol=1e-14)


def test_a_wrong_entry_beside_a_kink_is_wrong_by_its_certificate() -> None:
    layer = function(
        lambda x: torch.relu(x) * torch.exp(-x),
        lambda g, x: g * (x > 0) * (1 - x) * torch.exp(-x) + 1e-6 * g * (x > 0),
    )
    answer = examined(layer.apply, {"x": [0.0, 2.0, 3.0]})
    wrong = [finding for finding in answer.findings if finding.code == "GC101"]
    assert [finding.truth_source for finding in wrong] == [FROM_THE_TRACE]
    assert {entry.index for entry in wrong[0].entries} == {(1, 1), (2, 2)}


def test_a_difference_that_rounding_misleads_contradicts_nothing() -> None:
    """1 + exp(-100) is 1 in float64, so differences see a constant beside the larger numbers."""
    block = truth_of(lambda x: torch.log(1 + torch.exp(x)), [-100.0, 200.0, 1.0]).blocks[
        "reverse", "x"
    ]
    assert np.all(block.certified)
    assert_allclose(block.value[0, 0], np.exp(-100.0), rtol=1e-15)


def test_a_wrong_backward_beside_a_lifted_forward_is_wrong() -> None:
    wrong = function(lambda x: torch.exp(-x), lambda g, x: 1e-7 * g - g * torch.exp(-x))
    answer = examined(wrong.apply, X)
    assert {finding.code for finding in answer.findings} == {"GC101"}
    assert {finding.truth_source for finding in answer.findings} == {FROM_THE_TRACE}


def test_differences_that_contradict_the_program_take_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def agrees(self: LiftedTruth, *_: Any) -> bool:
        return False

    wrong = function(lambda x: torch.exp(-x), lambda g, x: g * torch.exp(-x))
    monkeypatch.setattr(small.LiftedTruth, "agrees", agrees)
    answer = examined(wrong.apply, X)
    assert {finding.code for finding in answer.findings} == {"GC101"}
    assert FROM_THE_TRACE not in {finding.truth_source for finding in answer.findings}


def test_a_difference_contradicts_where_the_layer_departs_from_its_program() -> None:
    program = LiftedTruth(bound(torch.exp))
    right = np.diag(np.exp(X["x"]))
    truth = truth_of(torch.exp, X["x"])
    for off, another, agrees in ((0.0, True, True), (1e-3, False, True), (1e-3, True, False)):
        found = Differences.empty(3, 3)
        found.value[:], found.error[:], found.kind[:] = right + off, 1e-6, 0
        steeper = bound(lambda x: torch.exp(x) + 1e-3 * (x - torch.tensor(X["x"])))
        program.layer = steeper if another else bound(torch.exp)
        assert program.agrees(truth, {"x": right}, {"x": found}) is agrees


@pytest.mark.exhaustive
def test_a_stair_below_the_last_digit_is_no_derivative() -> None:
    """Bisection is flat on each of its stairs; its root moves with the input."""

    def root(x: Any) -> Any:
        low, high = torch.full_like(x, -9.0), torch.full_like(x, 9.0)
        for _ in range(60):
            middle = (low + high) / 2
            below = middle**3 + middle < x
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    for factor, codes in ((1.0, set()), (1.5, {"GC101"})):
        layer = function(root, lambda g, x, c=factor: c * g / (3 * root(x) ** 2 + 1))
        answer = examined(layer.apply, X)
        assert {finding.code for finding in answer.findings} == codes


def test_a_constant_that_is_rounded_to_the_dtype_is_no_stair() -> None:
    """The derivative in float32 has its constants, and differences those of float64."""
    layer = function(lambda x: torch.sin(x / 3**0.5), lambda g, x: g * torch.cos(x / 3**0.5))
    answer = examined(layer.apply, X, dtype="float32")
    assert {(f.code, f.truth_source) for f in answer.findings} == {("GC101", FROM_THE_TRACE)}


def test_a_mask_with_the_smallest_number_of_its_dtype_has_second_derivatives() -> None:
    """-1.8e308 of float64, where the layer is lifted, is no number of float32."""

    def masked(x: Any) -> Any:
        seen = torch.tensor([[True, True, False], [False, False, False]])
        return x.masked_fill(~seen, torch.finfo(x.dtype).min).softmax(-1)

    inputs = {"x": [[0.3, -0.4, 0.2], [0.1, 0.5, -0.7]]}
    answer = examined(masked, inputs, dtype="float32", modes=(*FIRST_ORDER, *SECOND))
    assert not answer.findings
    assert {one.truth for one in answer.checks} == {FROM_THE_TRACE}


@pytest.mark.parametrize("keeps", [True, False])
def test_a_layer_that_differentiates_on_its_way_is_certified(keeps: bool) -> None:
    """A penalty on a gradient, and one whose author forgot `create_graph`."""

    def penalty(x: Any) -> Any:
        x.requires_grad_()
        value = torch.tanh(2 * x).sum()
        (slope,) = torch.autograd.grad(value, x, create_graph=keeps, retain_graph=True)
        return (slope - 1) ** 2 + value

    answer = examined(penalty, X, modes=("reverse",))
    assert {check.truth for check in answer.checks} == {FROM_THE_TRACE}
    assert {f.code for f in answer.findings if f.severity == "error"} == set(
        () if keeps else ("GC101",)
    )


def test_a_layer_that_raises_while_it_is_watched_is_judged_by_differences() -> None:
    def shy(x: Any) -> Any:
        if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
            raise RuntimeError("not with a mode")
        return torch.sin(x)

    assert sources(shy) == {"confirmed"}


def is_lifted(layer: BoundLayer) -> bool:
    try:
        LiftedTruth(layer)
    except NotLifted:
        return False
    return True


def test_a_layer_whose_value_is_lost_is_lifted_where_it_runs_the_same_nearby() -> None:
    """The loss is 0 in float64, and 6e-17: no value of it shows what it computes."""
    logits = np.array([[37.4, 0.0]])
    LiftedTruth(bound(lambda x: cross_entropy(x, torch.tensor([0])), x=logits))
    LiftedTruth(bound(lambda x: torch.log(1 - torch.exp(x)), x=np.array([-1e-12])))
    rank_one = np.array([[0.5], [1.5], [-0.7]])  # rounding decides on its pivots
    layer = bound(lambda x: torch.linalg.det(x @ x.T), x=rank_one)
    assert any(is_lifted(replace(layer, problem=replace(layer.problem, seed=n))) for n in range(5))
    for layer in (through_numpy, through_a_number):
        with pytest.raises(NotLifted, match="lost half of their digits"):
            LiftedTruth(bound(lambda x, of=layer: 1 - torch.exp(of(x)), x=np.array([1e-9])))


@pytest.mark.parametrize("one", first(2, [1, torch.ones(2), torch.tensor(1.0)]))
def test_a_number_in_the_code_is_exact(one: Any) -> None:
    """Beside a 1 that is off by an ulp, 1 - exp(x) could be anything."""
    x = {"x": np.array([-1e-12, -0.5])}
    answer = examined(lambda x: torch.log(one - torch.exp(x)), x, dtype="float64")
    assert {finding.code for finding in answer.findings} == {"GC301", "GC303"}


def test_a_layer_is_lifted_again_where_it_is_another_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slope = [2.0]

    def layer(x: Any) -> Any:
        return torch.sin(x * slope[0]) if x[0] > 0 else torch.exp(x)

    lifts: list[str] = []
    lift = LayerSubject.lift

    def counted(self: LayerSubject) -> Any:
        lifts.append(self.dtype)
        return lift(self)

    monkeypatch.setattr(LayerSubject, "lift", counted)
    above, below = np.array([0.3, 0.5]), np.array([-0.3, 0.5])
    counts = []
    for x, factor in ((above, 2.0), (above, 2.0), (2 * above, 2.0), (above, 2.5), (below, 2.5)):
        slope[0] = factor
        for dtype in ("float32", "float64"):
            (check, *_) = examined(layer, {"x": x}, dtype=dtype).checks
            assert (check.status, check.truth) == ("passed", FROM_THE_TRACE)
        counts.append(len(lifts))
    assert counts == [1, 1, 1, 2, 3]


def jumps_at_a_tenth(x: Any) -> Any:
    return torch.sin(x) + (1.0 if x[0].item() == 0.1 else 0.0)


def test_in_the_next_dtype_of_a_check_its_value_at_the_point_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Float32 rounds 0.1, next to which the function jumps."""
    compared: list[str] = []
    compare = lifted._compare

    def counted(layer: BoundLayer, *arguments: Any, **options: Any) -> Any:
        compared.append(layer.problem.dtype)
        return compare(layer, *arguments, **options)

    monkeypatch.setattr(lifted, "_compare", counted)
    alone = examined(jumps_at_a_tenth, {"x": [0.1, 0.2]}, dtype="float64")
    monkeypatch.setattr(lifted, "_LAST", WeakKeyDictionary())
    found = []
    for x in ([0.3, 0.2], [0.1, 0.2]):
        compared.clear()
        with surroundings():
            found = [
                examined(jumps_at_a_tenth, {"x": x}, dtype=dtype)
                for dtype in ("float32", "float64")
            ]
        assert compared[0] == "float32"
        assert ("float64" in compared) == (x[0] == 0.1)
    assert [one.code for one in found[1].findings] == [one.code for one in alone.findings] != []


def test_a_layer_is_called_a_few_ulps_away_where_it_rounds_more_than_its_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rounds_more(x: Any) -> Any:
        return torch.sin(x) + 1e-12 * ((x[0].item() * 2.0**53) % 8.0)

    def jumps_more(x: Any) -> Any:
        return torch.sin(x) + 1e-9 * (x[0].item() > 0.3 + 1e-12)

    stirs: list[int] = []
    perturbed = lifted.ulp_perturbed

    def counted(subject: Any, seed: int) -> Any:
        stirs.append(seed)
        return perturbed(subject, seed)

    monkeypatch.setattr(lifted, "ulp_perturbed", counted)
    for layer, calls, truth in (
        (torch.sin, 0, FROM_THE_TRACE),
        (rounds_more, lifted.STIRS, FROM_THE_TRACE),
        (jumps_more, lifted.STIRS, None),
    ):
        stirs.clear()
        (check, *_) = examined(layer, {"x": [0.3, 0.5]}, dtype="float64").checks
        assert len(stirs) == calls
        assert (check.truth == FROM_THE_TRACE) == (truth is not None)
