"""A layer that a compiler with a bug has compiled."""

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func


def as_traced(graph, inputs):
    return make_boxed_func(graph.forward)


def doubling(graph, inputs):
    """Compiles a backward pass, with a mistake."""

    def doubled(*args):
        return [None if one is None else 2 * one for one in graph.forward(*args)]

    return make_boxed_func(doubled)


@torch.compile(backend=aot_autograd(fw_compiler=as_traced, bw_compiler=doubling))
def compiled(x):
    return torch.sin(x) * x
