"""The gradient tests of a torch project, as they were before it knew gradcheck."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.gradcheck import GradcheckError


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class WrongCube(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * g


class DualExp(torch.autograd.Function):
    """Exp with a backward and a jvp."""

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, x_dot):
        return x_dot * ctx.saved_tensors[0]


class OnceExp(torch.autograd.Function):
    """Exp whose backward detaches: right once, wrong twice."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y.detach())
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].detach()


class Overwrites(Cube):
    """Right, and changes the gradient that it is given."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.mul_(3 * x**2)


def draw(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.double, requires_grad=True)


def test_cube():
    assert gradcheck(Cube.apply, (draw(2, 3),), eps=1e-6, atol=1e-4)


def test_cube_twice():
    assert gradgradcheck(Cube.apply, (draw(2, 3),))


def test_wrong_cube_is_found():
    with pytest.raises(GradcheckError):
        gradcheck(WrongCube.apply, (draw(2, 3),))


def test_wrong_cube_without_an_exception():
    assert not gradcheck(WrongCube.apply, draw(3), raise_exception=False)


def test_forward_mode():
    assert gradcheck(DualExp.apply, (draw(4),), check_forward_ad=True)


def test_wrong_double_backward_is_found():
    assert gradcheck(OnceExp.apply, (draw(3),))
    with pytest.raises(RuntimeError):
        gradgradcheck(OnceExp.apply, (draw(3),))


def test_module_with_a_constant_input():
    layer = torch.nn.Bilinear(3, 2, 2).double()
    assert gradcheck(layer, (draw(4, 3), draw(4, 2).detach()), nondet_tol=1e-10)


def test_two_outputs_and_a_number():
    def split(x, n):
        return x[:n].sin(), x[n:].exp()

    assert gradcheck(split, [draw(5), 2], fast_mode=True)


def test_no_input_that_requires_grad():
    with pytest.raises(ValueError, match="requires_grad"):
        gradcheck(Cube.apply, (draw(2).detach(),))


def test_overwrites():
    assert gradcheck(Overwrites.apply, (draw(2, 3),))
