"""Lazy modules of PyTorch, whose parameters have no shapes before the first call."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gradcheck_cli.domain.dtypes import Values
from gradcheck_cli.engines.layer.binding import arrange


def initialised(module: Any, values: Values, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The module itself or, if it is lazy, a copy after one call in the default dtype. The call
    takes its inputs from `values`, and these fixed arguments. Errors of the module are passed
    on."""
    own = dict([*module.named_parameters(), *module.named_buffers()])
    if not any(map(torch.nn.parameter.is_lazy, own.values())):
        return module
    uncopied = torch.nn.parameter.UninitializedBuffer  # PyTorch cannot copy it
    memo = {id(one): uncopied() for one in own.values() if isinstance(one, uncopied)}
    module = copy.deepcopy(module, memo)
    dtype = torch.get_default_dtype()
    inputs = {
        name: torch.tensor(value, dtype=dtype if value.dtype.kind == "f" else None)
        for name, value in values.items()
        if name not in own
    }
    placed, named = arrange(module.forward, list(inputs), args, kwargs)(inputs)
    with torch.no_grad():
        module(*placed, **named)
    return module
