"""The interface between `LayerSubject` and a framework: what a framework knows about a user's layer
that it has bound in one dtype."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import MANY, Leaf
from gradcheck_cli.domain.records import replace
from gradcheck_cli.engines.derivatives import Derivatives, Targets
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.subject import Call, Layout, Output, Stencils, SubjectRequest

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.recording import LayerRecorder

VJP = Callable[[Sequence[Any]], list[Any]]
"""From one cotangent an output to one gradient a leaf; None for what has none."""

EVERYWHERE = (-np.inf, np.inf)
"""The domain of what has no other."""

WrittenNames = Callable[[], tuple[str, ...]]
"""Names of the arrays that were written to since this was last called."""


def differing(numbers: Callable[[], Mapping[str, bytes]]) -> WrittenNames:
    """Watches arrays for writes by comparing their bytes."""
    before = numbers()

    def written() -> tuple[str, ...]:
        nonlocal before
        now, last = numbers(), before
        before = now
        return tuple(name for name, one in last.items() if now[name] != one)

    return written


class FrameworkLayer(ABC):
    """A layer that a framework binds in its constructor. The subclass says which state it has
    (`ready`), what it is called with (`inputs`), how it is run (`call`) and differentiated (`fw`),
    and which side effects a call has. `LayerSubject` does everything that is the same in all
    frameworks."""

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
        self.chosen: Values = {}  # parameters that the layer set by the inputs of its first call
        self.runs_once = False  # a backward pass frees, or spoils, what the next one needs

    # What a framework says

    @abstractmethod
    def ready(self, values: Values) -> AbstractContextManager[Any]:
        """Inside the block, everything in the layer has its own value or that of `values`, and
        random numbers start from the seed. Everything is restored at the end."""

    @abstractmethod
    def inputs(
        self, values: Values, wrt: Sequence[str] = (), layout: Layout = "contiguous"
    ) -> dict[str, Any]:
        """The arrays that the layer is called with, by name. Those in `wrt` are differentiated."""

    @abstractmethod
    def call(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The floating outputs of one call, complex ones as pairs of real numbers. `output_names`
        has their names, `complex_outputs` the names of complex ones. `inputs` may also replace
        arrays that the layer holds."""

    def primal(self, name: str, inputs: Mapping[str, Any]) -> Any:
        """The array of a leaf that is differentiated with respect to."""
        return inputs[name]

    def leaf_array(self, name: str, values: Array) -> Any:
        """The numbers of a leaf, or a tangent of it, as an array of the framework."""
        return self.fw.array(values)

    def spare_array(self, name: str, values: Array) -> Any:
        """The same for numbers that the layer may write to: they keep their memory if possible."""
        return self.leaf_array(name, values)

    def cotangent(self, part: Array, output: Output, layout: Layout) -> Any:
        """The cotangent of an output as an array of the framework."""
        raise NotImplementedError

    def untracked(self) -> AbstractContextManager[Any]:
        """Inside the block, the layer runs as in inference."""
        return nullcontext()

    def only(self, wrt: Sequence[str] | None) -> AbstractContextManager[Any]:
        """Inside the block, only arrays in the layer that are in `wrt` require gradients (None: all
        that do anyway)."""
        return nullcontext()

    def seeded(self) -> AbstractContextManager[Any]:
        """Inside the block, random numbers start from the seed."""
        return nullcontext()

    def forward_mode(self, names: Sequence[str]) -> AbstractContextManager[Any]:
        """Inside the block, forward mode is possible. Raises Unsupported if the layer has no
        tangents along these leaves."""
        return nullcontext()

    def at_stage(self, stage: str) -> AbstractContextManager[Any]:
        """Inside the block, the compiler of the layer stops after this stage."""
        return nullcontext()

    def operation_by_operation(self) -> AbstractContextManager[Any]:
        """Inside the block, compiled functions run operation by operation, so that they can be
        watched."""
        return nullcontext()

    def rewritten(self) -> AbstractContextManager[Any]:
        """Inside the block, functions of the user have other code, and earlier traces of them are
        not used."""
        return self.operation_by_operation()

    def separate_functions(self) -> AbstractContextManager[Any]:
        """Inside the block, functions inside the layer are differentiated on their own."""
        return self.ready({})

    def watch(self, arrays: Mapping[str, Any]) -> WrittenNames:
        """Watches which of these arrays, and of the arrays in the layer, are written to."""
        return tuple

    def watch_arrays(self, arrays: Mapping[str, Any]) -> WrittenNames:
        """Watches which of these arrays are written to."""
        return tuple

    def in_own_memory(self, gradient: Any) -> Any:
        """A gradient in memory of its own, if a later pass or call might overwrite it."""
        return gradient

    def differentiable(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The arrays as watched by a tape."""
        return arrays

    def watch_draws(self) -> AbstractContextManager[Any]:
        """Watches for random numbers that a forward run draws from its own generators."""
        return nullcontext()

    def has_drawn(self, inputs: Mapping[str, Any], draws: Any) -> bool:
        """Whether random numbers were drawn since `ready`. `draws` is the result of
        `watch_draws`."""
        raise NotImplementedError

    def accumulated(self, inputs: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the leaves whose own gradient was written to since `ready`."""
        return ()

    def pass_back(self, vjp: VJP, cotangents: Sequence[Any], keep: bool) -> list[Any]:
        """One backward pass. With `keep` another one will follow."""
        return vjp(cotangents)

    def learns(self, error: Exception, first: bool, call: Call) -> bool:
        """Whether a backward pass that raised is worth another attempt, after another forward
        run."""
        return False

    def recorder(self) -> LayerRecorder:
        """Records operations of a pass. Raises Unsupported if the framework does not show them."""
        raise Unsupported("its operations cannot be recorded")

    def evaluated(
        self, what: str, names: tuple[str, ...], function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A function of arrays only (`what`, for these leaves) as the framework evaluates it, for
        example compiled."""
        return function

    # Leaves

    def _set_leaves(self, leaves: tuple[Leaf, ...]) -> None:
        self.leaves = leaves
        self.wrt = tuple(leaf.name for leaf in leaves if leaf.differentiable)

    def bind_leaves(self, leaves: Iterable[Leaf]) -> None:
        """Binds the leaves, and widens the domain of each to contain its own numbers after
        rounding."""
        bound = []
        for leaf in leaves:
            if leaf.name in self.request.complex_inputs:
                leaf = replace(leaf, is_complex=True)
            low, high = self.request.domains.get(leaf.name, EVERYWHERE)
            if (low, high) != EVERYWHERE and leaf.is_floating:
                low = float(np.nanmin(leaf.kept, initial=low))
                leaf = replace(leaf, low=low, high=float(np.nanmax(leaf.kept, initial=high)))
            bound.append(leaf)
        self._bound = tuple(bound)
        self._set_leaves(self._bound)
        self.shapes = {leaf.name: leaf.shape for leaf in bound}
        if any(leaf.is_complex for leaf in bound):
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

    def reset_layer(self, request: SubjectRequest) -> None:
        """Resets the layer to the state in which it was bound, for the same request."""
        self.request, self.stencils, self.digits = request, Stencils(), self.dtype
        self._set_leaves(self._bound)

    # Arrays

    def numbers(self, array: Any) -> Array:
        """The numbers of an array, possibly in its own memory and dtype, so they must be read at
        once."""
        plain = np.asarray(array)
        return plain if plain.dtype in (np.float32, np.float64) else self.fw.numpy(array)

    def flat(self, arrays: Sequence[Any]) -> Array:
        """The numbers of all outputs, joined, (m,)."""
        parts = [self.fw.numpy(array).reshape(-1) for array in arrays]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0), *parts])

    def described(self, arrays: Sequence[Any], numbered: bool = True) -> tuple[Output, ...]:
        """The outputs of the first call. Without `numbered`, some have shapes but no numbers."""
        outputs: list[Output] = []
        start = 0
        for name, array in zip(self.output_names, arrays, strict=True):
            shape = tuple(int(n) for n in array.shape)
            dtype, is_complex = self.fw.dtype_of(array), name in self.complex_outputs
            outputs.append(Output(name, shape, dtype, start, is_complex))
            start += outputs[-1].size
        self.first_value = self.flat(arrays) if numbered and start <= MANY else None
        return tuple(outputs)

    def cotangents(
        self, row: Array, used: Sequence[str] | None = None, layout: Layout = "contiguous"
    ) -> list[Any]:
        """The parts of a row (m,) that belong to each output."""
        cotangents: list[Any] = []
        for output in self.outputs:
            part = row[output.start : output.start + output.size].reshape(output.shape)
            unused = used is not None and output.name not in used
            if unused and not self.every_output_has_a_cotangent:
                cotangents.append(None)
            else:
                part = np.zeros(output.shape) if unused else part
                cotangents.append(self.cotangent(part, output, layout))
        return cotangents

    def function(self, names: Sequence[str], inputs: Mapping[str, Any]) -> Callable[..., Targets]:
        """The layer as a function of some of its leaves."""

        def outputs(moved: Sequence[Any], _: Any = None) -> Targets:
            return self.call({**inputs, **dict(zip(names, moved, strict=True))}), None

        return outputs
