import functools

import numpy as np
import pytest
import torch
from torch import nn

import gradcheck_cli as g
from gradcheck_cli.checks.behaviour import checks
from gradcheck_cli.truth.numerics import block_sums
from tests.checks.making import behaviour, examined

X = {"x": np.array([0.7, -1.3])}


def sine(backward):
    """sin with this backward; `saved` is what the forward keeps on the class."""

    class Sine(torch.autograd.Function):
        saved = None
        total = 0.0

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            Sine.saved = x.detach()
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            return backward(Sine, ctx, g)

    return Sine


def test_what_is_shared_by_all_calls() -> None:
    found = behaviour(sine(lambda cls, ctx, g: g * torch.cos(cls.saved)), X)
    assert "another forward run between" in found["GC605"]


def test_an_infinite_input_is_moved_nowhere() -> None:
    for x in (np.array([np.inf]), np.array([1.0, -np.inf]), np.array(np.inf)):
        assert behaviour(lambda x: 2 * x, {"x": x}) == {}


def bent(x, y):
    return torch.sigmoid(x) ** 2 - torch.abs(x - (1.3 + y))


@pytest.mark.parametrize("size", [1e-14, 1e-300, 5e-324])
def test_slopes_at_zeros_and_tiny_numbers_take_a_step(size) -> None:
    assert behaviour(bent, {"x": np.zeros(2), "y": np.array([0.0, -size])}) == {}


def test_gradients_that_are_added_up_are_no_chance() -> None:
    def adding(cls, ctx, g):
        cls.total = cls.total + g * torch.cos(ctx.saved_tensors[0])
        return cls.total

    answer = examined(sine(adding), X, behaviour=True)
    (finding,) = answer.findings
    assert finding.code == "GC605"
    assert "grows by the same amount" in finding.message
    assert answer.nondeterministic


def test_two_passes_over_one_graph() -> None:
    def once(cls, ctx, g):
        (x,) = ctx.saved_tensors
        ctx.passes = getattr(ctx, "passes", 0) + 1
        return g * torch.cos(x) * ctx.passes

    assert "two backward passes" in behaviour(sine(once), X)["GC605"]


class Recomputed(torch.autograd.Function):
    """A checkpoint of one's own, which does not restore the random generator."""

    @staticmethod
    def forward(ctx, run, x):
        ctx.run = run
        ctx.save_for_backward(x)
        return run(x)

    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            y = ctx.run(x)
        return None, torch.autograd.grad(y, x, g)[0]


def dropped(x):
    return torch.dropout(torch.sin(x), 0.5, True)


def noisy(_, ctx, g):
    return g * torch.cos(ctx.saved_tensors[0]) + torch.rand_like(g)


def without_state(x):
    return torch.utils.checkpoint.checkpoint(
        dropped, x, use_reentrant=False, preserve_rng_state=False
    )


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (lambda x: Recomputed.apply(dropped, x), "torch.dropout(torch.sin(x), 0.5, True)"),
        (without_state, "torch.dropout(torch.sin(x), 0.5, True)"),
        (sine(noisy), "torch.rand_like(g)"),
    ],
)
def test_a_backward_pass_that_draws_numbers_loses_no_digits(layer, text) -> None:
    report = g.check(layer, torch.linspace(-1, 1, 40), dtypes=["float32", "float64"])
    assert {"GC101", "GC605"} <= {finding.code for finding in report.findings} <= DRAWN
    for found in report.findings:
        if found.code == "GC605":
            assert found.message.endswith(": the backward pass draws random numbers")
            place = found.place
            line = place.source.line(place.span.line)
            assert line[place.span.column - 1 : place.span.end_column - 1] == text


DRAWN = {"GC101", "GC102", "GC601", "GC605"}


def test_a_pass_that_counts_draws_nothing() -> None:
    def counted(cls, ctx, g):
        ctx.passes = getattr(ctx, "passes", 0) + 1
        return g * ctx.passes * torch.cos(ctx.saved_tensors[0])

    report = g.check(lambda x: sine(counted).apply(torch.dropout(x, 0.5, True)), torch.ones(3))
    (found,) = (finding for finding in report.findings if finding.code == "GC605")
    assert "draws" not in found.message


