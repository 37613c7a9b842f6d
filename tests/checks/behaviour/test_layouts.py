import numpy as np
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from tests.checks.making import behaviour, examined
from tests.every import first

X = {"x": np.array([[0.7, -1.3, 0.4], [2.0, 0.1, -0.6]])}


def sine(read):
    """sin, whose backward reads the upstream gradient by `read(g)`."""

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            return read(g) * torch.cos(ctx.saved_tensors[0])

    return Sine


def test_a_backward_that_is_wrong_in_one_layout() -> None:
    def in_order(g):
        return g.t().contiguous().t().reshape(2, 3) if g.stride() != (1, 2) else g.t().reshape(2, 3)

    def from_the_start(g):
        return torch.as_strided(g, (2, 3), g.stride(), 0)

    def doubled(g):
        return g * 2 if 0 in g.stride() else g

    assert "transposed" in behaviour(sine(in_order), X)["GC606"]
    assert "slice with gaps" in behaviour(sine(from_the_start), X)["GC606"]
    assert "expanded" in behaviour(sine(doubled), X)["GC606"]


def test_a_backward_that_takes_another_order_for_channels_last() -> None:
    """As PyTorch's of a batch normalisation of one image."""

    def by_the_first_stride(g):
        last = g.is_contiguous(memory_format=torch.channels_last)
        return torch.as_strided(g, g.shape, (8, 4, 2, 1)) if last and g.stride(0) < 8 else g

    one = {"x": np.arange(8.0).reshape(1, 2, 2, 2)}
    assert "transposed" in behaviour(sine(by_the_first_stride), one)["GC606"]
    assert behaviour(sine(lambda g: g.contiguous()), one) == {}


def test_a_view_raises_and_a_reshape_does_not() -> None:
    assert "raises RuntimeError" in behaviour(sine(lambda g: g.view(-1).view(2, 3)), X)["GC606"]
    assert behaviour(sine(lambda g: g.reshape(-1).view(2, 3)), X) == {}


def test_an_input_that_is_refused_is_a_warning_and_one_that_is_misread_an_error() -> None:
    (refused,) = examined(lambda x: x.view(-1) * 2, X, behaviour=True).findings
    (misread,) = examined(
        lambda x: torch.as_strided(x, (2, 3), (3, 1)) * 2, X, behaviour=True
    ).findings
    assert (refused.code, refused.severity) == ("GC606", "warning")
    assert (misread.code, misread.severity) == ("GC606", "error")
    expanded = examined(lambda x: x * (1 + (x.stride()[0] == 0)), X, behaviour=True).findings
    assert ["stride 0" in finding.message for finding in expanded] == [True]


def test_gradients_of_numbers_in_the_same_memory_count_as_their_sum() -> None:
    """The backward of `as_strided`, with which `torch.stft` makes its frames, spreads that evenly
    over the numbers that an expanded input has there."""
    weights = torch.arange(4.0, dtype=torch.float64)

    def framed(x):
        return torch.as_strided(x, (1, 4), (4 * x.stride(0), x.stride(0))) * weights

    def doubled(x):
        return framed(x) * (1 + (x.stride(0) == 0))

    x = {"x": np.array([0.4, -0.3, 0.7, 1.1])}
    assert behaviour(framed, x) == {}
    assert "expanded" in behaviour(doubled, x)["GC606"]


@pytest.mark.parametrize("shape", first(1, [(2, 3), (4,)]))
def test_of_what_is_compiled_one_other_layout_is_traced_and_not_compiled(
    shape: tuple[int, ...],
) -> None:
    """As nearly all of the time of a compiled check goes into what its backend writes."""
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return aot_autograd(fw_compiler=graph_alone, bw_compiler=graph_alone)(graph, inputs)

    def doubled_in_other_layouts(x):
        return x * (2 if x.is_contiguous() else 4)

    x = np.linspace(0.3, 1.7, int(np.prod(shape))).reshape(shape)
    assert behaviour(torch.compile(lambda x: x * 2, backend=backend), {"x": x}) == {}
    assert len(compiled) == 1
    found = behaviour(torch.compile(doubled_in_other_layouts, backend=backend), {"x": x})
    assert "where an input is" in found["GC606"]


def graph_alone(graph, inputs):
    return make_boxed_func(graph.forward)


Z = {"x": np.array([[0.7 - 0.2j, 0.4j, -1.3], [0.1 + 1j, 2.0, 0.3 - 0.6j]])}


@pytest.mark.parametrize("x", [Z["x"], Z["x"][0], Z["x"][0, 0]], ids=["matrix", "vector", "number"])
@pytest.mark.parametrize(
    "layer",
    [lambda x: x * x, lambda x: x.abs() ** 2, lambda x: (x * 2, x.imag)],
    ids=["complex", "real", "both"],
)
def test_complex_numbers_are_laid_out_along_the_axes_of_the_layer(layer, x) -> None:
    assert behaviour(layer, {"x": x}) == {}
    assert behaviour(lambda x, w: layer(x * w), {"x": x, "w": x.real}) == {}


def test_a_complex_input_that_is_misread_where_it_is_expanded() -> None:
    found = behaviour(lambda x: x * (2 if 0 in x.stride() else 1), Z)
    assert "stride 0" in found["GC606"]


def test_the_parts_of_a_complex_number_stay_apart() -> None:
    """A row of it is the number: parts made alike are other numbers than any row has."""
    seen = []

    def recorded(x):
        seen.append(x.detach().resolve_conj().clone())
        return x * 2

    for x in (Z["x"][0, 0], Z["x"][:, :1]):
        assert behaviour(recorded, {"x": x}) == {}
    assert all((each.real != each.imag).all() for each in seen)
