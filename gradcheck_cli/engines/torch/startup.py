"""What is replaced in PyTorch. What it imports for its compiler, and no derivative needs, is left
until something asks for it: starting up is most of what a small check costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.kit.startup import StandIn, replaces

# The part of a run's processor time that each saves, by benchmarks/replacements.py.
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
        """Hides a function from the compiler, where nothing is compiled."""
        return function


class _NoSymbols(StandIn):
    class _Basic:
        """Before SymPy is imported, nothing can be an instance of its classes."""

    @property
    def Basic(self) -> Any:
        return self._Basic if sys.modules.get(_SYMBOLS) is self else self.real().Basic


class _NoSymbolicShapes(StandIn):
    """Its questions have plain answers where sizes and truths are plain numbers. They are in its
    dictionary: an operation asks dozens of times. So is `__path__`, for which every import looks:
    an empty one, as nothing is inside."""

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


@contextmanager
def without_compiler() -> Iterator[None]:
    """Where an operation has one operand without a tangent, PyTorch asks functions in Python for
    the shape of the result. These are hidden from its compiler when first called, and that alone
    imports the compiler (torch/_compile.py), which takes longer than importing torch; they also ask
    whether a number or a size is a symbol (torch/_prims_common), which takes a third as long."""
    standing_in = [
        kind(name)
        for kind, name in (
            (_NoCompiler, _COMPILER),
            (_NoSymbols, _SYMBOLS),
            (_NoSymbolicShapes, _SHAPES),
        )
        if name not in sys.modules and replaces(COMPILER)
    ]
    sys.modules.update((module.__name__, module) for module in standing_in)
    try:
        yield
    finally:
        for module in standing_in:
            module.leave()


@dataclass(frozen=True, slots=True)
class Duals:
    """How dual numbers of one level are made, and their tangents read: by the calls that
    `make_dual` and `unpack_dual` of `torch.autograd.forward_ad` end with. The first of these
    imports decompositions before, which serve the forward derivative of some backward formulas
    (softmax); where no backward is differentiated nothing can need them. That import costs as much
    as a small run."""

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
        """None where no tangent arrives."""
        return self.unpack(result, level=self.level)[1]


def prepare_test_helpers() -> None:
    """What the operations of PyTorch's own tests (`op_db`) need in `torch.testing`. This saves no
    time, and the switch leaves it on: the helpers derive a class from one of `expecttest`, which
    may be missing and which no operation needs; and an operation that seeds itself would hide from
    its examination that it draws numbers."""
    import unittest
    from importlib.util import find_spec

    if find_spec("expecttest") is None:
        stand_in = ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    from torch.testing import _utils

    _utils.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)
