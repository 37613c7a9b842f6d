"""Layers of PyTorch: functions, `autograd.Function`s, modules and their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.binding import Arranged, arrange, called, for_the_call
from gradcheck_cli.engines.layer.casts import Cast
from gradcheck_cli.engines.layer.custom import CustomCall, Lines, Passes, Unbounded, Uncut
from gradcheck_cli.engines.layer.held import Held
from gradcheck_cli.engines.layer.loading import load_layer
from gradcheck_cli.engines.layer.recording import Recording
from gradcheck_cli.engines.layer.results import MissingOutput, Results
from gradcheck_cli.engines.layer.subject import (
    Call,
    CallResult,
    Layout,
    Output,
    Stencils,
    SubjectRequest,
    one_by_one,
)
from gradcheck_cli.engines.torch.batched import Batched, has_many_operations
from gradcheck_cli.engines.torch.compiled import NOTE, as_written, is_compiled
from gradcheck_cli.engines.torch.memory import Watch, laid_out
from gradcheck_cli.engines.torch.modes import (
    dense,
    hvp_forward_over_reverse,
    hvp_reverse_over_reverse,
    jvp,
    real,
)
from gradcheck_cli.engines.torch.passes import Way, gathered, passes_of, pulled
from gradcheck_cli.engines.torch.state import State, switches


class TorchSubject:
    """A user's layer in one dtype on one device (`subject.Subject`). Modules are copied; what a
    function captured is changed in place for the time of a call, and put back."""

    def __init__(self, request: SubjectRequest, device: str = HOST.device) -> None:
        import torch

        self.torch = torch
        self._request = request
        self.dtype = self.digits = request.dtype
        self._device = device
        self._floats = getattr(torch, request.dtype)
        self._rounded = getattr(torch, request.rounding)
        self._module: Any = None
        self.state = State(torch, self._rounded, self._floats, device, request.seed)
        with self.state.seeded(), switches(torch):
            load_layer(request.implementation)  # a module may draw numbers when it is imported
        with self.state.seeded():
            self._function, target = self._found()
        self._results = Results(
            "floating torch.Tensor",
            lambda part: isinstance(part, torch.Tensor),
            lambda tensor: tensor.is_floating_point() or tensor.is_complex(),
            target,
            empty=request.empty,
        )
        self.notes = tuple(self.state.notes)
        names = [name for name in request.values if name not in self.state.named]
        self._arguments = self._arranged(target, names)
        self.leaves = tuple(self._leaves(names))
        self.by_name = {leaf.name: leaf for leaf in self.leaves}
        self._base = {name: self.tensor(request.values[name]) for name in names}
        self.state.settle(request.values, self.tensor)
        self._apart: frozenset[str] = frozenset()  # outputs that are no functions of the leaves
        self.outputs = self._first_outputs()
        self.stencils = Stencils()
        self.mode: Mode = "reverse"
        self.way = Way()
        self._batched = Batched(torch, self.tensor, self.value)
        self._held: Callable[[Mapping[str, Array]], Array] | None = None

    # What there is

    def _found(self) -> tuple[Callable[..., Any], Any]:
        """What is called, and what has its signature."""
        torch, implementation = self.torch, self._request.implementation
        found = load_layer(implementation)
        self._args, self._kwargs = implementation.args, dict(implementation.kwargs)
        if _is_function(torch, found):
            separate = found.setup_context is not torch.autograd.Function.setup_context
            self._skip, self._keywords = 0 if separate else 1, False  # `ctx`
            return found.apply, found.forward
        if inspect.isclass(found):
            mine, self._kwargs = for_the_call(found, implementation.kwargs)
            found, self._args = found(*implementation.args, **mine), ()
        self._skip, self._keywords = 0, True
        if isinstance(found, torch.nn.Module):
            self._module = self.state.copied(found)
            return self._module, self._module.forward
        if not callable(found):
            kind = type(found).__name__
            raise Unsupported(f"{implementation.target} is {kind}, which cannot be called")
        self.state.borrow(found)
        return found, found

    def _arranged(self, target: Any, names: Sequence[str]) -> Arranged:
        return arrange(
            target, names, self._args, self._kwargs, skip=self._skip, keywords=self._keywords
        )

    def _leaves(self, names: Sequence[str]) -> Iterator[Leaf]:
        request = self._request
        for name in names:
            value = request.values[name]
            yield Leaf(name, "input", value, value.dtype.kind == "f" and name not in request.data)
        for name, held in self.state.named.items():
            given = request.values.get(name)
            own = self.numpy(held.data) if given is None else given
            yield Leaf(name, held.role, own, bool(held.trained))

    def _first_outputs(self) -> tuple[Output, ...]:
        """Those of a first call. Of several outputs some may not require grad, such as what a layer
        hands out for the record: that says that they have no derivatives."""
        moving = self.moving()
        with self.ready({}):
            arrays = self.called(self.inputs({}, moving)[1], tracking=bool(moving))
            made = [array for _, array in arrays]
            self.compiled = is_compiled(made)
            self._long = not self.compiled and has_many_operations(made)
            if self.compiled:
                self.notes += (NOTE,)
            apart = [name for name, array in arrays if not array.requires_grad]
            if 0 < len(apart) < len(arrays):
                self._apart = frozenset(apart)
                names = ", ".join(f"`{name}`" for name in apart)
                self.notes += (f"no derivatives of {names}: detached from what it is made of",)
            return self._described([(n, a) for n, a in arrays if n not in self._apart])

    def _described(self, arrays: Sequence[tuple[str, Any]]) -> tuple[Output, ...]:
        outputs: list[Output] = []
        start = 0
        for name, array in arrays:
            shape = tuple(int(n) for n in array.shape)
            output = Output(name, shape, str(array.dtype).removeprefix("torch."), start)
            outputs.append(output)
            start += output.size
        return tuple(outputs)

    @contextmanager
    def ready(self, values: Mapping[str, Array]) -> Iterator[None]:
        """Parameters and captured tensors at their values; everything put back at the end."""
        state = self.state
        moved = {name: self.tensor(values[name]) for name in values if name in state.named}
        own = state.ready(moved, lambda name: self.tensor(self.by_name[name].value))
        with own, self._dtypes():
            yield

    def _dtypes(self) -> AbstractContextManager[Any]:
        if not self._request.uncast:
            return nullcontext()
        from gradcheck_cli.engines.torch.casts import Uncast

        stack = ExitStack()
        stack.enter_context(as_written(self.torch))
        stack.enter_context(Uncast())
        return stack

    # Arrays

    def tensor(self, value: Array) -> Any:
        tensor = self.torch.from_numpy(np.array(value, order="C"))
        wanted = self._floats if tensor.is_floating_point() else tensor.dtype
        return tensor.to(self._device, wanted)

    def numpy(self, tensor: Any) -> Array:
        plain = tensor.detach()
        if plain.is_floating_point():
            plain = plain.to(self.torch.float64)
        result: Array = plain.numpy(force=True)
        return result.copy() if result.base is not None else result

    def inputs(
        self, values: Mapping[str, Array], moving: Sequence[str], layout: Layout = "contiguous"
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The given inputs: those that ask for gradients, and what the layer is handed. It may
        write to that, but not to a leaf, so it gets a copy that hangs on the leaf."""
        leaves, handed = {}, {}
        for name in (leaf.name for leaf in self.leaves if leaf.role == "input"):
            tensor = self.tensor(values[name]) if name in values else self._base[name].detach()
            if layout == "contiguous":
                leaves[name] = tensor.requires_grad_(name in moving)
                own = name in values and name not in moving  # made for this call, and no leaf
                handed[name] = tensor if own else leaves[name].clone()
            else:
                tensor = laid_out(self.torch, tensor.clone(), layout)
                leaves[name] = handed[name] = tensor.requires_grad_(name in moving)
        return leaves, handed

    def called(self, inputs: Mapping[str, Any], tracking: bool) -> list[tuple[str, Any]]:
        """The outputs of a call with these inputs."""
        args, kwargs = self._arguments(inputs)
        with nullcontext() if tracking else self.torch.no_grad():
            return self.numbers(called(self._function, args, kwargs))

    def numbers(self, result: Any) -> list[tuple[str, Any]]:
        """The floating tensors of a result that are outputs, sparse ones as dense ones, complex
        ones as pairs of real numbers."""
        found = []
        for name, tensor in self._results.read(result):
            if tensor.is_meta and self._device != "meta":
                raise MissingOutput(f"`{name}` is a meta tensor, which has no numbers")
            if name not in self._apart:
                found.append((name, real(self.torch, dense(self.torch, tensor))))
        return found

    def flat(self, arrays: Sequence[tuple[str, Any]]) -> Array:
        parts = [self.numpy(array).reshape(-1) for _, array in arrays]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0), *parts])

    def moving(self) -> tuple[str, ...]:
        return tuple(leaf.name for leaf in self.leaves if leaf.differentiable)

    def source(self, name: str, inputs: Mapping[str, Any]) -> Any:
        if name in inputs:
            return inputs[name]
        return self.state.named[name].tensor

    # What is asked

    def value(self, values: Mapping[str, Array]) -> Array:
        if self._held is not None:
            return self._held(values)
        with self.ready(values):
            return self.flat(self.called(self.inputs(values, ())[1], tracking=False))

    def several(self, many: Sequence[Mapping[str, Array]]) -> Array:
        if self._held is not None:
            return one_by_one(self, many)
        found = self._together(many)
        if found is not None:
            self.stencils.batched += len(many)
            return found
        if not self.state.bare:
            return one_by_one(self, many)
        self.stencils.looped += len(many)
        values_of = []
        with self.ready({}):  # once: no call can change but random numbers
            for values in many:
                self.state.again()
                arrays = self.called(self.inputs(values, ())[1], tracking=False)
                values_of.append(self.flat(arrays))
        return np.stack(values_of)

    def _together(self, many: Sequence[Mapping[str, Array]]) -> Array | None:
        captured = any(self.by_name[name].role == "captured" for name in many[0])
        if captured or not self._long:
            return None
        with self.ready({}):
            inputs = self.inputs({}, ())[1]

            def at(moved: Mapping[str, Any]) -> list[Any]:
                return [array for _, array in self.outputs_with(moved, inputs)]

            return self._batched.values(many, at)

    def outputs_with(
        self, moved: Mapping[str, Any], inputs: Mapping[str, Any]
    ) -> list[tuple[str, Any]]:
        """The outputs with these tensors in place of leaves, which may be functions of others, and
        the other `inputs`."""
        own = {name: tensor for name, tensor in moved.items() if name in self.state.named}
        args, kwargs = self._arguments({**inputs, **moved})
        if own:
            call = self.torch.func.functional_call
            return self.numbers(call(self._module, own, tuple(args), kwargs))
        return self.numbers(called(self._function, args, kwargs))

    def run(self, call: Call) -> CallResult:
        wrt = self.moving() if call.wrt is None else call.wrt
        rows = np.zeros((0, 0)) if call.cotangents is None else call.cotangents
        with self.ready(call.values), self.state.asking(call.wrt):
            moving = wrt if call.tracking else ()
            leaves, handed = self.inputs(call.values, moving, call.inputs)
            own = self.state.tensors()
            watch = Watch(self.torch, {**own, **handed}) if call.watch else None
            arrays = self.called(handed, call.tracking)
            output = self.flat(arrays)
            changed = watch.written() if watch else ()
            if call.interleaved_inputs is not None:
                with self.ready(call.interleaved_inputs):
                    self.called(self.inputs(call.interleaved_inputs, moving)[1], call.tracking)
            sources = [self.source(name, leaves) for name in wrt]

            def anew() -> tuple[list[tuple[str, Any]], list[Any]]:
                with self.ready(call.values):
                    leaves, handed = self.inputs(call.values, moving, call.inputs)
                    arrays = self.called(handed, call.tracking)
                return arrays, [self.source(name, leaves) for name in wrt]

            passes, spoilt = passes_of(self, call, rows, arrays, sources, anew)
            ran = gathered(self, output, wrt, sources, passes)
            if watch is None:
                return ran
            return replace(
                ran,
                changed=changed,
                changed_later=watch.written(),
                upstream_changed=spoilt,
                accumulated=() if self.way.accumulating else self.state.accumulated(),
                random=self.state.drawn(),
            )

    def cotangents(
        self, arrays: Sequence[tuple[str, Any]], row: Array, call: Call
    ) -> tuple[list[Any], list[Any]]:
        """The outputs that hang on something, and the part of the row that is each one's."""
        outputs, cotangents = [], []
        flat = self.tensor(row)
        for output, (name, array) in zip(self.outputs, arrays, strict=True):
            if array.requires_grad and (call.used_outputs is None or name in call.used_outputs):
                part = flat[output.start : output.start + output.size].reshape(output.shape)
                outputs.append(array)
                cotangents.append(laid_out(self.torch, part.to(array.dtype), call.layout))
        return outputs, cotangents

    def jvp(self, tangents: Mapping[str, Array]) -> Array | None:
        return jvp(self, tangents)

    def hvp_reverse_over_reverse(
        self, row: Array, tangents: Mapping[str, Array]
    ) -> dict[str, Array | None]:
        return hvp_reverse_over_reverse(self, row, tangents)

    def hvp_forward_over_reverse(
        self, row: Array, tangents: Mapping[str, Array]
    ) -> dict[str, Array | None]:
        return hvp_forward_over_reverse(self, row, tangents)

    # What is inside

    def unbounded(self, rows: Array) -> Sequence[Unbounded]:
        from gradcheck_cli.engines.torch.bounds import unbounded

        return unbounded(lambda: self.run(Call(cotangents=rows)).gradients)

    def hold(self, held: Held) -> None:
        from gradcheck_cli.engines.torch.held import hold

        self._held = hold(self, held)

    def record(self, row: Array) -> Recording:
        from gradcheck_cli.engines.torch.layer_recorder import record

        with self._passes(row) as passes:
            return record(passes, self._request.implementation.span)

    def casts(self) -> Sequence[Cast]:
        from gradcheck_cli.engines.torch.casts import watched

        with self._passes(np.ones(sum(output.size for output in self.outputs))) as passes:
            return watched(passes, self.dtype)

    def functions(self) -> Sequence[CustomCall]:
        from gradcheck_cli.engines.torch.custom_functions import custom_calls

        with self._passes() as passes:
            return custom_calls(passes, self.numpy)

    def lines(self, row: Array) -> Lines:
        from gradcheck_cli.engines.torch.lines import Watching

        wrt = self.moving()
        with self.ready({}), as_written(self.torch):
            inputs, handed = self.inputs({}, wrt)
            with Watching({**self.state.tensors(), **handed}) as mode:
                arrays = self.called(handed, True)
                outputs, cotangents = self.cotangents(arrays, row, Call())
                mode.follow(cotangents)
                sources = [self.source(name, inputs) for name in wrt]
                pulled(self, outputs, cotangents, sources, False)
            found: Lines = mode.lines()
            return found

    def uncut(self, row: Array) -> tuple[Mapping[str, Array | None], Sequence[Uncut]]:
        from gradcheck_cli.engines.torch.detached import uncut

        with as_written(self.torch):
            return uncut(lambda: _first(self.run(Call(cotangents=row[None]))))

    @contextmanager
    def _passes(self, row: Array | None = None) -> Iterator[Passes]:
        wrt = self.moving()
        with self.ready({}), as_written(self.torch):
            inputs, handed = self.inputs({}, wrt)
            leaves = {leaf.name: self.source(leaf.name, inputs) for leaf in self.leaves}
            named: list[tuple[str, Any]] = []

            def call() -> list[Any]:
                with self.state.seeded():
                    named[:] = self.called(handed, True)
                return [array for _, array in named]

            def pull() -> list[Any]:
                assert row is not None
                outputs, cotangents = self.cotangents(named, row, Call())
                return pulled(self, outputs, cotangents, [leaves[name] for name in wrt], False)

            yield Passes(leaves, wrt, call, pull)

    def close(self) -> None:
        self.state.named.clear()


def _is_function(torch: Any, found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, torch.autograd.Function)


def _first(ran: CallResult) -> dict[str, Array | None]:
    return {name: None if g is None else g[0] for name, g in ran.gradients.items()}
