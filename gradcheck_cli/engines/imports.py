"""What frameworks import on their way and no derivative needs is left until it is asked for.

Starting up is most of what a small check costs. Whoever asks for something of such a module has it
imported then.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_DECOMPOSITIONS = "PYTORCH_JIT"  # what torch.autograd.forward_ad asks before it imports them
_COMPILER = "torch._dynamo"
# TensorFlow goes on without these: its converter for phones (tensorflow/lite) then takes nothing of
# JAX, and `tf.keras` imports Keras when it is first used, as it does anyway.
_TRIED = ("jax", "keras.src")
_AGAIN = ("tensorflow._api.v2.compat.v1", "tensorflow._api.v2.compat.v2")  # the whole API


class StandIn(ModuleType):
    """Stands for a module until something of it is asked for, and then hands on to it."""

    def __getattr__(self, name: str) -> Any:
        self.leave()
        return getattr(importlib.import_module(self.__name__), name)

    def __dir__(self) -> Iterable[str]:
        self.leave()
        return dir(importlib.import_module(self.__name__))

    def leave(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


class _NoCompiler(StandIn):
    @staticmethod
    def disable(function: Any, *_: Any, **__: Any) -> Any:
        """Hides a function from the compiler, where nothing is compiled."""
        return function


@contextmanager
def without_compiler() -> Iterator[None]:
    """Where an operation has one operand without a tangent, PyTorch asks functions in Python for
    the shape of the result. These are hidden from its compiler when first called, and that alone
    imports the compiler (torch/_compile.py), which takes longer than importing torch."""
    if _COMPILER in sys.modules:
        yield
        return
    standing_in = sys.modules[_COMPILER] = _NoCompiler(_COMPILER)
    try:
        yield
    finally:
        standing_in.leave()


@contextmanager
def without_decompositions() -> Iterator[None]:
    """They serve the forward derivative of some backward formulas (softmax), and
    `torch.autograd.forward_ad` imports them with the first dual number; where no backward is
    differentiated nothing can need them. That import costs as much as a small run."""
    before = os.environ.get(_DECOMPOSITIONS)
    os.environ[_DECOMPOSITIONS] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DECOMPOSITIONS]
        else:
            os.environ[_DECOMPOSITIONS] = before


@contextmanager
def only_tensorflow() -> Iterator[None]:
    """For the first import of TensorFlow: without other frameworks and without its API of old,
    which together take as long as a third of it."""
    hidden = [name for name in _TRIED if name not in sys.modules]
    for name in () if "tensorflow" in sys.modules else _AGAIN:
        sys.modules[name] = StandIn(name)
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type] # None: "not to be imported"
    try:
        yield
    finally:
        for name in hidden if "tensorflow" in sys.modules else (*hidden, *_AGAIN):
            sys.modules.pop(name, None)
