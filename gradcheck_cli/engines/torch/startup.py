"""Replacements in PyTorch that speed up its start, which is most of the cost of a small check. What
PyTorch imports for its compiler, and no derivative needs, waits until something asks for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.kit.startup import StandIn, replaces

# The share of a run's processor time that each saves, by benchmarks/replacements.py.
COMPILER = "torch-compiler"  # 34 % of 30 formulas
DECOMPOSITIONS = "torch-decompositions"  # 15 % of one formula

_COMPILER = "torch._dynamo"
_SHAPES = "torch.fx.experimental.symbolic_shapes"
_SYMBOLS = "sympy"  # the compiler's, for sizes that it does not know
_PLAIN = (bool, int, tuple)
_PLAINLY: dict[str, Callable[..., Any]] = {
    "expect_true": lambda x: x,
    "guard_or_false": lambda x: x,
    "guard_or_true": lambda x: x,
    "guard_size_oblivious": lambda x: x,
    "guarding_hint_or_throw": lambda x: x,
    "has_guarding_hint": lambda _: True,
    "is_nested_int": lambda _: False,
    "sym_eq": lambda x, y: x == y,
    "sym_and": lambda *parts: all(parts),
    "sym_or": lambda *parts: any(parts),
}


class _NoCompiler(StandIn):
    @staticmethod
    def disable(function: Any, *_: Any, **__: Any) -> Any:
        """Return the function: hiding it from the compiler is needless if nothing is compiled."""
        return function


class _NoSymbols(StandIn):
    class _Basic:
        """A class without instances. Before SymPy is imported, nothing can be an instance of its
        classes."""

    @property
    def Basic(self) -> Any:
        return self._Basic if sys.modules.get(_SYMBOLS) is self else self.real().Basic


class _NoSymbolicShapes(StandIn):
    """Answers questions about sizes and truths that are plain numbers. The answers are in the
    module's dictionary, because an operation asks dozens of times. So is an empty `__path__`, which
    every import looks for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        vars(self).update({asked: self._answering(asked) for asked in _PLAINLY}, __path__=[])

    def _answering(self, name: str) -> Callable[..., Any]:
        plainly = _PLAINLY[name]

        def answer(*sizes: Any) -> Any:
            for size in sizes:
                if type(size) not in _PLAIN:
                    return getattr(self.real(), name)(*sizes)
            return plainly(*sizes)

        return answer


_STAND_INS: dict[str, StandIn] = {
    module.__name__: module
    for module in (_NoCompiler(_COMPILER), _NoSymbols(_SYMBOLS), _NoSymbolicShapes(_SHAPES))
}


@contextmanager
def without_compiler() -> Iterator[None]:
    """Keep PyTorch's compiler out while tangents are pushed. If an operand has no tangent, PyTorch
    asks Python functions for the shape of the result. These are hidden from its compiler when first
    called, which imports the compiler (torch/_compile.py) and takes longer than importing torch.
    They also ask whether a number or a size is a symbol (torch/_prims_common), which takes a third
    as long."""
    absent = {name: module for name, module in _STAND_INS.items() if name not in sys.modules}
    standing_in = absent if replaces(COMPILER) else {}
    sys.modules.update(standing_in)
    try:
        yield
    finally:
        for module in standing_in.values():
            module.leave()


@dataclass(frozen=True, slots=True)
class Duals:
    """Makes dual numbers of one level and reads their tangents, by the calls with which `make_dual`
    and `unpack_dual` of `torch.autograd.forward_ad` end. `make_dual` first imports decompositions
    for the forward derivative of some backward formulas (softmax). If no backward is
    differentiated, nothing needs them, and the import costs as much as a small run."""

    level: int
    make: Callable[..., Any]
    unpack: Callable[..., Any]

    @classmethod
    def of(cls, torch: Any, level: int) -> Duals:
        if replaces(DECOMPOSITIONS):
            return cls(level, torch._VF._make_dual, torch._VF._unpack_dual)
        forward_ad = torch.autograd.forward_ad
        return cls(level, forward_ad.make_dual, forward_ad.unpack_dual)

    def tangent_of(self, result: Any) -> Any:
        """The tangent of a result, or None if no tangent reaches it."""
        return self.unpack(result, level=self.level)[1]


def prepare_test_helpers() -> None:
    """Prepare `torch.testing` for the operations of PyTorch's own tests (`op_db`). This saves no
    time, so the switch does not affect it. The helpers derive a class from `expecttest`, which may
    be missing and which no operation needs. And an operation that seeds itself would hide that it
    draws random numbers."""
    import unittest
    from importlib.util import find_spec

    if find_spec("expecttest") is None:
        stand_in = ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    from torch.testing import _utils

    _utils.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)
