"""Forward mode and second derivatives of layers of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.startup import without_compiler
from gradcheck_cli.engines.layer.subject import Call
from gradcheck_cli.engines.torch.compiled import NO_FORWARD_MODE as DROPPED
from gradcheck_cli.engines.torch.compiled import NO_SECOND_ORDER
from gradcheck_cli.engines.torch.passes import pulled

if TYPE_CHECKING:
    from gradcheck_cli.engines.torch.layer import TorchSubject

# In what PyTorch says of a function without one, and of a scripted module.
NO_FORWARD_MODE = ("jvp", "forward", "stateless api")


def jvp(subject: TorchSubject, tangents: Mapping[str, Array]) -> Array | None:
    """As `subject.Subject` has it, like the next two."""
    torch, forward_ad = subject.torch, subject.torch.autograd.forward_ad
    if any(subject.by_name[name].role == "captured" for name in tangents):
        raise Unsupported("forward mode does not reach captured tensors")
    if subject.compiled:
        raise Unsupported(DROPPED)
    with subject.ready({}), forward_ad.dual_level(), without_compiler():
        inputs = subject.inputs({}, ())[1]
        held = {name: held.data for name, held in subject.state.named.items()}
        duals = {
            name: forward_ad.make_dual((held | inputs)[name], subject.tensor(tangent))
            for name, tangent in tangents.items()
        }
        with _forward_mode():
            result = subject.outputs_with(duals, inputs)
        duals_of = [forward_ad.unpack_dual(array) for _, array in result]
        if duals_of and all(tangent is None for _, tangent in duals_of):
            return None
        parts = [
            subject.numpy(torch.zeros_like(primal) if tangent is None else tangent).reshape(-1)
            for primal, tangent in duals_of
        ]
    return np.concatenate([np.zeros(0), *parts])


def hvp_reverse_over_reverse(
    subject: TorchSubject, row: Array, tangents: Mapping[str, Array]
) -> dict[str, Array | None]:
    torch = subject.torch
    wrt = subject.moving()
    if subject.compiled:
        raise Unsupported(NO_SECOND_ORDER)
    with subject.ready({}):
        inputs, handed = subject.inputs({}, wrt)
        outputs, cotangents = subject.cotangents(subject.called(handed, True), row, Call())
        sources = [subject.source(name, inputs) for name in wrt]
        first = torch.autograd.grad(
            outputs, sources, cotangents, create_graph=True, allow_unused=True
        )
        along = [
            (grad * subject.tensor(tangents[name])).sum()
            for name, grad in zip(wrt, first, strict=True)
            if grad is not None and grad.requires_grad and name in tangents
        ]
        if not along:
            return dict.fromkeys(wrt)
        second = torch.autograd.grad(sum(along), sources, allow_unused=True)
        return {
            name: None if grad is None else subject.numpy(grad).reshape(-1)
            for name, grad in zip(wrt, second, strict=True)
        }


def hvp_forward_over_reverse(
    subject: TorchSubject, row: Array, tangents: Mapping[str, Array]
) -> dict[str, Array | None]:
    forward_ad = subject.torch.autograd.forward_ad
    wrt = subject.moving()
    if any(subject.by_name[name].role == "captured" for name in tangents):
        raise Unsupported("forward mode does not reach captured tensors")
    if subject.compiled:
        raise Unsupported(DROPPED)
    with subject.ready({}), forward_ad.dual_level(), without_compiler(), _forward_mode():
        inputs, handed = subject.inputs({}, wrt)
        sources = [subject.source(name, inputs) for name in wrt]
        duals = {
            name: forward_ad.make_dual(subject.source(name, handed), subject.tensor(tangent))
            for name, tangent in tangents.items()
        }
        arrays = subject.outputs_with(duals, handed)
        outputs, cotangents = subject.cotangents(arrays, row, Call())
        # The tangents of the gradients. A backward that is not recorded takes what was saved
        # without its tangents (prod, det, solve); `torch.func` and `create_graph=True` record it.
        grads = pulled(subject, outputs, cotangents, sources, False, differentiable=True)
        found = [None if g is None else forward_ad.unpack_dual(g).tangent for g in grads]
        return {
            name: None if part is None else subject.numpy(part).reshape(-1)
            for name, part in zip(wrt, found, strict=True)
        }


@contextmanager
def _forward_mode() -> Iterator[None]:
    """What PyTorch raises where a function has no forward mode is raised as Unsupported."""
    try:
        yield
    except (NotImplementedError, RuntimeError) as error:
        if any(word in str(error).lower() for word in NO_FORWARD_MODE):
            raise Unsupported(str(error).strip().splitlines()[0]) from error
        raise


def dense(torch: Any, tensor: Any) -> Any:
    """A tensor with all of its entries, zeros too."""
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def real(torch: Any, array: Any) -> Any:
    """Complex numbers as pairs of real ones."""
    return torch.view_as_real(array.resolve_conj()) if array.is_complex() else array
