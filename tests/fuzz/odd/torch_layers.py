"""Layers of PyTorch that are right in an odd way, or wrong in one place: `tests.fuzz.oddities`."""

import contextlib
import threading
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint


def _rule(backward, forward=torch.sin, jvp=None, saved=lambda x, y: x):
    """A layer whose backward is the function of what is saved and of the upstream gradient, and
    whose jvp, where there is one, that of what is saved and of the tangent."""

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            y = forward(x)
            ctx.save_for_backward(saved(x, y))
            ctx.save_for_forward(saved(x, y))
            return y

        @staticmethod
        def backward(ctx, g):
            return backward(ctx.saved_tensors[0], g)

    if jvp is not None:
        Rule.jvp = staticmethod(lambda ctx, x_dot: jvp(ctx.saved_tensors[0], x_dot))
    return Rule.apply


def _cosine(x, g):
    """The right rule of the sine, which others below change."""
    return g * torch.cos(x)


def right_function(x):
    """Right: a Function as in the manual."""
    return _rule(_cosine)(x)


def saves_the_output(x):
    """GC101: the backward takes the saved output for the input."""
    return _rule(_cosine, saved=lambda x, y: y)(x)


def wrong_in_one_entry(x):
    """GC101: the last entry of the gradient is halved."""

    def backward(x, g):
        made = g * torch.cos(x)
        made[-1] = made[-1] * 0.5
        return made

    return _rule(backward)(x)


def wrong_in_float32(x):
    """GC101: a factor in float32 only."""
    return _rule(lambda x, g: g * torch.cos(x) * (1.5 if x.dtype == torch.float32 else 1))(x)


def wrong_in_float64(x):
    """GC101: a factor in float64 only."""
    return _rule(lambda x, g: g * torch.cos(x) * (1.5 if x.dtype == torch.float64 else 1))(x)


def wrong_for_large_upstreams(x):
    """GC607: the gradient is clipped."""
    return _rule(lambda x, g: (g * torch.cos(x)).clamp(-0.01, 0.01))(x)


def forgets_the_upstream(x):
    """GC101 GC607: the backward does not read the upstream gradient."""
    return (2 * _rule(lambda x, g: torch.cos(x))(x)).sum()


def returns_none_for_an_input(x, w):
    """GC102: the backward returns None for the weight."""

    class Rule(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0], None

    return Rule.apply(x, w)


