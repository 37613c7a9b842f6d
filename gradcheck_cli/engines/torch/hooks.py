"""Hooks of modules, of their parameters and of saved tensors, which may change gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.capture import of_a_library
from gradcheck_cli.engines.layer.source_lines import Places, returned
from gradcheck_cli.engines.temporarily import temporarily


def copy_with_hooks(module: Any, memo: dict[int, Any] | None = None) -> Any:
    """A deep copy whose parameters have their hooks and attributes, which PyTorch leaves out. A
    hook that is a method of the module becomes one of the copy."""
    memo = {} if memo is None else memo
    made = copy.deepcopy(module, memo)
    for old, new in zip(module.parameters(), made.parameters(), strict=True):
        if not new.is_leaf:  # a ScriptModule's copies lead back to the user's parameters
            new.detach_().requires_grad_()
        if new is not old:
            vars(new).update((name, _copied(value, memo)) for name, value in vars(old).items())
            for hook in (old._backward_hooks or {}).values():
                new.register_hook(_copied(hook, memo))
    return made


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy, or the value itself if it holds what cannot be copied, such as a lock."""
    try:
        return copy.deepcopy(value, memo)
    except Exception:
        return value


@dataclass(frozen=True, slots=True)
class Hook:
    """One of the hooks `among` those of a module or a parameter."""

    among: dict[int, Any]
    key: int

    @property
    def place(self) -> Place | None:
        """What it returns, in the user's code."""
        return returned(self.among[self.key])

    @contextmanager
    def removed(self) -> Iterator[None]:
        """Without this hook inside the block."""
        every = dict(self.among)
        del self.among[self.key]
        try:
            yield
        finally:
            self.among.clear()
            self.among.update(every)


@contextmanager
def saving(is_wanted: Callable[[Place], bool]) -> Iterator[None]:
    """Inside the block, the user's `saved_tensors_hooks` have their functions only if `is_wanted`
    says so about the line that switches them on."""
    autograd, places = torch._C._autograd, Places(__name__)
    push = autograd._push_saved_tensors_default_hooks

    def pushed(pack: Any, unpack: Any) -> None:
        theirs = not of_a_library(getattr(pack, "__module__", None))
        place = places.running() if theirs else None
        if place is not None and not is_wanted(place):
            pack = unpack = _unchanged
        push(pack, unpack)

    with temporarily(autograd, _push_saved_tensors_default_hooks=pushed):
        yield


def _unchanged(tensor: Any) -> Any:
    return tensor


def hooks_of(modules: Iterable[Any]) -> list[Hook]:
    """The hooks of the modules, and of their own parameters, that see gradients."""
    hooks = []
    for module in modules:
        tensors = [tensor for tensor in module._parameters.values() if tensor is not None]
        owned = (tensor._backward_hooks or {} for tensor in tensors)
        for among in (module._backward_pre_hooks, module._backward_hooks, *owned):
            hooks += [Hook(among, key) for key in among]
    return hooks
