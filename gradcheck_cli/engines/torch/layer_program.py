"""The value and the whole gradient of a PyTorch layer, as a program that holds for all inputs.

A recorded run shows only what one run did. A run on tensors without numbers (`FakeTensorMode`)
shows that every other run does the same: code that cannot read a number cannot branch on it.
Everything else that could make the gradient differ from the derivative of the value, or two calls
differ, is looked for and refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.layer.generality import (
    OTHER_DTYPE,
    OTHER_INPUTS,
    in_one_thread,
    program_of_run,
    program_or_reason,
    refuse_effects,
    refuse_other_numbers,
    refuse_unknown_kinds,
)
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.lifting import OTHER_DEVICE, NotLifted
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.torch.calls import tensors, written_positions
from gradcheck_cli.engines.torch.dispatch import WATCHER, OperationMode
from gradcheck_cli.engines.torch.kernels import RANDOM
from gradcheck_cli.engines.torch.recorder import TorchRecorder

Signature = tuple[Any, ...]
"""An operation of a run: its name and its arguments, without the numbers of tensors."""

_BUILT_IN = re.compile(r"[A-Z]\w*Backward\d+")
"""Nodes of autograd's graph whose derivatives are PyTorch's own."""
_STATED = torch.autograd.function.BackwardCFunction

_FORBIDDEN = frozenset(
    [
        *("grad_fn", "register_hook", "register_post_accumulate_grad_hook", "_backward_hooks"),
        *("data_ptr", "storage", "untyped_storage", "_typed_storage", "__dlpack__", "map_"),
        *("__reduce_ex__", "__repr__", "__format__", "apply_", "map2_"),
    ]
)
"""Attributes of tensors by which a layer changes gradients, or reads numbers, without running an
operation."""
_UNWRITTEN = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"))
_SAME_ARRAY = frozenset(("aten.detach.default", "aten.lift_fresh.default"))
"""Operations that return their argument. Tensors without numbers need other ones of these."""


def layer_program(
    wide: LayerSubject, narrow: LayerSubject, searched: Sequence[str], points: Sequence[Values]
) -> GradientProgram:
    """The operations of the layer for its value and its whole gradient, valid for all values of the
    inputs `searched`. The layer is recorded in float64 (`wide`) and compared with runs in its dtype
    (`narrow`), at its own inputs and at `points`. If this proves nothing, the result has a reason
    in place of a program."""
    return program_or_reason(lambda: _program(wide, narrow, searched, points))


def _program(
    wide: LayerSubject, narrow: LayerSubject, searched: Sequence[str], points: Sequence[Values]
) -> GradientProgram:
    _refuse_unknown_rounding(narrow)
    refuse_unknown_kinds(narrow, searched)
    refuse_effects(narrow)
    recorder = TorchRecorder()
    recorded = _Run(wide, {}, recorder)
    plain = _Run(narrow, {})
    if recorded.signatures != plain.signatures:
        raise NotLifted(OTHER_DTYPE)
    refuse_other_numbers(recorded.constants, plain.constants, FORMATS[narrow.dtype])
    for at in points:
        there = _Run(narrow, at)
        if there.signatures != plain.signatures:
            raise NotLifted(OTHER_INPUTS)
        refuse_other_numbers(plain.constants, there.constants, FORMATS[narrow.dtype])
    without = _without_numbers(narrow)
    if without != plain.signatures:
        raise NotLifted("the layer runs other operations on tensors without numbers")
    span = wide.request.implementation.span
    return program_of_run(
        recorder.execution, recorded.forward, recorded.leaves, recorded.results, span
    )


def _refuse_unknown_rounding(subject: LayerSubject) -> None:
    if torch.get_float32_matmul_precision() != "highest" or torch.full((1,), 1e-40).mul(1).eq(0):
        raise NotLifted("PyTorch was set to round products to fewer digits, or to flush numbers")
    if subject.fw.array(np.zeros(1)).device.type != "cpu":
        raise NotLifted(OTHER_DEVICE)


class _Run:
    """One forward pass, and a backward pass for each entry of the output.

    `signatures` lists the operations, and `constants` the tensors that they take and that depend on
    no leaf. `results` has the recorded slots of the value and then of each row of gradients;
    `leaves` has the slots of the leaves, and `forward` counts the steps of the value.
    """

    def __init__(
        self, subject: LayerSubject, at: Values, recorder: TorchRecorder | None = None
    ) -> None:
        self.results: list[int | None] = []
        self.leaves: dict[str, int | None] = {}
        watch = _Watch(subject, steps=() if recorder is None else recorder.execution.steps)
        rows = [subject.cotangents(row) for row in np.eye(subject.outputs[0].size)]
        with subject.ready(at), ExitStack() as stack:
            if recorder is not None:
                stack.enter_context(recorder.recording())
            inputs = subject.inputs(at, subject.wrt)
            leaves = {leaf.name: subject.primal(leaf.name, inputs) for leaf in subject.leaves}
            found = _passes(subject, inputs, rows, watch, list(leaves.values()))
            if recorder is not None:
                self.leaves = {name: recorder.slot_of(leaf) for name, leaf in leaves.items()}
                for slot in self.leaves.values():  # a captured tensor is restored later
                    if slot is not None:
                        recorder.execution.values(slot)
                self.results = [None if y is None else recorder.slot_of(y) for y in found]
        self.signatures, self.constants = watch.signatures, watch.constants
        self.forward = watch.forward


def _without_numbers(subject: LayerSubject) -> list[Signature]:
    """The signatures of a run on tensors without numbers. Raises NotLifted if the layer tried
    anything that needs numbers, even if it caught the error and continued."""
    watch, calls = _Watch(subject, has_numbers=False), _Calls()
    rows = [subject.cotangents(row) for row in np.eye(subject.outputs[0].size)]
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with subject.ready({}):
        inputs: Any = subject.inputs({}, subject.wrt)
        for name in inputs:
            real = inputs.leaves[name]
            leaf = mode.from_tensor(real.detach()).requires_grad_(real.requires_grad)
            with mode:
                handed = leaf.clone() if real.requires_grad else leaf
            inputs.leaves[name], inputs[name] = leaf, handed
            if getattr(handed, "constant", None) is not None:
                raise NotLifted("an input keeps its numbers")
        leaves = [subject.primal(leaf.name, inputs) for leaf in subject.leaves]
        try:
            with mode, in_one_thread(calls.refuse):
                _passes(subject, inputs, rows, watch, leaves, calls)
        finally:
            if calls.refusal:
                raise NotLifted(calls.refusal)
    return watch.signatures


def _passes(
    subject: LayerSubject,
    inputs: Mapping[str, Any],
    rows: Sequence[Sequence[Any]],
    watch: _Watch,
    leaves: Sequence[Any],
    calls: AbstractContextManager[Any] | None = None,
) -> list[Any]:
    """The value and the gradients of each row. Raises NotLifted if PyTorch alone does not compute a
    gradient."""
    watch.depend([*leaves, *inputs.values()])
    around = nullcontext() if calls is None else calls
    with watch, around:
        (y,), vjp = subject.vjp(inputs, subject.wrt)
    _refuse_cut(y, leaves)
    results = [y]
    watch.derive()
    with watch, around:
        for place, bars in enumerate(rows):
            results += subject.pass_back(vjp, bars, place + 1 < len(rows))
    if watch.refusal:
        raise NotLifted(watch.refusal)
    return results


def _refuse_cut(y: Any, leaves: Sequence[Any]) -> None:
    """Raise NotLifted if the graph has derivatives defined by a user, or other ends than the
    leaves."""
    if any(leaf._backward_hooks or leaf._post_accumulate_grad_hooks for leaf in leaves):
        raise NotLifted("a hook may change a gradient")
    known = {id(leaf) for leaf in leaves}
    waiting, seen = [y.grad_fn], set()
    if y.grad_fn is None:
        raise NotLifted("the output does not require a gradient")
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        name = node.name()
        if name.endswith("AccumulateGrad"):
            if id(node.variable) not in known:
                raise NotLifted("the layer begins a graph of its own")
        elif isinstance(node, _STATED) or not _BUILT_IN.fullmatch(name):
            raise NotLifted(f"the derivative of `{name}` is not PyTorch's own")
        waiting += [following for following, _ in node.next_functions]


class _Watch(OperationMode):
    """Records the operations. `refusal` describes the first operation that a program cannot
    represent: it draws random numbers, writes in the forward pass, has another dtype, needs numbers
    when there are none, or uses a number whose derivative was cut off."""

    def __init__(
        self, subject: LayerSubject, has_numbers: bool = True, steps: Sequence[Any] = ()
    ) -> None:
        """`steps` are those of a recorder, which grow; `forward` counts them at the end of the
        forward pass."""
        super().__init__()
        self._steps, self.forward = steps, 0
        self._has_numbers = has_numbers
        self.signatures: list[Signature] = []
        self.constants: list[Array] = []
        self.refusal = ""
        self._dtype = getattr(torch, subject.dtype)
        self._depending: dict[int, tuple[bool, Any]] = {}  # key: the storage, which is kept alive
        self._backward = False
        self._places = Places(__name__, WATCHER)

    def depend(self, leaves: Sequence[Any]) -> None:
        """Mark these leaves as the inputs that results depend on."""
        for leaf in leaves:
            self._note(leaf, leaf.requires_grad)

    def derive(self) -> None:
        """Mark the start of the backward pass."""
        self._backward, self.forward = True, len(self._steps)

    def _note(self, tensor: Any, is_differentiable: bool) -> None:
        """Record that the tensor depends on leaves. `is_differentiable` says whether a path of
        floating numbers leads to one."""
        storage = tensor.untyped_storage()
        self._depending[storage._cdata] = is_differentiable, storage

    def _depends(self, tensor: Any) -> bool:
        return tensor.untyped_storage()._cdata in self._depending

    def _has_derivative(self, tensor: Any) -> bool:
        by_floats, _ = self._depending.get(tensor.untyped_storage()._cdata, (False, None))
        return by_floats and tensor.is_floating_point()

    def operation(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        try:
            result = func(*args, **kwargs)
        except Exception:
            self.refusal = self.refusal or f"`{func}` depends on the numbers of the run"
            raise
        name = str(func)
        if name.startswith("prim"):
            return result
        operands, made = list(tensors([*args, *kwargs.values()])), list(tensors(result))
        depending = [x for x in operands if self._depends(x)]
        moving = [x for x in depending if self._has_derivative(x)]
        self.refusal = self.refusal or self._refusal(func, name, depending, moving, made)
        for y in made if depending else ():
            self._note(y, bool(moving))
        if name not in _SAME_ARRAY:
            self._write(name, args, kwargs, made)
            if depending and self._has_numbers:
                self.constants += [_numbers(x) for x in operands if not self._depends(x)]
        return result

    def _refusal(
        self,
        func: Any,
        name: str,
        depending: Sequence[Any],
        moving: Sequence[Any],
        made: Sequence[Any],
    ) -> str:
        packet = name.split(".")[1].rstrip("_") if "." in name else name
        if packet in RANDOM or packet in _UNWRITTEN:
            return f"`{name}` gives other numbers in each call"
        floating = [y for y in made if y.is_floating_point()]
        if depending and any(y.dtype is not self._dtype for y in floating):
            return f"`{name}` gives another dtype than that of the search"
        if self._backward:
            stated = self._places.running() is not None
            return "a user's code runs in the backward pass" if stated else ""
        if written_positions(func):
            return f"`{name}` writes to an array"
        cut = floating and any(not x.requires_grad for x in moving)
        if cut and name not in _SAME_ARRAY:
            return f"`{name}` takes a number whose derivative was cut off"
        hooked = torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
        return "hooks may change what is saved for the derivative" if hooked else ""

    def _write(self, name: str, args: Any, kwargs: Mapping[str, Any], made: Sequence[Any]) -> None:
        head, _, overload = name.rpartition(".")
        forms = tuple((key, self._form(x)) for key, x in kwargs.items())
        self.signatures.append(
            (head.rstrip("_"), overload, self._form(args), forms, self._form(made))
        )

    def _form(self, x: Any) -> Any:
        """An argument without the numbers of tensors, and with one word for the dtype. A floating
        tensor that depends on no leaf may have any dtype, because its numbers are compared."""
        if isinstance(x, torch.Tensor):
            any_float = x.is_floating_point() and not self._depends(x)
            return tuple(x.shape), "number" if any_float else self._form(x.dtype)
        if isinstance(x, (list, tuple)):
            return tuple(map(self._form, x))
        if x is self._dtype:
            return "dtype"
        return repr(x) if isinstance(x, (bool, int, float, str, torch.dtype)) else type(x).__name__


class _Calls(TorchFunctionMode):  # type: ignore[misc]
    """Records calls of PyTorch functions that failed, even if the layer caught the error, and calls
    that are forbidden."""

    def __init__(self) -> None:
        super().__init__()
        self.refusal = ""

    def refuse(self, reason: str) -> None:
        self.refusal = reason

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        owner = getattr(func, "__self__", None)  # the property, for `__get__` and `__set__`
        names = {getattr(func, "__name__", ""), getattr(owner, "__name__", "")}
        if names & _FORBIDDEN:
            name = (names & _FORBIDDEN).pop()
            self.refusal = f"nothing is proven about a layer that calls `{name}`"
            raise TypeError(f"{name} of a tensor without numbers")  # some would crash
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            self.refusal = self.refusal or f"`{max(names)}` depends on the numbers of the run"
            raise


def _numbers(tensor: Any) -> Array:
    return tensor.detach().double().numpy(force=True)
