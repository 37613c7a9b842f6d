"""PyTorch layers: functions, `autograd.Function`s, and modules with their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property
from typing import Any, ClassVar, TypeGuard

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values, ValuesOrNone
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import LARGE, MANY, Leaf, compact
from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.derivatives import Targets
from gradcheck_cli.engines.errors import Unsupported, WrongKind
from gradcheck_cli.engines.layer.binding import OWN, arrange, called, required_of
from gradcheck_cli.engines.layer.casts import Cast
from gradcheck_cli.engines.layer.custom import (
    CustomCall,
    GradientBarrier,
    Lines,
    UnclippedGradients,
)
from gradcheck_cli.engines.layer.declared import Declared
from gradcheck_cli.engines.layer.framework_layer import VJP, WrittenNames
from gradcheck_cli.engines.layer.isolation import knowledge_of
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.loading import constructed, load_layer, not_callable
from gradcheck_cli.engines.layer.recording import LayerRecorder, Recording
from gradcheck_cli.engines.layer.results import WHOLE, MissingOutput, Results, parts_of_container
from gradcheck_cli.engines.layer.reused_subjects import leave
from gradcheck_cli.engines.layer.subject import (
    Call,
    Layout,
    Output,
    Spare,
    SubjectRequest,
    each_jvp,
    one_by_one,
)
from gradcheck_cli.engines.torch.batched import Batched, has_many_operations
from gradcheck_cli.engines.torch.compiled import (
    FELL_BACK,
    NO_FORWARD_MODE,
    NO_SECOND_ORDER,
    NOTE,
    STAGES,
    THE_BACKEND,
    Compilations,
    as_often_as_asked,
    as_written,
    at_stage,
    clock_stands_still,
    forget_other_layers,
    is_at_hand,
    is_compiled,
    is_switched_off,
    is_wrapped,
    losing_tangents,
)
from gradcheck_cli.engines.torch.lazy import initialised
from gradcheck_cli.engines.torch.memory import Watch, contiguous, laid_out
from gradcheck_cli.engines.torch.passes import LayerTorch, as_pairs
from gradcheck_cli.engines.torch.state import State, with_gradients

# In PyTorch's messages about a function without forward mode, or about a scripted module.
_NO_JVP = ("jvp", "forward", "stateless api")
_NO_TANGENT = "both tensor and its forward grad to be floating"  # got None or integers
_WRONG_JVP = "trying to set a forward gradient"  # its shape or dtype differs from its value's


class _Handed(dict[str, Any]):
    """The arguments of the layer, by name. A layer may write to its arguments but not to a leaf, so
    it receives copies that depend on the `leaves`. `tracked` says that some leaves are
    differentiated."""

    def __init__(self, handed: Mapping[str, Any], leaves: Mapping[str, Any], tracked: bool) -> None:
        super().__init__(handed)
        self.leaves = leaves
        self.tracked = tracked


def _parts(container: Any) -> Iterator[tuple[str, Any]]:
    """Like `parts_of_container`, but also returns the parts of a nested tensor."""
    if getattr(container, "is_nested", False):
        yield from ((f"[{i}]", tensor) for i, tensor in enumerate(container.unbind()))
    else:
        yield from parts_of_container(container)


class TorchSubject(LayerSubject):
    """A user's layer in one dtype on one device. A module is copied. Captured objects are changed
    in place during a call, and restored afterwards. `compiles` says that gradcheck calls
    `torch.compile` on the layer if its author did not."""

    fw: LayerTorch
    no_reverse = "must implement either the backward or vjp method"  # of a Function
    framework: ClassVar[type[LayerTorch]] = LayerTorch
    compiles: ClassVar[bool] = False
    more_stages: ClassVar[tuple[str, ...]] = ()  # after the compiler's backend
    complex_gradients = (
        "a complex gradient of PyTorch is dL/dRe + i dL/dIm; both parts are compared with the truth"
    )

    def __init__(self, request: SubjectRequest, device: str = HOST.device) -> None:
        import torch

        super().__init__(request)
        self.torch = torch
        self.fw = self.framework(request.dtype, device)
        self._device = device
        self._module: Any = None
        rounded, floats = getattr(torch, request.rounding), getattr(torch, request.dtype)
        self.state = State(torch, rounded, floats, device, request.seed)
        if request.implementation.live is None:  # a module may draw numbers when it is imported
            with self.state.loading():
                load_layer(request.implementation)
        with self.state.seeded():
            self._function, target = self._load_callable()
            self.state.rename_clashes(required_of(target))
        if is_at_hand():  # the layer may be compiled by its author
            clock_stands_still()
        self._needs_graph = False
        self._loses_tangents: str | None = None
        self._compiled = self.compiles
        if self.compiles:
            shapes = {name: value.shape for name, value in request.values.items()}
            forget_other_layers(repr((request.implementation, shapes)))
            self._function = torch.compile(self._function)
        self._results = Results(
            "floating torch.Tensor",
            lambda part: isinstance(part, torch.Tensor) and not part.is_nested,
            lambda tensor: tensor.is_floating_point() or tensor.is_complex(),
            target,
            _parts,
            empty=request.empty,
        )
        self.notes = tuple(self.state.notes)
        names = [name for name in request.values if name not in self.state.named]
        held = {name for name, one in self.state.named.items() if one.data.is_complex()}
        self._complex = request.complex_inputs | held
        self._arguments = arrange(
            target,
            names,
            self._args,
            self._kwargs,
            skip=self._skip,
            keywords=self._keywords,
            types=request.implementation.types,
        )
        self.bind_leaves(self._leaves_of(names))
        self._by_name = {leaf.name: leaf for leaf in self.leaves}
        self.chosen = {name: self._by_name[name].kept for name in self.state.chosen}
        self._base = {name: self._at_hand(name, request.values[name]) for name in names}
        self.state.settle(request.values, self.leaf_array, sum(leaf.size for leaf in self.leaves))
        self._apart: frozenset[str] = frozenset()  # outputs that do not depend on the leaves
        # properties of a single output that is a plain tensor
        self._alone: tuple[Any, ...] | None = None
        self.outputs = self._first_outputs()

    # Binding

    def _load_callable(self) -> tuple[Callable[..., Any], Any]:
        """The callable, and the object that has its signature."""
        torch, implementation = self.torch, self.request.implementation
        layer = load_layer(implementation)
        if _is_function(torch, layer):
            self._args, self._kwargs = implementation.args, dict(implementation.kwargs)
            separate = layer.setup_context is not torch.autograd.Function.setup_context
            self._skip, self._keywords = 0 if separate else 1, False  # `ctx`
            self.is_fresh = implementation.live is None
            return layer.apply, layer.forward
        layer, self._args, self._kwargs = constructed(layer, implementation)
        self._skip, self._keywords = 0, True
        if isinstance(layer, torch.nn.Module):
            types = self.request.implementation.types
            layer, chosen = initialised(layer, self.request.values, self._args, self._kwargs, types)
            self._module = self.state.copied(layer, chosen)
            return self._module, self._module.forward
        if not callable(layer):
            raise not_callable(layer, implementation)
        self.state.borrow(layer)
        self.is_fresh = layer is not implementation.live
        return layer, layer

    def _leaves_of(self, names: Sequence[str]) -> Iterator[Leaf]:
        request = self.request
        for name in names:
            value = request.values[name]
            yield Leaf(name, "input", value, value.dtype.kind == "f" and name not in request.data)
        for name, held in self.state.named.items():
            given = request.values.get(name)
            own = self._numbers_of(name, held.data) if given is None else given
            is_complex = name in self._complex
            yield Leaf(name, held.role, own, bool(held.trained), is_complex=is_complex)

    def _numbers_of(self, name: str, held: Any) -> Array:
        """The numbers of a tensor of the layer. A large tensor shares the memory of the user's
        module if that has the same numbers."""
        original = self.state.originals.get(name)
        if original is None or held.numel() < MANY:
            return compact(self.fw.numpy(held))
        return original.numpy(force=True)

    def _first_outputs(self) -> tuple[Output, ...]:
        """Call the layer for the first time and describe its outputs. If only some outputs require
        grad, the others are values for logging or the like, and have no derivatives."""
        wrt, seen = self.wrt, Compilations(self._function)
        with self.ready({}), nullcontext() if wrt else self.untracked(), self.state.first_call():
            arrays = self.call(self.inputs({}, wrt))
        must_show = self._compiled or is_switched_off() or seen.failed()
        note = FELL_BACK if must_show and wrt and not is_compiled(arrays) else NOTE
        backend = "Inductor" if self._compiled else THE_BACKEND
        self._compiled = self._compiled or is_compiled(arrays) or is_wrapped(self._function)
        self._loses_tangents = losing_tangents(arrays)
        self._long = not self._compiled and has_many_operations(arrays)
        if self.output_names == [WHOLE] and self.torch.Tensor is type(arrays[0]):
            (y,) = arrays
            is_real = not self.complex_outputs and not y.is_meta
            self._alone = (y.dtype, y.shape, y.layout, y.device) if is_real else None
        if self._compiled:
            self.notes += (note, *seen.notes())
            self.stages = (*STAGES, backend, *self.more_stages)
            self.traced_stage = [*STAGES][-1]
        self.notes += self._results.notes
        pairs = list(zip(self.output_names, arrays, strict=True))
        apart = [name for name, array in pairs if not array.requires_grad]
        if 0 < len(apart) < len(arrays):
            self._apart = frozenset(apart)
            names = ", ".join(f"`{name}`" for name in apart)
            self.notes += (f"no derivatives of {names}: detached from its sources",)
            self.output_names = [name for name in self.output_names if name not in apart]
        kept = [array for name, array in pairs if name not in self._apart]
        return self.described(kept, numbered=not any(array.is_meta for array in kept))

    # State

    def ready(self, values: Values) -> AbstractContextManager[Any]:
        state = self.state
        made = self.spare_array if isinstance(values, Spare) else self.leaf_array
        moved = {n: made(n, values[n]) for n in values if n in state.named}
        own = state.ready(moved, lambda name: self.leaf_array(name, self._by_name[name].kept))
        return self._uncast(own) if self.request.uncast else as_often_as_asked(own)

    @contextmanager
    def _uncast(self, own: AbstractContextManager[Any]) -> Iterator[None]:
        from gradcheck_cli.engines.torch.casts import Uncast

        with own, as_written(self.torch), Uncast():
            yield

    def seeded(self) -> AbstractContextManager[Any]:
        return self.state.seeded()

    @contextmanager
    def untracked(self) -> Iterator[None]:
        """Compute without gradients, and run compiled code as it was written: only its derivatives
        are judged, and code without derivatives would be compiled separately."""
        tracking = nullcontext() if self._needs_graph else self.torch.no_grad()
        with tracking, as_written(self.torch) if self._compiled else nullcontext():
            yield

    def arguments(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        if not self._needs_graph:
            return super().arguments()
        inputs = self.inputs({}, self.wrt)
        leaves = {leaf.name: self.primal(leaf.name, inputs) for leaf in self.leaves}
        return inputs, {**leaves, **inputs}  # not what they were copied from

    def only(self, wrt: Sequence[str] | None) -> AbstractContextManager[Any]:
        is_partial = wrt is not None and self.state.named
        return self.state.asking(wrt) if is_partial else nullcontext()

    def separate_functions(self) -> AbstractContextManager[Any]:
        return nullcontext()  # with all that they were called with

    def at_stage(self, stage: str) -> AbstractContextManager[Any]:
        return at_stage(self.torch, stage)

    def operation_by_operation(self) -> AbstractContextManager[Any]:
        return as_written(self.torch)

    # Arrays

    def leaf_array(self, name: str, values: Array) -> Any:
        """The tensor of a leaf. PyTorch differentiates with respect to complex tensors: the real
        and imaginary parts of a gradient are the derivatives with respect to the parts of the
        tensor."""
        made = self.fw.array(values)
        return self.torch.view_as_complex(made) if name in self._complex else made

    def _at_hand(self, name: str, values: Array) -> Any:
        """A leaf at its own values, or None for a large leaf, which every call makes anew."""
        return None if values.size >= LARGE else self.spare_array(name, values)

    def spare_array(self, name: str, values: Array) -> Any:
        usable = values.dtype == self.dtype and values.flags.c_contiguous and values.flags.writeable
        if usable and self._device == HOST.device and name not in self._complex:
            return self.torch.from_numpy(values)
        return self.leaf_array(name, values)

    def inputs(
        self, values: Values, wrt: Sequence[str] = (), layout: Layout = "contiguous"
    ) -> _Handed:
        leaves, handed = {}, {}
        for name in self._base:
            is_leaf = name in wrt
            if layout != "contiguous":
                if layout == "expanded" and name in values and not values[name].flags.c_contiguous:
                    made = self._expanded(name, values[name])
                    leaves[name] = handed[name] = made.requires_grad_(is_leaf)
                    continue
                tensor = self._protected_leaf(name, values)
                made = laid_out(self.torch, tensor, layout)
                made = made.clone() if made.data_ptr() == tensor.data_ptr() else made
                leaves[name] = handed[name] = made.requires_grad_(is_leaf)
                continue
            tensor = self._made_for_a_call(name, values, is_leaf)
            if not is_leaf:  # not differentiated
                tensor = self._protected_leaf(name, values).clone() if tensor is None else tensor
                leaves[name] = handed[name] = tensor
            elif tensor is None:
                leaves[name] = self._protected_leaf(name, values).requires_grad_()
                handed[name] = leaves[name].clone()
            else:  # share memory, but not by a view, which must not be written to
                leaves[name] = tensor.requires_grad_()
                handed[name] = self.torch.ops.aten._unsafe_view(tensor, tensor.shape)
        return _Handed(handed, leaves, bool(wrt))

    def _expanded(self, name: str, values: Array) -> Any:
        """A leaf that is expanded in memory along the same axes as `values`."""
        rank = self._by_name[name].rank
        once = (slice(None) if stride else slice(1) for stride in values.strides[:rank])
        one = laid_out(self.torch, self.leaf_array(name, values[tuple(once)]), "expanded")
        return one.expand(values.shape[:rank])

    def _protected_leaf(self, name: str, values: Values) -> Any:
        """A leaf that the layer must not write to."""
        base = self._base[name] if name not in values else self.spare_array(name, values[name])
        return self.spare_array(name, self._by_name[name].kept) if base is None else base.detach()

    def _made_for_a_call(self, name: str, values: Values, is_leaf: bool) -> Any:
        """A new tensor that the layer may write to, or None if a copy of a kept leaf will do. Large
        leaves are always made anew: a kept one would take as much memory as the layer."""
        if name not in values:
            base = self._base[name]
            return self.leaf_array(name, self._by_name[name].kept) if base is None else None
        numbers = values[name]
        if isinstance(values, Spare):
            return self.spare_array(name, numbers)
        return self.leaf_array(name, numbers) if not is_leaf or numbers.size >= LARGE else None

    def primal(self, name: str, inputs: Mapping[str, Any]) -> Any:
        if name not in inputs:
            tensor = self.state.named[name].tensor
            return tensor if _is_tracked(inputs) else tensor.data
        return inputs.leaves[name] if _is_tracked(inputs) else inputs[name]

    def cotangent(self, part: Array, output: Output, layout: Layout) -> Any:
        if layout == "contiguous" and output.dtype == self.dtype:
            return self.fw.array(part)
        dtype = getattr(self.torch, output.dtype)
        return laid_out(self.torch, self.fw.array(part).to(dtype), layout)

    def function(self, names: Sequence[str], inputs: Mapping[str, Any]) -> Callable[..., Targets]:
        def outputs(moved: Sequence[Any], _: Any = None) -> Targets:
            handed = dict(inputs)
            for name, tensor in zip(names, moved, strict=True):
                if tensor is not self.primal(name, inputs):  # a dual
                    leaf = name in inputs and tensor.requires_grad
                    handed[name] = tensor.clone() if leaf else tensor
            return self.call(handed), None

        return outputs

    def call(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Call the layer, and return its outputs with sparse tensors made dense and complex ones as
        pairs."""
        held = self.state.named
        own = {name: tensor for name, tensor in inputs.items() if name in held} if held else None
        given = {n: x for n, x in inputs.items() if n not in own} if own else inputs
        args, kwargs = self._arguments(given)
        if own:
            own = {name.removeprefix(OWN): tensor for name, tensor in own.items()}
            result = self.torch.func.functional_call(self._module, own, tuple(args), kwargs)
        elif self.compiles:  # Dynamo does not trace NumPy's settings
            result = called(self._function, args, kwargs)
        else:
            with np.errstate():  # which the function may set
                result = called(self._function, args, kwargs)
        if self._is_as_before(result):
            self.output_names = [WHOLE]
            return [result]
        outputs = {}
        for name, tensor in self._results.read(result):
            if tensor.is_meta and self._device != "meta":
                raise MissingOutput(f"`{name}` is a meta tensor, which has no numbers")
            if name not in self._apart:
                dense = tensor
                if tensor.layout is not self.torch.strided:  # unstored zeros get gradients too
                    dense = tensor.to_dense(masked_grad=False)
                if dense.is_complex():
                    self.complex_outputs.add(name)
                outputs[name] = as_pairs(dense.to(self._device))  # a layer may end on the CPU
        self.output_names = list(outputs)
        return list(outputs.values())

    def _is_as_before(self, result: Any) -> bool:
        """Whether the result is one plain tensor with the properties of the first call."""
        return (
            self._alone is not None
            and type(result) is self.torch.Tensor
            and (result.dtype, result.shape, result.layout, result.device) == self._alone
        )

    # Values

    def plain_value(self, values: Values) -> Array:
        """The value of the layer. A layer that differentiates something with respect to its inputs,
        or registers hooks, may only run while gradients are tracked. In that case track them; GC608
        reports the failure."""
        if self._needs_graph:
            return self._tracked_value(values)
        try:
            return super().plain_value(values)
        except RuntimeError as error:
            found = self._tracked_value(values)  # raises too if the numbers are the cause
            try:
                super().plain_value(values)
            except RuntimeError:
                self._needs_graph = True
                return found
            raise error  # the layer raised once, whether or not gradients were tracked

    def _tracked_value(self, values: Values) -> Array:
        with self.ready(values):
            return self.flat(self.call(self.inputs(values, self.wrt)))

    def several(self, many: Sequence[Values]) -> Array:
        if self.is_held or self._needs_graph:
            return one_by_one(self, many)
        outputs = self._values_at_once(many)
        if outputs is not None:
            self.stencils.batched += len(many)
            return outputs
        if not self.state.bare:
            return one_by_one(self, many)
        self.stencils.looped += len(many)
        values_of = []
        try:
            with (
                self.ready({}),
                self.untracked(),
            ):  # once: only random numbers can differ between calls
                for values in many:
                    self.state.restart()
                    values_of.append(self.flat(self.call(self.inputs(values))))
        except RuntimeError as error:
            return self._values_in_turn(error, many)
        return np.stack(values_of)

    def _values_in_turn(self, error: RuntimeError, many: Sequence[Values]) -> Array:
        """Evaluate the points in turn after an error. Raises the error again if tracking gradients
        does not avoid it."""
        found = one_by_one(self, many)
        if not self._needs_graph:
            raise error
        return found

    @cached_property
    def _batched(self) -> Batched:
        return Batched(self.torch, self.leaf_array, self.plain_value, self.state.restoring)

    def _values_at_once(self, many: Sequence[Values]) -> Array | None:
        captured = any(self._by_name[name].role == "captured" for name in many[0])
        if captured or not self._long:
            return None
        with self.ready({}):
            inputs = self.inputs({})
            return self._batched.values(many, lambda moved: self.call({**inputs, **moved}))

    # Passes

    def columns(self, leaf: Leaf, values: Values) -> Array:
        with self.fw.forward_level():  # one level for all columns
            return super().columns(leaf, values)

    def numbers(self, array: Any) -> Array:
        known = array.dtype in (self.torch.float64, self.torch.float32)
        same = known and array.layout is self.torch.strided
        if not same:
            return self.fw.numpy(array)
        plain: Array = contiguous(self.torch, array.detach()).numpy(force=True)
        return plain

    def pass_back(self, vjp: VJP, cotangents: Sequence[Any], keep: bool) -> list[Any]:
        self.fw.keeps_graph = keep
        return [None if g is None else as_pairs(g) for g in vjp(cotangents)]

    def learns(self, error: Exception, first: bool, call: Call) -> bool:
        if not self.fw.accumulating and ".backward()" in str(error):
            self.fw.accumulating = True
            return True
        if not self.runs_once and not first and not call.retained:
            self.runs_once = True
            return True
        return False

    def watch(self, arrays: Mapping[str, Any]) -> WrittenNames:
        return Watch(self.torch, {**self.state.tensors(), **arrays}).written

    def in_own_memory(self, gradient: Any) -> Any:
        return gradient.clone()

    def differentiable(self, arrays: Sequence[Any]) -> Sequence[Any]:
        return [array.detach().requires_grad_() for array in arrays]

    def watch_arrays(self, arrays: Mapping[str, Any]) -> WrittenNames:
        return Watch(self.torch, arrays).written

    def has_drawn(self, inputs: Mapping[str, Any], draws: Any) -> bool:
        return self.state.has_drawn()

    def accumulated(self, inputs: Mapping[str, Any]) -> tuple[str, ...]:
        if self.fw.accumulating:
            return ()
        leaves = inputs.leaves if isinstance(inputs, _Handed) else inputs
        return with_gradients({**leaves, **self.state.tensors()})

    @contextmanager
    def forward_mode(self, names: Sequence[str]) -> Iterator[None]:
        if any(self._by_name[name].role == "captured" for name in names):
            raise Unsupported("forward mode does not reach captured tensors")
        if self._compiled and not self.compiles:
            raise Unsupported(NO_FORWARD_MODE)
        if self._loses_tangents and not self.compiles:
            raise Unsupported(f"PyTorch's `{self._loses_tangents}` loses tangents")
        try:
            yield
        except AssertionError as error:  # under `vmap`, PyTorch calls a jvp that does not exist
            lacking = self._function_without_jvp()
            if lacking is None:
                raise
            raise Unsupported(f"`{lacking}` has no `jvp`") from error
        except (NotImplementedError, RuntimeError) as error:
            said = str(error).lower()
            if _NO_TANGENT in said:
                raise WrongKind("a `jvp` returned no tensor in place of a tangent") from error
            if any(word in said for word in _NO_JVP) and _WRONG_JVP not in said:
                raise Unsupported(str(error).strip().splitlines()[0]) from error
            self.plain_value({})
            if self._needs_graph:
                raise Unsupported("the layer runs only while gradients are tracked") from error
            if isinstance(error, NotImplementedError):  # a PyTorch kernel without a tangent
                raise Unsupported(f"forward mode: {str(error).partition('. ')[0]}") from error
            raise

    def _function_without_jvp(self) -> str | None:
        from gradcheck_cli.engines.torch.custom_functions import without_jvp

        with self.passes() as passes:
            return without_jvp(passes.call())

    def jvps(self, many: Sequence[Values]) -> list[Array | Unsupported | None]:
        """The jvps along many tangents. The first tangent of each leaf is pushed alone, and later
        ones together with zero tangents of the other leaves. If an operand has no tangent, PyTorch
        asks Python functions for a shape, which takes several times as long as the rest of a small
        layer."""
        if not many or self._compiled or self._loses_tangents:
            return super().jvps(many)
        if not self.state.bare:
            return self._beside_zeros(many, self.jvp)
        with self.ready({}), self.fw.forward_level():
            return self._beside_zeros(many, self._repeated_jvp)

    def _repeated_jvp(self, tangents: Values) -> Array | None:
        self.state.restart()  # only random numbers can differ between calls
        try:
            return self._jvp_of(tangents)
        except Exception:
            with self.forward_mode(tuple(tangents)):
                raise

    def _beside_zeros(
        self, many: Sequence[Values], pushed: Callable[[Values], Array | None]
    ) -> list[Array | Unsupported | None]:
        """The jvps of `jvps`, each computed by `pushed`. Zero tangents of other leaves change
        nothing unless the derivative with respect to one of them is infinite or fails; in that case
        they are left out. The first tangent of a leaf shows whether it reaches the output, and this
        holds in every dtype."""
        others = [self._by_name[n] for n in self.wrt if self._by_name[n].role != "captured"]
        arrives = knowledge_of(self.request.implementation.live)

        def one(tangents: Values) -> Array | None:
            moving = frozenset(tangents)
            rest = [leaf for leaf in others if leaf.name not in moving]
            y_dot = None
            if rest and self.state.is_small and arrives.get(moving, False):
                zeros = {leaf.name: np.zeros(leaf.shape) for leaf in rest}
                with suppress(Exception):
                    y_dot = pushed({**zeros, **tangents})
            if y_dot is None or not np.all(np.isfinite(y_dot)):
                y_dot = pushed(tangents)
                arrives[moving] = y_dot is not None
            return y_dot

        return each_jvp(one, many)

    def hvp(
        self, mode: Mode, row: Array, tangents: Values, along: Values | None = None
    ) -> dict[str, Array | None]:
        if self._compiled and not self.compiles:
            raise Unsupported(NO_SECOND_ORDER)
        return super().hvp(mode, row, tangents, along)

    # What is inside

    def unclipped_gradients(self, rows: Array) -> Sequence[UnclippedGradients]:
        from gradcheck_cli.engines.torch.bounds import unclipped_gradients

        with as_written(self.torch):
            return unclipped_gradients(lambda: self.run(Call(cotangents=rows)).gradients)

    def declared_call(self, declared: Declared) -> Callable[[dict[str, Any]], list[Any]]:
        from gradcheck_cli.engines.torch.declared import holding

        def call(inputs: dict[str, Any]) -> list[Any]:
            with as_written(self.torch), holding(declared, self.fw.numpy):
                return self.call(inputs)

        return call

    def recorder(self) -> LayerRecorder:
        from gradcheck_cli.engines.torch.layer_recorder import TorchLayerRecorder

        return TorchLayerRecorder()

    def record_forward(self) -> Recording:
        from gradcheck_cli.engines.torch.layer_recorder import record_forward

        try:
            with self.forward_pass() as forward:
                return record_forward(forward, self.request.implementation.span)
        except RuntimeError:
            known = self._needs_graph
            self.plain_value({})  # learns whether the layer runs only with tracked gradients
            if known or not self._needs_graph:
                raise
            return self.record_forward()

    def gradient_program(
        self, narrow: Any, searched: Sequence[str], points: Sequence[Values]
    ) -> GradientProgram:
        from gradcheck_cli.engines.torch.layer_program import layer_program

        return layer_program(self, narrow, searched, points)

    def casts(self) -> Sequence[Cast]:
        from gradcheck_cli.engines.torch.casts import casts_in_passes

        with self.passes(self.ones) as passes:
            return casts_in_passes(passes, self.dtype)

    def functions(self, row: Array | None = None) -> Sequence[CustomCall]:
        from gradcheck_cli.engines.torch.custom_functions import custom_calls

        with self.passes(row, derived=row is not None) as passes:
            return custom_calls(passes, self.fw.numpy)

    def lines(self, row: Array) -> Lines:
        from gradcheck_cli.engines.torch.lines import Watching

        with self.ready({}), as_written(self.torch):
            inputs = self.inputs({}, self.wrt)
            with Watching({**self.state.tensors(), **inputs}) as mode:
                _, vjp = self.vjp(inputs, self.wrt)
                bars = self.cotangents(row)
                mode.follow(bars)
                self.pass_back(vjp, bars, keep=False)
            return mode.lines()

    @property
    def samplers(self) -> frozenset[str]:
        return frozenset({"aten._standard_gamma", "aten._sample_dirichlet"})

    def solvers(self) -> frozenset[str]:
        from gradcheck_cli.engines.torch.custom_functions import solvers

        with self.passes() as passes:
            return solvers(passes)

    def uncut(self, row: Array) -> tuple[ValuesOrNone, Sequence[GradientBarrier]]:
        from gradcheck_cli.engines.torch.detached import uncut

        with as_written(self.torch), self.state.leaves_kept():
            return uncut(lambda: self.run(Call(cotangents=row[None])).row(0), self.state.hooks)

    def close(self) -> None:
        if not (self._is_a_plain_function and leave(self)):
            self.state.forget()
            self._base.clear()
            self._module, self._function = None, _refuse_call

    @property
    def _is_a_plain_function(self) -> bool:
        """Whether the layer has nothing except its arguments, and nothing was learned about it that
        does not hold for every function. Binding it again would then change nothing."""
        learned = self._needs_graph or self._compiled or self.runs_once or self.fw.accumulating
        mine = self.request.implementation.live is not None and self.state.bare
        small = self.state.is_small and self._device == HOST.device
        if not (mine and small) or learned or self.is_held or self.notes:
            return False
        return self.state.reaches_none(self._function)


def _is_tracked(inputs: Mapping[str, Any]) -> TypeGuard[_Handed]:
    return isinstance(inputs, _Handed) and inputs.tracked


def _refuse_call(*_: Any, **__: Any) -> Any:
    raise AssertionError("a closed subject was called")


def _is_function(torch: Any, found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, torch.autograd.Function)
