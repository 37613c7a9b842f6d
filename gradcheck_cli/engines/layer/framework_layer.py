"""What a framework says about a user's layer that it has bound, in one dtype."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import MANY, Leaf
from gradcheck_cli.domain.records import replace
from gradcheck_cli.engines.derivatives import Derivatives, Targets
from gradcheck_cli.engines.layer.subject import Call, Layout, Output, Stencils, SubjectRequest

VJP = Callable[[Sequence[Any]], list[Any]]
"""From one cotangent an output to one gradient a leaf; None for what has none."""

EVERYWHERE = (-np.inf, np.inf)
"""The domain of what has no other."""

WrittenNames = Callable[[], tuple[str, ...]]
"""Names of the arrays that were written to since this was last called."""


def differing(numbers: Callable[[], Mapping[str, bytes]]) -> WrittenNames:
    """By the numbers of the arrays, as bytes."""
    before = numbers()

    def written() -> tuple[str, ...]:
        nonlocal before
        now, last = numbers(), before
        before = now
        return tuple(name for name, one in last.items() if now[name] != one)

    return written


class FrameworkLayer(ABC):
    """A layer that a framework binds in its constructor: which state it has (`ready`), what it is
    called with (`inputs`), how it is run (`call`) and differentiated (`fw`), and what a call does
    besides. Where frameworks differ in nothing else, `LayerSubject` does the rest."""

    fw: Derivatives
    outputs: tuple[Output, ...]
    every_output_has_a_cotangent: ClassVar[bool] = False  # zeros, where it is not used
    no_reverse: ClassVar[str] = ""  # in what the framework raises of a layer without reverse mode
    complex_gradients: ClassVar[str]  # what gradients of complex numbers are, in a sentence
    digits: str = ""
    mode: Mode = "reverse"
    leaves: tuple[Leaf, ...] = ()
    first_value: Array | None = None

    def __init__(self, request: SubjectRequest) -> None:
        self.request = request
        self.dtype = self.digits = request.dtype
        self.stencils = Stencils()
        self.notes: tuple[str, ...] = ()
        self._bound: tuple[Leaf, ...] = ()
        self.wrt: tuple[str, ...] = ()  # names of the leaves that are differentiated
        self.shapes: dict[str, tuple[int, ...]] = {}  # of the leaves
        self.output_names: list[str] = []  # of the last call
        self.complex_outputs: set[str] = set()
        self._declared_value: Callable[[Values], Array] | None = None
        self.interleaves = True  # two forward runs may come before a backward pass
        self.copies = False  # every call has an object of its own
        self.stages: tuple[str, ...] = ()  # of a compiler, from nothing compiled to everything
        self.traced_stage = ""  # the last of them before code is written
        self.is_fresh = True
        self.runs_once = False  # a backward pass frees, or spoils, what the next one needs

    # What a framework says

    @abstractmethod
    def ready(self, values: Values) -> AbstractContextManager[Any]:
        """Everything that the layer holds at its own value or at that of `values`, and random
        numbers from the seed on; everything put back at the end."""

    @abstractmethod
    def inputs(
        self, values: Values, wrt: Sequence[str] = (), layout: Layout = "contiguous"
    ) -> dict[str, Any]:
        """The arrays that the layer is called with, by name; those of `wrt` are differentiated."""

    @abstractmethod
    def call(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The floating outputs of one call, complex ones as pairs of real numbers; `output_names`
        has their names, `complex_outputs` those of the complex ones. `inputs` may have arrays in
        place of what the layer holds, too."""

    def primal(self, name: str, inputs: Mapping[str, Any]) -> Any:
        """The array of a leaf that its derivative is taken by."""
        return inputs[name]

    def leaf_array(self, name: str, values: Array) -> Any:
        """Numbers of a leaf, or a tangent of it, as an array of the framework."""
        return self.fw.array(values)

    def spare_array(self, name: str, values: Array) -> Any:
        """The same of numbers that the layer may write to: in their own memory, if possible."""
        return self.leaf_array(name, values)

    def cotangent(self, part: Array, output: Output, layout: Layout) -> Any:
        """An output's cotangent as an array of the framework."""
        raise NotImplementedError

    def untracked(self) -> AbstractContextManager[Any]:
        """Meanwhile the layer runs as in inference."""
        return nullcontext()

    def only(self, wrt: Sequence[str] | None) -> AbstractContextManager[Any]:
        """Only what is held and in `wrt` asks for gradients meanwhile (None: all that do)."""
        return nullcontext()

    def seeded(self) -> AbstractContextManager[Any]:
        """Random numbers from the seed on."""
        return nullcontext()

    def forward_mode(self, names: Sequence[str]) -> AbstractContextManager[Any]:
        """Raises Unsupported where the layer has no tangents along these leaves."""
        return nullcontext()

    def at_stage(self, stage: str) -> AbstractContextManager[Any]:
        """Meanwhile the compiler of the layer goes up to this stage and no further."""
        return nullcontext()

    def operation_by_operation(self) -> AbstractContextManager[Any]:
        """Meanwhile nothing that was compiled hides what is inside."""
        return nullcontext()

    def rewritten(self) -> AbstractContextManager[Any]:
        """Meanwhile functions of the user's have other code, and what was traced of them does not
        count."""
        return self.operation_by_operation()

    def functions_alone(self) -> AbstractContextManager[Any]:
        """Meanwhile functions inside the layer are differentiated by themselves."""
        return self.ready({})

    def watch(self, arrays: Mapping[str, Any]) -> WrittenNames:
        """Which of these arrays, and of those that the layer holds, are written to."""
        return tuple

    def watch_alone(self, arrays: Mapping[str, Any]) -> WrittenNames:
        """Which of these arrays are written to, and of no others."""
        return tuple

    def kept_apart(self, gradient: Any) -> Any:
        """A gradient in memory of its own, where a later pass or call might write to it."""
        return gradient

    def differentiable(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The arrays, as a tape watches them."""
        return arrays

    def watch_draws(self) -> AbstractContextManager[Any]:
        """Looks for random numbers that a forward run draws from generators of its own."""
        return nullcontext()

    def drawn(self, inputs: Mapping[str, Any], draws: Any) -> bool:
        """Whether random numbers were drawn since `ready`; `draws` is what was looked for."""
        raise NotImplementedError

    def accumulated(self, inputs: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of the leaves whose own gradient was written to since `ready`."""
        return ()

    def pass_back(self, vjp: VJP, cotangents: Sequence[Any], keep: bool) -> list[Any]:
        """One backward pass; with `keep` another one follows."""
        return vjp(cotangents)

    def learns(self, error: Exception, first: bool, call: Call) -> bool:
        """Whether a backward pass that raised is worth another try, after another forward run."""
        return False

    def evaluated(
        self, what: str, names: tuple[str, ...], function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A function of arrays alone (`what`, for these leaves) as the framework evaluates it."""
        return function

    # Leaves

    def _set_leaves(self, leaves: tuple[Leaf, ...]) -> None:
        self.leaves = leaves
        self.wrt = tuple(leaf.name for leaf in leaves if leaf.differentiable)

    def bind_leaves(self, leaves: Iterable[Leaf]) -> None:
        """The leaves, each with its domain, in which its own numbers are, although they were
        rounded."""
        found = []
        for leaf in leaves:
            if leaf.name in self.request.complex_inputs:
                leaf = replace(leaf, is_complex=True)
            low, high = self.request.domains.get(leaf.name, EVERYWHERE)
            if (low, high) != EVERYWHERE and leaf.is_floating:
                low = float(np.nanmin(leaf.kept, initial=low))
                leaf = replace(leaf, low=low, high=float(np.nanmax(leaf.kept, initial=high)))
            found.append(leaf)
        self._bound = tuple(found)
        self._set_leaves(self._bound)
        self.shapes = {leaf.name: leaf.shape for leaf in found}
        if any(leaf.is_complex for leaf in found):
            self.notes += (self.complex_gradients,)

    def differentiate(self, names: Collection[str]) -> None:
        self._set_leaves(
            tuple(
                leaf
                if leaf.name in names or not leaf.differentiable
                else replace(leaf, differentiable=False)
                for leaf in self._bound
            )
        )

    def assume_digits(self, dtype: str) -> None:
        self.digits = dtype

    def begin_again(self, request: SubjectRequest) -> None:
        """From now on it is as it was when it was bound, for the same request."""
        self.request, self.stencils, self.digits = request, Stencils(), self.dtype
        self._set_leaves(self._bound)

    # Arrays

    def numbers(self, array: Any) -> Array:
        """The numbers of an array, which may be in its own memory and dtype: to be read at
        once."""
        plain = np.asarray(array)
        return plain if plain.dtype in (np.float32, np.float64) else self.fw.numpy(array)

    def flat(self, arrays: Sequence[Any]) -> Array:
        """The numbers of outputs, one after the other, (m,)."""
        parts = [self.fw.numpy(array).reshape(-1) for array in arrays]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0), *parts])

    def described(self, arrays: Sequence[Any], numbered: bool = True) -> tuple[Output, ...]:
        """The outputs of the first call; unless `numbered`, some have shapes without numbers."""
        found: list[Output] = []
        start = 0
        for name, array in zip(self.output_names, arrays, strict=True):
            shape = tuple(int(n) for n in array.shape)
            dtype, is_complex = self.fw.dtype_of(array), name in self.complex_outputs
            found.append(Output(name, shape, dtype, start, is_complex))
            start += found[-1].size
        self.first_value = self.flat(arrays) if numbered and start <= MANY else None
        return tuple(found)

    def cotangents(
        self,
        row: Array,
        used: Sequence[str] | None = None,
        layout: Layout = "contiguous",
    ) -> list[Any]:
        """The part of a row (m,) that is each output's."""
        found: list[Any] = []
        for output in self.outputs:
            part = row[output.start : output.start + output.size].reshape(output.shape)
            unused = used is not None and output.name not in used
            if unused and not self.every_output_has_a_cotangent:
                found.append(None)
            else:
                part = np.zeros(output.shape) if unused else part
                found.append(self.cotangent(part, output, layout))
        return found

    def function(self, names: Sequence[str], inputs: Mapping[str, Any]) -> Callable[..., Targets]:
        """The layer as a function of some of its leaves."""

        def outputs(moved: Sequence[Any], _: Any = None) -> Targets:
            return self.call({**inputs, **dict(zip(names, moved, strict=True))}), None

        return outputs
