"""PyTorch's operations and their samples: `op_db`, the database of PyTorch's own tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from gradcheck_cli.domain.suite import Sample
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.torch.detached import asks
from gradcheck_cli.engines.torch.passes import as_pairs
from gradcheck_cli.engines.torch.startup import prepare_test_helpers

_KEPT = 8  # operations whose samples are kept; a worker takes one operation after another


@cache
def database() -> Mapping[str, Any]:
    """The operations by name, variants apart: "sum", "linalg.norm.subgradients_at_zero"."""
    prepare_test_helpers()
    from torch.testing._internal.common_methods_invocations import op_db

    return {
        f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db
    }


def names() -> list[str]:
    return list(database())


def samples(op: str, most: int, is_complex: bool) -> list[Sample]:
    """The first samples of an operation. Raises Unsupported if there is nothing to
    differentiate."""
    dtype = torch.complex128 if is_complex else torch.float64
    info = database()[op]
    if not info.supports_autograd:
        raise Unsupported("it has no derivative")
    if dtype not in info.supported_dtypes("cpu"):
        raise Unsupported(f"it does not support {str(dtype).removeprefix('torch.')}")
    usable, why = [], "no sample has a dense input that requires a gradient"
    for number, sample in enumerate(_first_samples(op, most, dtype)):
        tensors = [leaf for leaf in tree_flatten(_arguments(sample))[0] if asks(leaf)]
        if any(tensor.layout != torch.strided for tensor in tensors):
            continue  # a sparse tensor has no entries to step along one by one
        inputs = {f"x{i}": as_pairs(tensor.detach()).numpy() for i, tensor in enumerate(tensors)}
        pairs = tuple(f"x{i}" for i, tensor in enumerate(tensors) if tensor.is_complex())
        if not inputs or (is_complex and not pairs):
            continue
        if all(one.numel() for one in tensors) and _is_empty(op, number, is_complex, tensors):
            why = "its samples give arrays without entries"
            continue
        usable.append(Sample(op, number, inputs, pairs))
    if not usable:
        raise Unsupported(why)
    return usable


def _is_empty(op: str, number: int, is_complex: bool, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the output has no entries, such as the distances of one point from the others. False
    if the operation raises: the check reports that."""
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=()):
            given = tree_flatten(Operation(op, number, is_complex)(*tensors))[0]
    except Exception:
        return False
    return not any(part.numel() for part in given if isinstance(part, torch.Tensor))


class Operation(torch.nn.Module):  # type: ignore[misc]
    """An operation at a sample, as a function of the tensors that require a gradient, wherever they
    stand among its arguments. The other tensors are buffers, and so is the mask of the output. An
    argument that names the dtype of the sample's tensors follows the dtype of the inputs."""

    def __init__(self, op: str, number: int, is_complex: bool) -> None:
        super().__init__()
        dtype = torch.complex128 if is_complex else torch.float64
        info, sample = database()[op], _first_samples(op, number + 1, dtype)[number]
        leaves, tree = tree_flatten(_arguments(sample))
        moving = [i for i, leaf in enumerate(leaves) if asks(leaf)]
        fixed = [
            i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and i not in moving
        ]
        for i in fixed:
            self.register_buffer(f"argument{i}", leaves[i].detach().clone())
        rest = [None if i in (*moving, *fixed) else leaf for i, leaf in enumerate(leaves)]
        self.register_buffer("kept", _output_mask(info, sample))
        function, wrapper, output = (
            info.get_op(),
            info.gradcheck_wrapper if self.kept is None else self._masked,
            sample.output_process_fn_grad,
        )

        def call(tensors: dict[int, Any]) -> Any:
            first, args, kwargs = tree_unflatten(
                [tensors.get(i, leaf) for i, leaf in enumerate(rest)], tree
            )
            return output(wrapper(function, first, *args, **kwargs))

        self._call: Callable[[dict[int, Any]], Any] = call
        self._moving, self._fixed = moving, fixed
        self._named = _of_own_dtype(op, number, is_complex)

    def forward(self, *inputs: Any) -> Any:
        tensors: dict[int, Any] = {i: getattr(self, f"argument{i}") for i in self._fixed}
        tensors |= dict.fromkeys(self._named, inputs[0].dtype)
        return self._call(tensors | dict(zip(self._moving, inputs, strict=True)))

    def _masked(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        output = function(*args, **kwargs)
        return torch.where(self.kept, output, output.new_zeros([]))


def _output_mask(info: Any, sample: Any) -> Any:
    """The entries of the output that count, by the wrapper of masked operations in PyTorch's own
    tests; None without a mask. It is found here, because Dynamo fails to trace the wrapper."""
    from torch.testing._internal.opinfo.core import gradcheck_wrapper_masked_operation

    is_masked = info.gradcheck_wrapper is gradcheck_wrapper_masked_operation
    if not is_masked or sample.kwargs.get("mask") is None:
        return None
    return torch.masked._output_mask(info.op, sample.input, *sample.args, **sample.kwargs)


def _of_own_dtype(op: str, number: int, is_complex: bool) -> list[int]:
    """The positions of arguments that name the dtype of the sample and change with it."""
    wide, narrow = (
        (torch.complex128, torch.complex64) if is_complex else (torch.float64, torch.float32)
    )
    places = [i for i, leaf in enumerate(_leaves(op, number, wide)) if leaf is wide]
    if not places or narrow not in database()[op].supported_dtypes("cpu"):
        return []
    others = _leaves(op, number, narrow)
    return [i for i in places if others[i] is narrow]


def _leaves(op: str, number: int, dtype: Any) -> list[Any]:
    return tree_flatten(_arguments(_first_samples(op, number + 1, dtype)[number]))[0]


def _arguments(sample: Any) -> tuple[Any, ...]:
    return sample.input, sample.args, sample.kwargs


@lru_cache(_KEPT)
def _first_samples(op: str, most: int, dtype: Any) -> list[Any]:
    """The first samples of an operation, the same in every process."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)
        found = database()[op].sample_inputs("cpu", dtype, requires_grad=True)
        return list(islice(found, most))