def swaps_the_gradients(x, w):
    """GC101: the two gradients come in the wrong order."""

    class Rule(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * x, g * w

    return Rule.apply(x, w)


def wrong_jvp(x):
    """GC101 GC105: forward mode has the wrong sign, reverse mode is right."""
    return _rule(_cosine, jvp=lambda x, x_dot: -x_dot * torch.cos(x))(x)


def right_jvp(x):
    """Right: both modes of a Function."""
    return _rule(_cosine, jvp=_cosine)(x)


def setup_context(x):
    """Right: the newer form, with setup_context and generated vmap."""

    class Rule(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return torch.sin(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * torch.cos(ctx.saved_tensors[0])

    return Rule.apply(x)


def keeps_the_input_on_ctx(x):
    """Right: an attribute of ctx in place of save_for_backward."""

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            return g * torch.cos(ctx.x)

    return Rule.apply(x)


def keeps_a_number(x):
    """GC101: `.item()` of the first entry serves for all."""

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.first = x.reshape(-1)[0].item()
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            return g * float(np.cos(ctx.first))

    return Rule.apply(x)


def wrong_shape(x):
    """GC101 GC103 GC701: the gradient is summed to one number."""
    return _rule(lambda x, g: (g * torch.cos(x)).sum())(x)


def wrong_dtype(x):
    """GC101 GC103 GC301: the gradient passes through float16."""
    return _rule(lambda x, g: (g * torch.cos(x)).half().to(g.dtype))(x)


def straight_through(x):
    """GC101 GC102: rounding with the derivative 1, not declared as a surrogate."""
    return _rule(lambda x, g: g, torch.round)(x) + x


def nan_for_zero_upstream(x):
    """GC607 GC201: 0 / 0 where the upstream gradient is zero."""
    return _rule(lambda x, g: g * g / g * torch.cos(x))(x).exp()


def adds_noise(x):
    """GC101 GC602 GC605: noise in the gradient that no seed makes."""
    noise = np.random.default_rng()
    return _rule(lambda x, g: g * torch.cos(x) * (1 + 0.1 * float(noise.standard_normal())))(x)


def writes_to_the_upstream(x):
    """GC604: the upstream gradient is scaled in place."""
    return _rule(lambda x, g: g.mul_(torch.cos(x)))(x)


def writes_to_the_saved_input(x):
    """GC603 GC605 GC101: the backward overwrites what it saved."""

    def backward(x, g):
        made = g * torch.cos(x)
        x.data.zero_()
        return made

    return _rule(backward)(x)


def writes_in_place_to_a_copy(x):
    """Right: in place, on a copy."""
    y = x.clone()
    y.mul_(2)
    y[0] = 3 * y[0]
    return y.sin()


def writes_to_a_view(x):
    """Right: in place, on views of a copy."""
    y = x * 1
    y[:1].mul_(2)
    y.view(-1)[-1:].mul_(3)
    return y


def scales_its_input(x):
    """GC603: the input is scaled in place."""
    x.data.mul_(2)
    return torch.sin(x)


def detaches_a_factor(x):
    """GC101 GC102: a factor is detached."""
    return x * x.detach()


def detaches_all(x):
    """GC102 GC109: cut from the graph."""
    return torch.sin(x).detach()


def detaches_one_output(x):
    """Right: one of two outputs is cut, which a note says."""
    return torch.sin(x), torch.cos(x).detach()


def computes_in_no_grad(x):
    """GC101 GC102: a part is computed under no_grad."""
    with torch.no_grad():
        scale = x.square().sum()
    return x * scale


def computes_in_inference_mode(x):
    """GC102 GC109 GC701: all is computed in inference mode."""
    with torch.inference_mode():
        return torch.sin(x)


def rebuilds_a_tensor(x):
    """GC102: the numbers go through a list."""
    return torch.tensor(x.tolist(), dtype=x.dtype) * 2


def goes_through_numpy(x):
    """GC102: NumPy in the middle."""
    return torch.from_numpy(np.sin(x.detach().numpy()))


def goes_through_item(x):
    """GC101 GC102: `.item()` in the middle."""
    return x * x[0].item()


def gives_the_input(x):
    """Right: the output is the input itself."""
    return x


def gives_a_view(x):
    """Right: the output is a view of the input."""
    return x[1:]


def gives_input_and_more(x):
    """Right: the input is one of the outputs."""
    return x, x.sin(), x


def gives_a_dictionary(x):
    """Right: a dictionary, with None and a text in it."""
    return {"a": x.sin(), "b": None, "c": "text", "d": [x.exp(), 3]}


Both = namedtuple("Both", ["loss", "mask"])


def gives_a_named_tuple(x):
    """Right: a named tuple with a mask."""
    return Both((x * x).sum(), x > 0)


@dataclass
class Pair:
    value: torch.Tensor
    note: str


def gives_a_dataclass(x):
    """Right: a dataclass."""
    return Pair(x.tanh(), "fine")


def gives_a_complex(x):
    """Right: complex numbers inside, real ones at the end."""
    z = torch.complex(torch.cos(x), torch.sin(x)) ** 3
    return z.real + z.abs()


def transforms(x):
    """Right: a Fourier transform and back."""
    return torch.fft.irfft(torch.fft.rfft(x) * 2, n=x.shape[0])


def conjugates_wrongly(x):
    """GC101: the backward of a transform forgets to conjugate."""

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            return torch.fft.fft(x.to(torch.complex128)).imag.to(x.dtype)

        @staticmethod
        def backward(ctx, g):
            return -torch.fft.fft(g.to(torch.complex128)).imag.to(g.dtype)

    return Rule.apply(x)


def not_contiguous(x):
    """Right: transposed and strided arrays."""
    y = torch.outer(x, x).T[::2]
    return y.transpose(0, 1).sin()


def reads_by_view(x):
    """GC606 GC701: the backward asks for a contiguous upstream gradient.

    inputs: {x: {shape: [3, 2], distribution: normal, seed: 4}}
    """
    return _rule(lambda x, g: g.view(-1).view(x.shape) * torch.cos(x))(x)


def expands(x):
    """Right: stride 0."""
    return x.sum().expand(4) * torch.arange(4.0, dtype=x.dtype)


def sparse_inside(x):
    """Right: a sparse matrix in the middle."""
    index = torch.tensor([[0, 1], [1, 0]])
    matrix = torch.sparse_coo_tensor(index, x[:2], (2, 2))
    return torch.sparse.mm(matrix, torch.ones(2, 1, dtype=x.dtype))


def does_not_depend(x, w):
    """Right: the output does not depend on an input."""
    return x.sin()


def is_constant(x):
    """GC102: nothing depends on the input in the graph, and the value does."""
    return torch.ones(2, dtype=x.dtype, requires_grad=True) * float(x.detach().sum())


def indexes(x, k):
    """Right: rows chosen by whole numbers.

    inputs: {x: [0.5, -1.25, 2.0], k: {value: [0, 2, 0], dtype: int64}}
    """
    return x[k].exp()


def gathers_wrongly(x, k):
    """GC101: the backward of a gather assigns where it should add.

    inputs: {x: [0.5, -1.25, 2.0], k: {value: [0, 2, 0], dtype: int64}}
    """

    class Rule(Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x, k)
            return x[k]

        @staticmethod
        def backward(ctx, g):
            x, k = ctx.saved_tensors
            made = torch.zeros_like(x)
            made[k] = g
            return made, None

    return Rule.apply(x, k)


def empty(x):
    """Right: a part without entries."""
    return x[:0].sum() + x[:0].exp().prod() * x.sin()


def one_number(x):
    """Right: an input of no dimension.

    inputs: {x: 0.7}
    """
    return torch.sin(x)


def forgets_to_sum(x, b):
    """GC101 GC103 GC701: the gradient of what was broadcast is not summed.

    inputs: {x: {shape: [3, 2], distribution: normal, seed: 4}, b: [0.5, -1.0]}
    """

    class Rule(Function):
        @staticmethod
        def forward(ctx, x, b):
            return x + b

        @staticmethod
        def backward(ctx, g):
            return g, g[0]

    return Rule.apply(x, b)


def raises_in_the_backward(x):
    """GC701: the backward raises."""

    def backward(x, g):
        raise ValueError("no")

    return _rule(backward)(x)


def runs_in_threads(x):
    """Right: parts are computed in threads."""
    with ThreadPoolExecutor(2) as threads:
        return torch.stack(list(threads.map(torch.sin, x)))


def runs_in_a_thread_without_grad(x):
    """Right: gradient mode belongs to a thread."""
    made = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: made.append(torch.sin(x)))
        thread.start()
        thread.join()
    return made[0]


def checkpoints(x):
    """Right: a checkpoint."""
    return checkpoint(lambda v: torch.tanh(v * v), x, use_reentrant=False)


def checkpoints_again(x):
    """Right: a reentrant checkpoint."""
    return checkpoint(lambda v: torch.tanh(v * v), x, use_reentrant=True)


def maps(x):
    """Right: vmap of a gradient."""
    return torch.func.vmap(torch.func.grad(lambda v: torch.sin(v) * v))(x)


def takes_a_gradient(x):
    """GC102: the gradient of a part, with its graph, and no tangent through `detach`."""
    if not x.requires_grad:
        x = x.detach().requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(torch.sin(x).sum(), x, create_graph=True)
    return slope


def hooks_right(x):
    """Right: a hook that looks."""
    y = torch.sin(x)
    if y.requires_grad:
        y.register_hook(lambda g: None)
    return y


def hooks_wrong(x):
    """GC101: a hook that scales the gradient."""
    y = torch.sin(x)
    if y.requires_grad:
        y.register_hook(lambda g: g * 1.01)
    return y


def casts_down(x):
    """Right: a cast to bfloat16 and back.

    dtypes: [float32]
    """
    return x.to(torch.bfloat16).to(x.dtype) * 2


def autocasts(x):
    """Right: a product under autocast.

    dtypes: [float32]
    """
    with torch.autocast("cpu", torch.bfloat16):
        y = torch.outer(x, x) @ x
    return y.to(x.dtype)


_cache = {}


def caches_by_id(x):
    """Right: a cache by identity that keeps what it is asked for alive."""
    if id(x) not in _cache:
        _cache[id(x)] = (x, x.shape[0])
    return x.sin() * _cache[id(x)][1]


_seen = []


def remembers_the_last(x):
    """GC101 GC602 GC605: scaled by the input of the call before."""
    _seen.append(x.detach().abs().max() * 2)
    return torch.sin(x / _seen[-2:][0].to(x.dtype))


class _Counter:
    calls = 0


def grows(x):
    """GC101 GC602 GC605: scaled by the number of calls."""
    _Counter.calls += 1
    return torch.sin(x) * _Counter.calls


class Momentum(nn.Module):
    """Right: batch norm in training, whose statistics move."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        y = self.norm(torch.stack([x, 2 * x.sin(), x.exp()], 1))
        return (y**3).sum(1)


class Dropped(nn.Module):
    """Right: dropout in training."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x.sin())


class Frozen(nn.Module):
    """Right: a parameter that takes no gradient."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(2.0), requires_grad=False)

    def forward(self, x):
        return torch.sin(x * self.w)


class Reads_data(nn.Module):
    """GC102: a parameter is read by `.data`."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return torch.sin(x * self.w.data)


class Steps(nn.Module):
    """GC603 GC605 GC101: a parameter is updated at every call."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        with torch.no_grad():
            self.w.mul_(1.1)
        return torch.sin(x * self.w)


class Tagged(torch.Tensor):
    """A subclass of Tensor."""


def subclasses(x):
    """Right: a subclass of Tensor inside."""
    return torch.sin(x.as_subclass(Tagged)) * 2


def compiles(x):
    """Right: a traced function."""
    return torch.jit.trace(torch.tanh, torch.ones(3, dtype=x.dtype), check_trace=False)(x)


def recurses(x, depth=5):
    """Right: a recursion."""
    return x if depth == 0 else torch.sin(recurses(x, depth - 1) * 1.1)


def draws(x):
    """Right: the framework's own noise, which a seed repeats."""
    return x * torch.rand_like(x)


def is_not_a_number(x):
    """GC203: nan at the second entry."""
    y = torch.ones_like(x)
    y[1] = float("nan")
    return x * y


def square_root_at_zero(x):
    """GC201 GC202 GC402: the slope of a norm at 0, times 0.

    inputs: {x: [0.0, 0.0]}
    """
    return torch.sqrt((x * x).sum())


def where_and_nan(x):
    """GC201: the branch that is not taken gives nan.

    inputs: {x: [0.0, 1.0]}
    """
    return torch.where(x > 0, x / x * torch.sqrt(x), x * 0)


def second_order_dropped(x):
    """GC106 GC102: the backward is no function of the graph.

    order: 2
    """
    return _rule(lambda x, g: g * torch.cos(x).detach())(x).sum()


def second_order_wrong(x):
    """GC106: the derivative of the backward is wrong.

    order: 2
    """
    return _rule(lambda x, g: g * _rule(lambda v, u: u * torch.sin(v), torch.cos)(x))(x).sum()


def second_order_right(x):
    """Right: a backward that can be derived.

    order: 2
    """
    return _rule(_cosine)(x).sum()


def once(x):
    """Right: once_differentiable."""

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * torch.cos(ctx.saved_tensors[0])

    return Rule.apply(x)


def marks_not_differentiable(x):
    """Right: an output is declared not to be differentiable, which a note says."""

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            a, b = torch.sin(x), torch.cos(x)
            ctx.mark_non_differentiable(b)
            return a, b

        @staticmethod
        def backward(ctx, g, _):
            return g * torch.cos(ctx.saved_tensors[0])

    return Rule.apply(x)


def two_outputs_one_derived(x):
    """GC101 GC102: the upstream gradient of the second output is not used."""

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x), torch.cos(x)

        @staticmethod
        def backward(ctx, g, _):
            return g * torch.cos(ctx.saved_tensors[0])

    return Rule.apply(x)


def swallows_exceptions(x):
    """Right: an exception inside that is caught."""
    with contextlib.suppress(RuntimeError):
        torch.ones(2) @ torch.ones(3)
    return torch.sin(x)


def overflows_inside(x):
    """GC201 GC203: exp overflows."""
    return torch.log(torch.exp(x * 1000 + 2000)) * 0 + x


def wraps_integers(x):
    """Right: whole numbers that wrap around have no part in the derivative."""
    k = torch.tensor([2**31 - 1], dtype=torch.int32) + 1
    return x * k.to(x.dtype)


def nested(x):
    """Right: a nested tensor inside."""
    both = torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)])
    return x.sin() * len(both.unbind())


