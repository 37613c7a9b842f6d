"""What a spec declares as intended in a PyTorch layer (`layer.declared`): calls that take numbers
out of the graph, and calls of `autograd.Function`s."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.layer.declared import Declared, Given, Pull, joined_results, separate
from gradcheck_cli.engines.layer.source_lines import Places, lines, running
from gradcheck_cli.engines.torch.custom_functions import (
    applied,
    around_calls,
    detached_copy,
    firsts,
    function_name,
    is_stated,
    once_each,
    parameters_of,
    replaced_forward,
    users_class,
    without_ctx,
)
from gradcheck_cli.engines.torch.detached import (
    AS_NUMBERS,
    asks,
    in_a_function,
    is_cut,
    marking,
    name_of,
)

Numpy = Callable[[Any], Array]


class _Cuts(TorchFunctionMode):  # type: ignore[misc]
    """Makes calls that take numbers out of the graph return what `declared` says."""

    def __init__(self, declared: Declared) -> None:
        super().__init__()
        self._declared = declared
        self._places = Places(__name__)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        asking = any(asks(a) for a in tree_leaves((args, kwargs)))
        result = func(*args, **kwargs)
        name = name_of(func) if asking else None
        if name is None or not is_cut(name, result) or in_a_function():
            return result
        stops = name in ("detach()", "data") or name.removesuffix("()") in AS_NUMBERS
        return self._decided(result, stops)

    def mark(self, tensor: Any) -> None:
        """An output that an `autograd.Function` marks as not differentiable becomes what is
        declared."""
        decided = self._decided(tensor, stops=True)
        if decided is not tensor:
            tensor.copy_(decided)

    def _decided(self, result: Any, stops: bool) -> Any:
        which = self._declared.line(lines(running()))
        if which is None:
            return result
        return self._declared.detach(which, result, _copy, _is_same, self._places.line(), stops)


def _copy(value: Any) -> Any:
    return tree_map(lambda y: y.detach().clone() if isinstance(y, torch.Tensor) else y, value)


def _is_same(value: Any, other: Any) -> bool:
    pairs = zip(tree_leaves(value), tree_leaves(other), strict=True)
    return all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in pairs)


@contextmanager
def holding(declared: Declared, numpy: Numpy) -> Iterator[None]:
    """Make the layer behave as `declared` says inside the block."""

    def which(cls: Any) -> int | None:
        return declared.function(function_name(cls)) if is_stated(cls) else None

    def patched(cls: Any) -> AbstractContextManager[None]:
        index = which(users_class(cls))
        assert index is not None
        return _patched(cls, declared, index, numpy)

    cuts = _Cuts(declared)
    with around_calls(patched, lambda cls: which(cls) is not None), cuts, marking(cuts.mark):
        yield


@contextmanager
def _patched(cls: Any, declared: Declared, which: int, numpy: Numpy) -> Iterator[None]:
    forward = cls.forward
    names = parameters_of(users_class(cls))
    places = Places(__name__, around_calls.__module__)

    def patched(*args: Any) -> Any:
        apply, plain = applied(cls, without_ctx(cls, args))
        given = Given.of(
            names, plain, _is_floating, numpy
        )  # the forward may write to its arguments
        kept = once_each(detached_copy, plain) if declared.is_recording else ()
        before = {id(a): a._version for a in plain if isinstance(a, torch.Tensor)}
        result = forward(*args)
        outputs = [y for y in tree_leaves(result) if _is_floating(y)]
        given.results = joined_results(outputs, numpy)
        pull = _pull(apply, kept, numpy)
        found = declared.declared_results(which, given, pull, places.line())
        return result if found is None else _filled(result, found, before)

    with replaced_forward(cls, patched):
        yield


def _pull(apply: Callable[..., Any], kept: Sequence[Any], numpy: Numpy) -> Pull:
    """The vjp of one call alone, by the user's backward."""
    places = [i for i, a in enumerate(kept) if _is_floating(a)]
    made: list[Any] = []

    def pull(row: Array) -> list[Array | None]:
        with torch.enable_grad():
            if not made:  # the function may write to its arguments
                given = once_each(_cloned, kept)
                made.append([y for y in tree_leaves(apply(*given)) if _is_floating(y)])
            outputs, cotangents = [], []
            for y, y_bar in zip(made[0], _tensors(row, made[0]), strict=True):
                if y.requires_grad:
                    outputs.append(y)
                    cotangents.append(y_bar)
            moving = [i for i, a in firsts(kept) if _is_floating(a) and a.requires_grad]
            gradients: dict[int, Any] = dict.fromkeys(places)
            if outputs and moving:
                grads = torch.autograd.grad(
                    outputs,
                    [kept[i] for i in moving],
                    cotangents,
                    retain_graph=True,
                    allow_unused=True,
                )
                gradients.update(zip(moving, grads, strict=True))
        return [None if g is None else numpy(g) for g in gradients.values()]

    return pull


def _cloned(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _filled(result: Any, flat: Array, before: Mapping[int, int]) -> Any:
    """The result of a function with its floating numbers replaced. An argument that it has written
    to and returns (`mark_dirty`) stays the same tensor; `before` are the versions by `id`."""
    parts = iter(_tensors(flat, [y for y in tree_leaves(result) if _is_floating(y)]))

    def filled(y: Any) -> Any:
        if not _is_floating(y):
            return y
        is_written = before.get(id(y), y._version) != y._version
        return y.copy_(next(parts)) if is_written else next(parts)

    return tree_map(filled, result)


def _tensors(flat: Array, likes: Sequence[Any]) -> list[Any]:
    """The numbers as tensors of the same shapes and dtypes as `likes`."""
    tensors = []
    for numbers, like in separate(flat, likes, torch.is_complex):
        part = torch.tensor(numbers, device=like.device)
        tensors.append((torch.view_as_complex(part) if like.is_complex() else part).to(like.dtype))
    return tensors


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