def test_counting_and_caching_layers_remember_and_dice_do_not() -> None:
    class Counting(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x / self.calls

    class Cached(nn.Module):
        scale = None

        def forward(self, x):
            if self.scale is None:
                self.scale = x.detach().abs().max()
            return x / self.scale

    class Last(nn.Module):
        before = 0.0

        def forward(self, x):
            y = x + self.before
            self.before = x.detach() * 0.5
            return y * y

    dice = np.random.default_rng(5)
    assert "how often" in behaviour(Counting(), X)["GC605"]
    assert "a fresh layer" in behaviour(Cached(), X)["GC605"]
    assert "another input" in behaviour(Last(), X)["GC605"]
    assert list(behaviour(lambda x: x * dice.random(), X)) == ["GC602"]


class FirstSlope(torch.autograd.Function):
    """Keeps what its first call computed where every other call finds it."""

    slope = None

    @staticmethod
    def forward(ctx, x):
        if FirstSlope.slope is None:
            FirstSlope.slope = 2 * x.detach().clone()
        return x**2

    @staticmethod
    def backward(ctx, g):
        return FirstSlope.slope * g


def test_what_a_class_keeps_of_its_first_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FirstSlope, "slope", None)
    assert "still that of the first input" in behaviour(FirstSlope, X)["GC605"]