class Parametrized(nn.Module):
    """Right: weight norm."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))

    def forward(self, x):
        return self.linear(x)


def _twice(double_backward, forward=torch.sin, slope=torch.cos):
    """A layer whose backward is a Function with this backward in turn, a function of `x`, the first
    upstream gradient and the second."""

    class Slope(Function):
        @staticmethod
        def forward(ctx, x, g):
            ctx.save_for_backward(x, g)
            return g * slope(x)

        @staticmethod
        def backward(ctx, h):
            return double_backward(*ctx.saved_tensors, h)

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return Slope.apply(ctx.saved_tensors[0], g)

    return Rule.apply


def twice_right(x):
    """Right: a backward with a backward of its own.
    order: 2
    """
    return _twice(lambda x, g, h: (-h * g * torch.sin(x), h * torch.cos(x)))(x) ** 2


def twice_wrong_sign(x):
    """GC106: the second derivative has the wrong sign.
    order: 2
    """
    return _twice(lambda x, g, h: (h * g * torch.sin(x), h * torch.cos(x)))(x)


def twice_without_the_slope(x):
    """GC106: what the upstream gradient depends on is left out.
    order: 2
    """
    return _twice(lambda x, g, h: (-h * g * torch.sin(x), None))(x) ** 2


def twice_without_the_bend(x):
    """GC106: the slope is taken for a constant.
    order: 2
    """
    return _twice(lambda x, g, h: (None, h * torch.cos(x)))(x)


def twice_forgets_the_upstream(x):
    """GC106: the first upstream gradient is taken for 1.
    order: 2
    """
    return 3 * _twice(lambda x, g, h: (-h * torch.sin(x), h * torch.cos(x)))(x)


def twice_saved_detached(x):
    """GC106: the backward detaches what it has saved.
    order: 2
    """
    return _rule(lambda x, g: g * torch.cos(x.detach()))(x)


def twice_without_grad(x):
    """GC106: the backward computes its slope without a graph.
    order: 2
    """

    def backward(x, g):
        with torch.no_grad():
            slope = torch.cos(x)
        return g * slope

    return _rule(backward)(x)


def twice_of_another_function(x):
    """GC106: by half off in the second derivative of a square.
    order: 2
    """
    second = _twice(lambda x, g, h: (h * g, 2 * h * x), torch.square, lambda x: 2 * x)
    return second(x).sum()


def _root(slope):
    """The root of y^3 + y = x by bisection, with the derivative 1 / slope(y)."""

    def forward(x):
        low, high = torch.full_like(x, -9.0), torch.full_like(x, 9.0)
        for _ in range(60):
            middle = (low + high) / 2
            below = middle**3 + middle < x
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    return _rule(lambda y, g: g / slope(y), forward, saved=lambda x, y: y)


def finds_a_root(x):
    """Right: the implicit derivative at the root."""
    return _root(lambda y: 3 * y**2 + 1)(x)


def finds_a_root_of_another(x):
    """GC101: the implicit derivative of another equation."""
    return _root(lambda y: 3 * y**2)(x)


def _sparsemax(part):
    """The projection on the simplex; what is at the threshold counts as support."""

    def forward(x):
        ordered = torch.sort(x, descending=True).values
        means = (ordered.cumsum(0) - 1) / torch.arange(1, len(x) + 1, dtype=x.dtype)
        return (x - means[int((ordered > means).sum()) - 1]).clamp(min=0)

    def saved(x, y):
        kept = y > 0
        return (x >= (x - y)[kept].max()).to(x.dtype)

    def backward(support, g):
        return part * support * (g - (g * support).sum() / support.sum())

    return _rule(backward, forward, saved=saved)


def projects_at_a_tie(x):
    """Right: a tie of three, with one of the limits of the gradient.
    inputs: {x: [1.0, 0.0, 0.0]}
    """
    return _sparsemax(1.0)(x)


def projects_at_a_tie_too_steeply(x):
    """GC101: a tie of three, with more than any limit.
    inputs: {x: [1.0, 0.0, 0.0]}
    """
    return _sparsemax(1.2)(x)


def _newton(x):
    with torch.no_grad():
        y = x.abs() + 1
        for _ in range(30):
            y = (y + x.abs() / y) / 2
    return y


def newton_with_one_step(x):
    """Right: iterated without a graph, and one step with one."""
    y = _newton(x)
    return y - (y * y - x.abs()) / (2 * y)


def newton_without_a_step(x):
    """GC101 GC102: iterated without a graph."""
    return _newton(x) + x


class _Assign(Function):
    """Overwrites a part of a buffer; its gradient for the buffer forgets that."""

    @staticmethod
    def forward(ctx, buffer, value):
        return torch.cat([value, buffer[value.numel() :]])

    @staticmethod
    def backward(ctx, g):
        return g, g[:2]


def assigns_to_a_constant(x):
    """Right: nothing depends on the gradient that is wrong."""
    return _Assign.apply(torch.zeros_like(x) * x, x[:2].exp())


def assigns_to_a_number(x):
    """GC101: the gradient of what was overwritten arrives."""
    return _Assign.apply(x.cos(), x[:2].exp())


def interpolates_at_its_knots(x):
    """Right: the slope of one side.
    inputs: {x: [0.0, 1.0, 0.5]}
    """
    knots, values = torch.tensor([[-1.0, 0.0, 1.0, 2.0], [0.0, 0.5, 2.0, 2.5]], dtype=x.dtype)
    i = (torch.searchsorted(knots, x.detach(), right=True) - 1).clamp(0, 2)
    return values[i] + (x - knots[i]) * (values[i + 1] - values[i]) / (knots[i + 1] - knots[i])


def gelu_by_another_gelu(x):
    """GC101: the derivative of the approximation by tanh, which the value is not."""

    def backward(x, g):
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            return torch.autograd.grad(nn.functional.gelu(z, approximate="tanh"), z, g)[0]

    return _rule(backward, nn.functional.gelu)(x)


def all_of_the_tied(x):
    """GC101: the largest twice, and each gets all.

    inputs: {x: [0.7, 0.7, -1.0]}
    """
    return _rule(lambda x, g: g * (x == x.max()).to(x.dtype), torch.max)(x)


def none_of_the_tied(x):
    """GC101: at a tie nothing gets anything.

    inputs: {x: [0.7, 0.7, -1.0]}
    """
    return _rule(lambda x, g: g * (x.sort().values.diff()[-1] > 0) * (x == x.max()), torch.max)(x)


def taken_twice_and_written_once(x):
    """GC101: of an entry that is taken twice, the last gradient counts."""
    taken = torch.tensor([0, 2, 0])

    def backward(x, g):
        made = torch.zeros_like(x)
        made[taken] = g
        return made

    return _rule(backward, lambda x: x[taken])(x)


def scores_without_their_scale(x):
    """GC101: the backward of an attention forgets 1 / sqrt(d), a constant that is rounded.

    inputs: {x: [[0.3, 0.8], [-0.5, 1.0], [0.1, 0.2]]}
    """

    def forward(x):
        return torch.softmax(x @ x.T / 2**0.5, 1)

    def backward(x, g):
        y = forward(x)
        scores = y * (g - (g * y).sum(1, keepdim=True))
        return scores @ x + scores.T @ x

    return _rule(backward, forward)(x)


def sure_of_its_class(x):
    """Right: beside logits far below, a logarithm of 1 is 0.

    inputs: {x: [-3.0, -2.5]}
    """
    return torch.log_softmax(8 * torch.cat([x, 0 * x[:1]]), 0)[:2]


def slope_without_a_graph(x):
    """GC101: a product with a gradient that has no graph."""
    (slope,) = torch.autograd.grad((x**3).sum(), x, retain_graph=True)
    return (slope * x).sum()


def hook_without_a_question(x):
    """GC101: a hook that halves the gradient, and can be registered only where there is one."""
    y = torch.sin(x)
    y.register_hook(lambda y_bar: y_bar / 2)
    return y * y


def residuals_in_half(x):
    """GC301: what the backward needs is kept in float16.
    inputs: {x: [0.8231, 1.2277]}
    dtypes: [float64]
    """
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.to(x.dtype)):
        return x.sin() * x


def all_of_it_to_two_of_three(x):
    """GC101: at a tie of three, two get all.
    inputs: {x: [1.0, 1.0, 1.0]}
    """

    class Median(Function):
        @staticmethod
        def forward(ctx, x):
            return x.median()

        @staticmethod
        def backward(ctx, g):
            return g * torch.tensor([1.0, 1.0, 0.0], dtype=g.dtype)

    return Median.apply(x)


def residuals_computed_in_half(x):
    """GC301: what the backward needs is computed from a cast to float16.
    inputs: {x: [0.8231, 1.2277]}
    """

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward((2 * x.half()).tanh())
            return torch.log(torch.cosh(2 * x)) / 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].to(g.dtype)

    return Rule.apply(x)


def monitors_in_half(x):
    """Right: a number for the record is in float16, and nothing else.
    inputs: {x: [0.8231, 1.2277]}
    """
    return x.sin() + 0 * float(x.detach().half().mean().isnan())


class Lazy(nn.Module):
    """Right: its parameters have no shapes before the first call."""

    def __init__(self):
        super().__init__()
        self.inner = nn.LazyLinear(2)

    def forward(self, x):
        return self.inner(x[None])
