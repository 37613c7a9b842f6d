"""Sines with right first derivatives in both modes, each wrong in one composition of two modes.

The cosine in a rule of the sine has a backward and a jvp of its own, of which one is wrong: it
is used where the rule of the sine is differentiated again.
"""

import torch
from torch.autograd import Function


class _Cosine(Function):
    """-sin by both rules."""

    @staticmethod
    def forward(x):
        return torch.cos(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return -g * torch.sin(x)

    @staticmethod
    def jvp(ctx, x_dot):
        (x,) = ctx.saved_tensors
        return -x_dot * torch.sin(x)


class _WrongBackward(_Cosine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.sin(x)


class _WrongJvp(_Cosine):
    @staticmethod
    def jvp(ctx, x_dot):
        (x,) = ctx.saved_tensors
        return x_dot * torch.sin(x)


class _Sine(Function):
    @staticmethod
    def forward(x):
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)


class ReverseOverReverse(_Sine):
    @staticmethod
    def backward(ctx, g):
        return g * _WrongBackward.apply(*ctx.saved_tensors)

    @staticmethod
    def jvp(ctx, x_dot):
        return x_dot * _Cosine.apply(*ctx.saved_tensors)


class ForwardOverReverse(_Sine):
    @staticmethod
    def backward(ctx, g):
        return g * _WrongJvp.apply(*ctx.saved_tensors)

    @staticmethod
    def jvp(ctx, x_dot):
        return x_dot * _Cosine.apply(*ctx.saved_tensors)


class ReverseOverForward(_Sine):
    @staticmethod
    def backward(ctx, g):
        return g * _Cosine.apply(*ctx.saved_tensors)

    @staticmethod
    def jvp(ctx, x_dot):
        return x_dot * _WrongBackward.apply(*ctx.saved_tensors)