@pytest.fixture
def is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of a few numbers are looked at as large ones are: by sums over blocks."""
    monkeypatch.setattr(checks, "LARGE", 1)
    monkeypatch.setattr(block_sums, "FEW", 1)


@pytest.mark.usefixtures("is_large")
def test_what_a_large_layer_keeps_of_its_first_input(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"x": np.random.default_rng(0).standard_normal((3, 50))}  # two blocks and a part of one
    monkeypatch.setattr(FirstSlope, "slope", None)
    assert "still that of the first input" in behaviour(FirstSlope, many)["GC605"]
    assert behaviour(lambda x: x**2, many) == {}
    assert behaviour(lambda x: torch.relu(x) + 2 * x, many) == {}


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: 3 * x,
        lambda x: torch.relu(x) + 2 * x,
        lambda x: (64 * x % 1 - 0.5).abs(),  # a zigzag: its slope is the same again elsewhere
    ],
)
def test_the_same_gradient_elsewhere_is_no_memory(layer) -> None:
    assert "GC605" not in behaviour(layer, X)


class Squares:
    """A pair of NumPy that remembers its input."""

    def forward(self, x):
        self.x = x.copy()
        return x * x

    def backward(self, up):
        return 2 * up * self.x


class AddingUp(Squares):
    total = 0

    def backward(self, up):
        self.total = self.total + 2 * up * self.x
        return self.total


class FirstAlone(Squares):
    """What the first call has made is kept for the others."""

    slope = None

    def backward(self, up):
        if self.slope is None:
            self.slope = 2 * up * self.x
        return self.slope


class Averaging(Squares):
    """Right: a running mean moves the value as well."""

    def __init__(self):
        self.mean = np.zeros(1)

    def forward(self, x):
        self.mean = 0.9 * self.mean + 1
        self.x = x * self.mean
        return x * x * self.mean


@pytest.mark.parametrize(
    ("layer", "codes"),
    [(Squares, set()), (Averaging, set()), (AddingUp, {"GC605"}), (FirstAlone, {"GC605"})],
)
def test_what_an_object_of_numpy_keeps_shows_in_its_second_call(layer, codes):
    found = g.check(layer(), X["x"], dtypes=["float64"])
    assert {one.code for one in found.findings if one.severity == "error"} == codes


def keeping(container, key, made):
    """x times what a first call put into the container."""

    def layer(x):
        if isinstance(container, list):
            if not container:
                container.append(made(x))
            return x * container[0]
        if key(x) not in container:
            container[key(x)] = made(x)
        return x * container[key(x)]

    return layer


@pytest.mark.parametrize(
    ("container", "key"), [({}, lambda x: x.dtype), ({}, lambda x: "scale"), ([], None)]
)
def test_a_captured_container_keeps_the_first_input(container, key) -> None:
    layer = keeping(container, key, lambda x: (x * 1.0).detach())
    assert "while `container` is empty" in behaviour(layer, X)["GC605"]
    assert len(container) == 1, "it is as it was"


def test_what_a_cache_makes_of_the_shape_alone_is_no_memory() -> None:
    layer = keeping({}, len, lambda x: torch.arange(len(x), dtype=x.dtype))
    assert behaviour(layer, X) == {}


def test_what_a_class_shares_keeps_the_first_input_in_any_dtype() -> None:
    class Scaled:
        shared: dict[str, np.ndarray] = {}  # noqa: RUF012

        def forward(self, x):
            self.shared.setdefault("scale", np.abs(x).max() * np.ones(1, x.dtype))
            return x * self.shared["scale"]

        def backward(self, upstream):
            return upstream * self.shared["scale"]

    report = g.check(Scaled(), X["x"])
    assert {finding.code for finding in report.findings} == {"GC605"}


def test_captured_weights_are_no_cache() -> None:
    weights = [torch.tensor([2.0, 3.0]), torch.tensor([0.5, 0.1])]
    named = {"w": torch.tensor([2.0, 3.0])}

    def layer(x):
        for weight in weights:
            x = x * weight
        return x * named["w"] if "w" in named else x

    assert behaviour(layer, X) == {}
    assert len(weights) == 2
    assert list(named) == ["w"]


class _Keeps:
    """A plain object with a weight, which its code never assigns."""

    def __init__(self):
        self.kept = None
        self.weight = torch.tensor([1.0, 2.0, 3.0])


class KeepsTheFirst(_Keeps):
    def __call__(self, x):
        if self.kept is None:
            self._fill(x)
        return x * self.kept * self.weight

    def _fill(self, x):
        self.kept = torch.cos(x.detach())


class KeepsAConstant(_Keeps):
    def __call__(self, x):
        if self.kept is None:
            self.kept = torch.arange(x.numel())
        return x * self.kept * self.weight


class KeepsTheLast(_Keeps):
    def __call__(self, x):
        y = torch.sin(x) * self.weight
        self.kept = y.detach()
        return y


class NeedsWhatItAssigns(_Keeps):
    def __call__(self, x):
        self.weight = self.weight * 1.0
        return torch.sin(x) * self.weight


_kept = None


def keeps_the_first_in_a_global(x):
    global _kept
    if _kept is None:
        _kept = torch.cos(x.detach())
    return x * _kept


def test_what_a_first_call_assigns_shows_in_a_call_with_another_input() -> None:
    x = torch.tensor([0.5, 1.0, 2.0])
    for layer, name in ((KeepsTheFirst(), "kept"), (keeps_the_first_in_a_global, "_kept")):
        (finding,) = g.check(layer, x).findings
        assert finding.code == "GC605"
        assert f"while `{name}` is not set" in finding.message
    for right in (KeepsAConstant(), KeepsTheLast(), NeedsWhatItAssigns()):
        assert g.check(right, x).findings == (), right


class Keeper:
    """A plain object that is no layer itself."""

    def __init__(self):
        self.weight = 2.0
        self.dict = {}


def largest_of(x):
    return x.detach().abs().max()


def by_a_missing_attribute(x, keeper):
    if not hasattr(keeper, "most"):
        keeper.most = largest_of(x)
    return keeper.weight * x / keeper.most


def by_a_float(x, keeper):
    return keeper.weight * x / keeper.dict.setdefault("most", float(largest_of(x)))


def by_the_last(x, keeper):
    keeper.last = largest_of(x)
    return keeper.weight * x / keeper.last


def by_the_shape(x, keeper):
    if not hasattr(keeper, "count"):
        keeper.count = float(x.numel())
    return keeper.weight * torch.sin(x) / keeper.dict.setdefault(x.dtype, x.new_full((), 3.0))


@pytest.mark.parametrize("dtypes", [["float64"], ["float32"]])
def test_what_an_object_keeps_that_a_layer_captured(dtypes) -> None:
    x = torch.tensor([0.5, 1.0, 2.0])
    for how in (by_a_missing_attribute, by_a_float):
        keeper = Keeper()
        found = g.check(lambda x, how=how, keeper=keeper: how(x, keeper), x, dtypes=dtypes)
        assert {one.code for one in found.findings} == {"GC605"}, how
        assert keeper.weight == 2.0
    for how in (by_the_last, by_the_shape):
        keeper = Keeper()
        found = g.check(lambda x, how=how, keeper=keeper: how(x, keeper), x, dtypes=dtypes)
        assert "GC605" not in {one.code for one in found.findings}, how


def test_what_functools_remembers_of_the_first_input() -> None:
    seen: list[torch.Tensor] = []

    @functools.lru_cache
    def scale(count: int) -> torch.Tensor:
        return largest_of(seen[-1])

    @functools.lru_cache
    def ramp(count: int) -> torch.Tensor:
        return torch.arange(count) + 1.0

    def stale(x):
        seen.append(x)
        return x / scale(x.numel())

    x = torch.tensor([0.5, 1.0, 2.0])
    assert "GC605" in {one.code for one in g.check(stale, x, dtypes=["float32"]).findings}
    assert g.check(lambda x: torch.sin(x) * ramp(x.numel()), x).findings == ()


def test_weights_beside_a_cache_of_constants_are_no_memory() -> None:
    weights = [torch.tensor([2.0, 3.0]), torch.tensor([0.5, 0.1])]
    ones: dict[int, torch.Tensor] = {}

    def layer(x):
        for weight in weights:
            x = x * weight
        return x * ones.setdefault(x.dtype, torch.ones(2, dtype=x.dtype))

    assert behaviour(layer, X) == {}


def _into_one_array(cls, ctx, g):
    (x,) = ctx.saved_tensors
    if cls.saved is None or cls.saved.dtype != x.dtype or cls.saved.shape != x.shape:
        cls.saved = torch.empty_like(x)
    return torch.mul(g, torch.cos(x), out=cls.saved)


class SineIntoOneArray(torch.autograd.Function):
    saved = None

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        return _into_one_array(SineIntoOneArray, ctx, g)


@pytest.mark.parametrize(
    "layer", [SineIntoOneArray.apply, lambda x: SineIntoOneArray.apply(x).sum()]
)
def test_a_gradient_is_overwritten_after_it_was_returned(layer) -> None:
    """By the next pass; the number itself was right, so nothing else is wrong."""
    report = g.check(layer, torch.tensor([0.7, -1.3], dtype=torch.float64))
    assert {finding.code for finding in report.findings} == {"GC605"}
    (finding,) = report.findings
    assert "overwritten by the next one" in finding.message
    assert finding.input == "x"


def test_what_copies_such_a_gradient_has_its_own() -> None:
    report = g.check(lambda x: SineIntoOneArray.apply(2 * x), torch.tensor([0.7, -1.3]))
    assert not report.findings


class Sine:
    """A NumPy layer that owns no more than what its calls need."""

    def __init__(self):
        self.y = self.x_bar = None

    def forward(self, x):
        self.x = x
        return np.sin(x)

    def backward(self, upstream):
        return upstream * np.cos(self.x)


class IntoOneArray(Sine):
    def backward(self, upstream):
        if self.x_bar is None:
            self.x_bar = np.empty_like(upstream)
        return np.multiply(upstream, np.cos(self.x), out=self.x_bar)


class IntoTheLastOne(Sine):
    def backward(self, upstream):
        x_bar = super().backward(upstream)
        if self.x_bar is not None:
            self.x_bar[:] = x_bar
        self.x_bar = x_bar
        return x_bar


class IntoTheOutput(Sine):
    def forward(self, x):
        self.y = super().forward(x)
        self.x = x.copy()
        return self.y

    def backward(self, upstream):
        np.cos(self.x, out=self.y)
        return upstream * self.y


class OneOutput(Sine):
    def forward(self, x):
        self.x = x
        if self.y is None:
            self.y = np.empty_like(x)
        return np.sin(x, out=self.y)


class OwnSums(Sine):
    """Gradients of its own arrays may add up in place."""

    def __init__(self):
        super().__init__()
        self.w = np.array([1.0, 2.0])
        self.dw = np.zeros(2)

    def forward(self, x):
        return super().forward(x) * self.w

    def backward(self, upstream):
        self.dw += upstream * np.sin(self.x)
        return super().backward(upstream) * self.w


class ExpSpoilt(torch.autograd.Function):
    """Overwrites what it saved, past the eyes of PyTorch."""

    factor = 1.0

    @staticmethod
    def forward(ctx, x):
        ctx.y = torch.exp(x)
        return ctx.y

    @classmethod
    def backward(cls, ctx, g):
        ctx.y.data.mul_(g)
        return cls.factor * ctx.y


class ExpSpoiltAndWrong(ExpSpoilt):
    factor = 2.0


@pytest.mark.parametrize(
    ("layer", "codes"),
    [(ExpSpoilt.apply, {"GC605"}), (ExpSpoiltAndWrong.apply, {"GC101", "GC605"})],
)
def test_a_pass_over_a_graph_that_another_one_spoilt_is_no_evidence(layer, codes) -> None:
    report = g.check(layer, torch.tensor([0.7, -1.3, 0.2], dtype=torch.float64))
    assert {finding.code for finding in report.findings} == codes


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (IntoOneArray, "overwritten by the next one"),
        (IntoTheLastOne, "overwritten by the next one"),
        (IntoTheOutput, "the backward writes to the output"),
        (OneOutput, "is overwritten by the next call"),
    ],
)
def test_a_pair_overwrites_what_it_returned(layer, words) -> None:
    (finding,) = g.check(layer(), X["x"]).findings
    assert finding.code == "GC605"
    assert words in finding.message


@pytest.mark.parametrize("layer", [Sine, OwnSums])
def test_a_pair_with_memory_of_its_own(layer) -> None:
    assert not g.check(layer(), X["x"]).findings
