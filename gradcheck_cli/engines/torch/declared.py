"""What a spec declares as meant in a layer of PyTorch (`layer.declared`): the calls that take
numbers out of the graph, and those of `autograd.Function`s."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.layer.declared import Declared, Given, NotDeclarable, Pull
from gradcheck_cli.engines.layer.source_lines import Places, lines, running
from gradcheck_cli.engines.torch.custom_functions import (
    apart,
    is_separate,
    parameters_of,
    replaced_forward,
)
from gradcheck_cli.engines.torch.detached import AS_NUMBERS, asks, in_a_function, is_cut, name_of

Numpy = Callable[[Any], Array]

UNDER_TRANSFORMS = "is called under torch.func, where its arguments have no values"


class _Cuts(TorchFunctionMode):  # type: ignore[misc]
    """Calls that take numbers out of the graph give what `declared` says."""

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
        which = self._declared.line(lines(running()))
        if which is None:
            return result
        stops = name in ("detach()", "data") or name.removesuffix("()") in AS_NUMBERS
        return self._declared.cut(which, result, _copy, self._places.line(), stops)


def _copy(value: Any) -> Any:
    return tree_map(lambda y: y.detach().clone() if isinstance(y, torch.Tensor) else y, value)


@contextmanager
def holding(declared: Declared, classes: Collection[Any], numpy: Numpy) -> Iterator[None]:
    """Meanwhile the layer is as `declared` has it. `classes` are the functions that it calls."""
    with ExitStack() as stack:
        for cls in classes:
            which = declared.function(cls.__name__)
            if which is not None:
                stack.enter_context(_patched(cls, declared, which, numpy))
        stack.enter_context(_Cuts(declared))
        yield


@contextmanager
def _patched(cls: Any, declared: Declared, which: int, numpy: Numpy) -> Iterator[None]:
    forward = cls.forward
    separate, names = is_separate(cls), parameters_of(cls)
    places = Places(__name__)

    def patched(*args: Any) -> Any:
        plain = tuple(args if separate else args[1:])
        given = _given(names, plain, numpy)  # before a forward that writes to it
        kept = [apart(a) for a in plain] if declared.is_recording else []
        result = forward(*args)
        outputs = [y for y in tree_leaves(result) if _is_floating(y)]
        given.results = np.concatenate([np.zeros(0), *(numpy(y).reshape(-1) for y in outputs)])
        pull = _pull(cls, kept, numpy)
        found = declared.called(which, given, pull, places.line())
        return result if found is None else _filled(result, found)

    def patched_or_why(*args: Any) -> Any:
        try:
            return patched(*args)
        except RuntimeError as error:
            if "functorch" in str(error) or "vmap" in str(error):
                raise NotDeclarable(declared.found[which].design, UNDER_TRANSFORMS) from error
            raise

    with replaced_forward(cls, patched_or_why):
        yield


def _given(names: Sequence[str], args: Sequence[Any], numpy: Numpy) -> Given:
    behind = [f"argument {i}" for i in range(len(names), len(args))]
    named = list(zip([*names[: len(args)], *behind], args, strict=True))
    return Given(
        {n: numpy(a) for n, a in named if _is_floating(a)},
        {n: a for n, a in named if isinstance(a, bool | int | float)},
        np.zeros(0),
    )


def _pull(cls: Any, kept: Sequence[Any], numpy: Numpy) -> Pull:
    """Backward passes of one call alone, as the class states them."""
    places = [i for i, a in enumerate(kept) if _is_floating(a)]
    made: list[Any] = []

    def pull(row: Array) -> list[Array | None]:
        with torch.enable_grad():
            if not made:
                made.append([y for y in tree_leaves(cls.apply(*kept)) if _is_floating(y)])
            outputs, cotangents, start = [], [], 0
            for y in made[0]:
                part, start = _part(row, start, y)
                if y.requires_grad:
                    outputs.append(y)
                    cotangents.append(part)
            moving = [i for i in places if kept[i].requires_grad]
            found: dict[int, Any] = dict.fromkeys(places)
            if outputs and moving:
                grads = torch.autograd.grad(
                    outputs,
                    [kept[i] for i in moving],
                    cotangents,
                    retain_graph=True,
                    allow_unused=True,
                )
                found.update(zip(moving, grads, strict=True))
        return [None if g is None else numpy(g) for g in found.values()]

    return pull


def _filled(result: Any, flat: Array) -> Any:
    """The result of a function with these floating numbers in it."""
    start = 0

    def one(y: Any) -> Any:
        nonlocal start
        if not _is_floating(y):
            return y
        part, start = _part(flat, start, y)
        return part

    return tree_map(one, result)


def _part(flat: Array, start: int, like: Any) -> tuple[Any, int]:
    """The tensor that begins here among the numbers, and where the next one does."""
    shape = (*like.shape, 2) if like.is_complex() else tuple(like.shape)
    end = start + math.prod(shape)
    part = torch.tensor(flat[start:end].reshape(shape), device=like.device)
    return (torch.view_as_complex(part) if like.is_complex() else part).to(like.dtype), end


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
