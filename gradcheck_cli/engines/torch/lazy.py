"""Modules of PyTorch that are complete after a first call: lazy modules, whose parameters have no
shapes before, and modules that choose their parameters by the first numbers they see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gradcheck_cli.domain.dtypes import Values
from gradcheck_cli.engines.layer.binding import NO_TYPES, arrange
from gradcheck_cli.engines.torch.hooks import copy_with_hooks

Tensors = Mapping[str, torch.Tensor]


def initialised(
    module: Any,
    values: Values,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    types: Mapping[str, type] = NO_TYPES,
) -> tuple[Any, list[str]]:
    """The module itself or, if a first call completes it, a copy after one call in the default
    dtype; and the names of parameters that this call set. The call takes its inputs from `values`,
    and these fixed arguments. Errors of a lazy module are passed on."""
    own = _tensors(module)
    is_lazy = any(map(torch.nn.parameter.is_lazy, own.values()))
    if not is_lazy and not _switches(own):
        return module, []
    dtype = torch.get_default_dtype()
    inputs = {
        name: torch.tensor(value, dtype=dtype if value.dtype.kind == "f" else None)
        for name, value in values.items()
        if name not in own
    }

    def call(called: Any) -> None:
        placed, named = arrange(called.forward, list(inputs), args, kwargs, types=types)(inputs)
        with torch.no_grad():
            called(*placed, **named)

    if is_lazy:
        uncopied = torch.nn.parameter.UninitializedBuffer  # PyTorch cannot copy it
        memo = {id(one): uncopied() for one in own.values() if isinstance(one, uncopied)}
        module = copy_with_hooks(module, memo)
        call(module)
        return module, []
    return _set_by_first_call(module, call)


def _set_by_first_call(module: Any, call: Callable[[Any], None]) -> tuple[Any, list[str]]:
    """A copy after one call, if this turns a switch and sets parameters, and a second call changes
    neither: data-dependent initialisation, as in ActNorm (Kingma and Dhariwal, NeurIPS 2018).
    Otherwise the module itself. Its own exceptions come again, and are reported, when it is
    checked."""
    try:
        made = copy_with_hooks(module)
        before = _numbers(made)
        call(made)
        first = _numbers(made)
        call(made)
        second = _numbers(made)
    except Exception:
        return module, []
    parameters = dict(module.named_parameters())
    chosen = [name for name in _changed(before, first) if name in parameters]
    switched = _changed(_switches(before), _switches(first))
    again = _changed(first, second)
    if not chosen or not switched or not {*chosen, *switched}.isdisjoint(again):
        return module, []
    return made, chosen


def _switches(tensors: Tensors) -> dict[str, torch.Tensor]:
    """The tensors that can say whether something has happened."""
    kinds = (torch.bool, torch.uint8)
    return {n: t for n, t in tensors.items() if t.dtype in kinds and t.numel() == 1}


def _tensors(module: Any) -> dict[str, torch.Tensor]:
    return dict([*module.named_parameters(), *module.named_buffers()])


def _numbers(module: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in _tensors(module).items()}


def _changed(before: Tensors, after: Tensors) -> list[str]:
    return [n for n, tensor in before.items() if n in after and not tensor.equal(after[n])]
