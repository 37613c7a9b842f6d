"""What a PyTorch layer has besides its inputs: the tensors of its module, captured tensors, random
numbers and switches. Every call finds the same state, and the user's own is restored afterwards."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.layer import LARGE, MANY, Role
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.binding import OWN
from gradcheck_cli.engines.layer.capture import captures
from gradcheck_cli.engines.layer.isolation import Randomness
from gradcheck_cli.engines.torch.compiled import compile_as, is_at_hand
from gradcheck_cli.engines.torch.device_setup import Products, products_of, put_products
from gradcheck_cli.engines.torch.hooks import Hook, copy_with_hooks, hooks_of
from gradcheck_cli.engines.torch.memory import Watch

Made = Callable[[str, Array], Any]
"""From the name and numbers of a leaf to its tensor, in the subject's dtype."""

WORTH_A_THREAD = 32_768
"""Fewest entries of all leaves for several threads. PyTorch splits smaller arrays only in
convolutions (`at::internal::GRAIN_SIZE`), in which a thread then waits longer for the others than
it works: several times as long if the machine is busy."""

SPARSE = (
    "{} is sparse: not differentiated; with `requires_grad_(False)` it is a constant, and the "
    "others are checked"
)


@dataclass(slots=True)
class HeldVariable:
    """A tensor of the layer. `data` is its value, in the dtype of the subject, in a call that gives
    it no other (None between calls that make it anew). `trained` says that it requires gradients.
    `restless` says that calls write to it, so that each call gets a copy; otherwise calls use
    `data` itself, which may be large."""

    tensor: Any
    data: Any
    role: Role
    trained: bool
    restless: bool


class State:
    """The tensors, random numbers and switches of a layer. `named` are the tensors that are leaves
    of the subject. `originals` are the tensors of the module that was copied, if they are float32
    and hold the subject's numbers. `chosen` are the names of parameters that the module set by the
    inputs of its first call. `_constants` are tensors that are no leaves: the integer tensors that
    the layer captured, and sparse ones, whose entries have no place in an array."""

    def __init__(self, torch: Any, rounded: Any, floats: Any, device: str, seed: int) -> None:
        self.torch = torch
        self._device = torch.device(device)
        self._rounded, self._floats = rounded, floats
        self.named: dict[str, HeldVariable] = {}
        self.originals: dict[str, Any] = {}
        self.chosen: list[str] = []
        self.notes: list[str] = []
        self._constants: list[HeldVariable] = []
        self._modules: list[Any] = []  # with their submodules
        self._buffered: list[tuple[Any, frozenset[int]]] = []  # submodules and their own buffers
        self._with_padding: list[Any] = []
        self._streams = _streams(torch, self._device)
        self._random = [stream.start(seed) for stream in self._streams]
        self._others = Randomness(seed)
        self._products: Products = ()
        self.is_small = False

    def copied(self, module: Any, chosen: Sequence[str] = ()) -> Any:
        """A copy of a module in the dtype. Its tensors become the layer's. It chose the parameters
        with these names by the inputs of its first call. Raises Unsupported for a sparse parameter
        that is trained."""
        for name, tensor in module.named_parameters():
            if tensor.requires_grad and self._is_sparse(tensor):
                raise Unsupported(SPARSE.format(f"the parameter `{name}`"))
        originals = dict([*module.named_parameters(), *module.named_buffers()])
        original, module = module, self._copy_of(module)
        if self._rounded != self._floats:
            module = _module_in(module, self._rounded)
        module = _module_in(module.to(self._device), self._floats)
        if is_at_hand():
            compile_as(original, module)
        for name, tensor in module.named_parameters():
            tensor.grad = None
            trained = tensor.requires_grad
            held = HeldVariable(tensor, tensor.data, "parameter", trained, not trained)
            if self._is_sparse(tensor):
                self._constants.append(held)
            else:
                self.named[name] = held
        for name, tensor in module.named_buffers():
            held = HeldVariable(tensor, tensor.data, "buffer", False, True)
            if self._is_sparse(tensor):
                self._constants.append(held)
            else:
                self.named[name] = held
        if self._rounded is self.torch.float32:
            found = ((n, t.detach()) for n, t in originals.items() if n in self.named)
            self.originals = {n: t for n, t in found if self._has_the_numbers(t, self.named[n])}
        self._hold(module)
        self._note_late_hooks(originals)
        self.chosen = list(chosen)
        if chosen:
            listed = ", ".join(f"`{name}`" for name in chosen)
            self.notes.append(
                f"the first call sets {listed}: checked with the numbers that it sets"
            )
        return module

    @property
    def hooks(self) -> list[Hook]:
        return hooks_of(self._modules)

    def rename_clashes(self, arguments: Set[str]) -> None:
        """Rename tensors that have the name of an argument to "self.NAME"."""
        for name in self.named.keys() & arguments:
            self.named[OWN + name] = self.named.pop(name)
            if name in self.originals:
                self.originals[OWN + name] = self.originals.pop(name)
        self.chosen = [OWN + name if name in arguments else name for name in self.chosen]

    def _has_the_numbers(self, original: Any, held: HeldVariable) -> bool:
        """Whether the original holds the numbers of its copy, in other memory."""
        torch = self.torch
        plain = type(original) in (torch.Tensor, torch.nn.Parameter) and original.is_contiguous()
        same = plain and original.dtype is torch.float32 and original.device.type == "cpu"
        return same and original.data_ptr() != held.data.data_ptr()

    def _hold(self, module: Any, before: str = "") -> None:
        self._modules += module.modules()
        for part in module.modules():
            own = frozenset(map(id, part.buffers(recurse=False)))
            if own:
                self._buffered.append((part, own))
        self._note_padding(module, before)

    def _copy_of(self, module: Any) -> Any:
        """A deep copy that shares whatever cannot be copied, such as a lock. Tensors that an
        earlier call left with their graph are nan in the copy: the next call should replace
        them, as a normalisation by hooks replaces its weight, and a gradient through them would
        be wrong."""
        try:
            return copy_with_hooks(module)
        except (TypeError, RuntimeError):
            shared: dict[str, Any] = {}
            memo: dict[int, Any] = {}
            left: list[str] = []
            # PyTorch copies no CSR, and no sparse parameter
            for tensor in filter(self._is_sparse, (*module.buffers(), *module.parameters())):
                memo[id(tensor)] = tensor.detach().clone()
                if isinstance(tensor, self.torch.nn.Parameter):
                    memo[id(tensor)] = self.torch.nn.Parameter(memo[id(tensor)], False)
            for prefix, part in module.named_modules():
                for name, value in vars(part).items():
                    where = f"{prefix}.{name}" if prefix else name
                    if isinstance(value, self.torch.Tensor) and not value.is_leaf:
                        memo[id(value)] = self.torch.full_like(value.detach(), math.nan)
                        left.append(f"`{where}`")
                    elif name != "_modules" and not _can_be_copied(value, memo):
                        shared[where] = value
            if left:
                listed = ", ".join(left)
                self.notes.append(f"an earlier call left {listed} with its graph: nan in the copy")
            if shared:
                listed = ", ".join(f"`{name}`" for name in shared)
                self.notes.append(f"cannot be copied: {listed}; a check uses those of your layer")
            return copy_with_hooks(module, memo | {id(value): value for value in shared.values()})

    def _note_padding(self, module: Any, before: str) -> None:
        for name, part in _padded(self.torch, module):
            self._with_padding.append(part)
            self.notes.append(
                f"row {part.padding_idx} of `{before}{name}weight` is padding (`padding_idx`), "
                "which gets no gradient in PyTorch: checked as if it were not padding"
            )

    def _note_late_hooks(self, tensors: Mapping[str, Any]) -> None:
        """Note hooks that see gradients after the check does. They may be steps of an optimiser, so
        none is run."""
        late = (n for n, t in tensors.items() if getattr(t, "_post_accumulate_grad_hooks", None))
        if listed := ", ".join(f"`{name}`" for name in late):
            self.notes.append(
                f"what `register_post_accumulate_grad_hook` has registered on {listed} is not run, "
                "so a change that it makes to the gradient is not seen"
            )

    def borrow(self, function: Any) -> None:
        """Register the tensors that a function captured. They stay the user's own."""
        torch = self.torch
        for capture in captures(function):
            name, value = capture.name, capture.value
            if isinstance(value, torch.nn.Module):
                self._hold(value, f"{name}.")
                parts = {**dict(value.named_parameters()), **dict(value.named_buffers())}
                for part, tensor in parts.items():
                    self._lend(f"{name}.{part}", tensor)
            elif isinstance(value, torch.Tensor):
                self._lend(name, value)
        self._note_late_hooks(self.tensors())

    def _is_sparse(self, tensor: Any) -> bool:
        return tensor.layout is not self.torch.strided

    def _lend(self, name: str, tensor: Any) -> None:
        if tensor.requires_grad and not tensor.is_leaf:
            self.notes.append(f"`{name}`, which the layer captured, is not a leaf: not checked")
            return
        is_sparse = self._is_sparse(tensor)
        if is_sparse and tensor.requires_grad:
            raise Unsupported(SPARSE.format(f"`{name}`, which the layer captured,"))
        data = tensor.detach().to(self._device)
        if not is_sparse or tensor.layout is self.torch.sparse_coo:  # others keep their dtype
            data = _in(_in(data, self._rounded), self._floats)
        if is_sparse or not (tensor.is_floating_point() or tensor.is_complex()):
            self._constants.append(HeldVariable(tensor, data, "captured", False, True))
        else:
            # This may be the user's memory: the first call shows whether it is written to.
            self.named[name] = HeldVariable(tensor, data, "captured", tensor.requires_grad, True)

    def settle(self, values: Values, made: Made, entries: int) -> None:
        """Apply the values that the request gives to some of the tensors, and complete the state
        that each call finds. `entries` is the number of entries of all leaves."""
        self.is_small = entries < WORTH_A_THREAD
        self._products = products_of(self.torch)
        for name in values.keys() & self.named.keys():
            held = self.named[name]
            held.data = made(name, values[name])
            if held.role != "captured":
                held.tensor.data = held.data
        if entries >= LARGE:
            self._let_go(self.originals.keys() - values.keys())

    def _let_go(self, names: Set[str]) -> None:
        """Let every call make large parameters anew from the numbers of the user's module. Copies
        that stay would be as large as the layer, in each dtype. Parameters that share memory
        stay."""
        places = [one.untyped_storage().data_ptr() for one in self.originals.values()]
        for name in names:
            held, storage = self.named[name], self.originals[name].untyped_storage()
            is_alone = places.count(storage.data_ptr()) == 1
            is_whole = storage.nbytes() == self.originals[name].nbytes
            if held.trained and is_alone and is_whole and held.tensor.numel() >= MANY:
                held.tensor.data = held.tensor.new_empty(0)
                held.data = None

    def ready(
        self, values: Mapping[str, Any], original: Callable[[str], Any]
    ) -> AbstractContextManager[None]:
        """Give every tensor its numbers, or those in `values`, inside the block, and restore
        everything at the end. `original` makes the numbers of a parameter anew if a call has
        written to them."""
        around = _Around(self, self._products)
        return around if self.bare else self._with_values(values, original, around)

    @contextmanager
    def _with_values(
        self,
        values: Mapping[str, Any],
        original: Callable[[str], Any],
        around: AbstractContextManager[None],
    ) -> Iterator[None]:
        everything = [*self.named.items(), *(("", held) for held in self._constants)]
        before = [(held.tensor.data, _grad(held.tensor)) for _, held in everything]
        tracked = [held.tensor.requires_grad for _, held in everything]
        modes = [(m, m.training) for m in self._modules if hasattr(m, "training")]
        padded = [(part, part.padding_idx) for part in self._with_padding]
        plain = [_plain_attributes(part) for part, _ in self._buffered]
        anew: set[str] = set()
        for name, held in everything:
            _put_grad(held.tensor, None)
            if name in values:
                held.tensor.data = values[name]
            elif held.data is None:
                held.data = held.tensor.data = original(name)
                anew.add(name)
            elif held.restless:
                held.tensor.data = held.data.clone()
            elif held.role == "captured":
                held.tensor.data = held.data
        places = [_place(held.tensor) for _, held in everything]
        shares = [name not in values and not held.restless for name, held in everything]
        for part, _ in padded:
            part.padding_idx = None
        try:
            with around:
                yield
        finally:
            now = [
                (held.tensor, place) for (_, held), place in zip(everything, places, strict=True)
            ]
            self._restore_attributes(plain, {id(t) for t, place in now if _place(t) != place})
            for (name, held), (tensor, place), shared, (data, grad) in zip(
                everything, now, shares, before, strict=True
            ):
                held.restless |= _place(tensor) != place
                tensor.data = data
                _put_grad(tensor, grad)
                if name in anew:
                    held.data = None
                elif shared and held.restless:
                    held.data = original(name)
                    if held.role != "captured":
                        tensor.data = held.data
            for (_, held), tracks in zip(everything, tracked, strict=True):
                if held.tensor.requires_grad != tracks and held.tensor.is_leaf:
                    held.tensor.requires_grad_(tracks)
            for module, training in modes:
                module.training = training
            for part, padding in padded:
                part.padding_idx = padding

    @contextmanager
    def first_call(self) -> Iterator[None]:
        """Find out by the numbers, during the first call, which trained tensors are written to. No
        counter shows a write through their `data`. This runs inside `ready`."""
        trained = {name: held for name, held in self.named.items() if held.trained}
        watch = Watch(self.torch, {name: held.tensor for name, held in trained.items()})
        yield
        written = watch.written()
        for name, held in trained.items():
            held.restless = name in written

    def _restore_attributes(self, before: Sequence[Mapping[str, Any]], written: Set[int]) -> None:
        """Restore the plain attributes of modules whose buffers were written to and are restored
        too. An attribute may say how much of a buffer is filled."""
        for (part, own), attributes in zip(self._buffered, before, strict=True):
            if not own.isdisjoint(written):
                vars(part).update(attributes)

    @contextmanager
    def leaves_kept(self) -> Iterator[None]:
        """Detach every leaf afterwards that a call wrote to with gradients tracked, as it does in
        an experiment that tracks what the layer detaches."""
        every = (*self.named.values(), *self._constants)
        leaves = [held.tensor for held in every if held.tensor.is_leaf]
        try:
            yield
        finally:
            for tensor in leaves:
                if not tensor.is_leaf:
                    tensor.detach_()

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Restore the attributes and buffers of modules at the end, whatever a call changed."""
        dicts = [d for part in self._modules for d in (vars(part), part._buffers)]
        before = [dict(d) for d in dicts]
        try:
            yield
        finally:
            for kept, old in zip(dicts, before, strict=True):
                kept.clear()
                kept.update(old)

    def forget(self) -> None:
        """Drop every tensor. Tensors may be large, and this object may live on."""
        self.named.clear()
        self.originals.clear()
        for held in (self._constants, self._modules, self._buffered, self._with_padding):
            held.clear()

    def seeded(self) -> AbstractContextManager[None]:
        """Seed the random numbers inside the block, and restore the user's own state afterwards."""
        return _Around(self)

    def loading(self) -> AbstractContextManager[None]:
        """Like `seeded`, and also restore the settings of the framework that a module changes when
        it is imported."""
        return _Around(self, products_of(self.torch))

    def drawing(self) -> list[Any]:
        """The states of the user's own random generators."""
        return [stream.get() for stream in self._streams]

    def put_drawing(self, states: Sequence[Any]) -> None:
        for stream, state in zip(self._streams, states, strict=True):
            stream.put(state)

    def restart(self) -> None:
        """Restart the random numbers from the seed. The caller must be inside `seeded`."""
        for stream, state in zip(self._streams, self._random, strict=True):
            stream.put(state)  # `manual_seed` would take 300 times as long
        self._others.restart()

    @property
    def bare(self) -> bool:
        """Whether the layer has no tensors of its own."""
        return not (self.named or self._constants or self._modules)

    def reaches_none(self, function: Any) -> bool:
        """Whether a function captures no tensors or modules. Calls may have left some."""
        held = self.torch.nn.Module | self.torch.Tensor
        return not any(isinstance(capture.value, held) for capture in captures(function))

    def has_drawn(self) -> bool:
        """Whether random numbers were drawn since `seeded` began."""
        pairs = zip(self._streams, self._random, strict=True)
        drawn = any(not self.torch.equal(stream.get(), state) for stream, state in pairs)
        return drawn or self._others.has_drawn()

    @contextmanager
    def asking(self, wrt: Sequence[str] | None) -> Iterator[None]:
        """Let only the tensors in `wrt` require gradients inside the block. None leaves all as they
        are."""
        state = {} if wrt is None else self.named
        requested = [h.tensor for n, h in state.items() if h.trained and n not in (wrt or ())]
        silent = [tensor for tensor in requested if tensor.is_leaf]  # no call has written to them
        for tensor in silent:
            tensor.requires_grad_(False)
        try:
            yield
        finally:
            for tensor in silent:
                tensor.requires_grad_(True)

    def tensors(self) -> dict[str, Any]:
        return {name: held.tensor for name, held in self.named.items()}


def _in(tensor: Any, floats: Any) -> Any:
    """A floating tensor in this dtype, or a complex tensor whose parts have this dtype."""
    if tensor.is_complex():
        return tensor.to(floats.to_complex())
    return tensor.to(floats) if tensor.is_floating_point() else tensor


def _module_in(module: Any, floats: Any) -> Any:
    """The module in this dtype. `module.to` would drop the imaginary parts of complex tensors."""
    tensors = (*module.parameters(), *module.buffers())
    if not any(tensor.is_complex() for tensor in tensors):
        return module.to(floats)
    return module._apply(lambda tensor: _in(tensor, floats))


@dataclass(frozen=True, slots=True)
class _Stream:
    """A random generator of a device."""

    get: Callable[[], Any]
    put: Callable[[Any], None]
    start: Callable[[int], Any]  # the state that a seed gives


def _streams(torch: Any, device: Any) -> list[_Stream]:
    """The random generators of the CPU, where modules are initialised, and of a GPU."""
    streams = [
        _Stream(
            torch.default_generator.get_state,
            torch.default_generator.set_state,
            lambda seed: torch.Generator().manual_seed(seed).get_state(),
        )
    ]
    if device.type == "cuda":
        cuda = torch.cuda
        streams.append(
            _Stream(
                lambda: cuda.get_rng_state(device),
                lambda state: cuda.set_rng_state(state, device),
                lambda seed: torch.Generator(device).manual_seed(seed).get_state(),
            )
        )
    return streams


def _padded(torch: Any, module: Any) -> Iterator[tuple[str, Any]]:
    """The embeddings with a padding row, which only affects the gradient."""
    for name, part in module.named_modules():
        if type(part) is torch.nn.Embedding and part.padding_idx is not None:
            yield f"{name}." if name else "", part


def with_gradients(tensors: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the tensors that have a `.grad`."""
    return tuple(name for name, tensor in tensors.items() if _grad(tensor) is not None)


def _grad(tensor: Any) -> Any:
    """The accumulated gradient. A tensor that is no leaf has none, and PyTorch warns if asked."""
    return tensor.grad if tensor.is_leaf else None


def _put_grad(tensor: Any, grad: Any) -> None:
    if tensor.is_leaf:
        tensor.grad = grad


def _plain_attributes(module: Any) -> dict[str, Any]:
    """The attributes of a module that are numbers, strings or None."""
    return {
        name: value
        for name, value in vars(module).items()
        if value is None or isinstance(value, (bool, int, float, str))
    }


def _place(tensor: Any) -> tuple[int, int]:
    """A key that changes if the tensor is written to, or if its `data` is replaced."""
    try:
        return tensor._version, tensor.data_ptr()
    except RuntimeError:  # a sparse tensor has several arrays
        return tensor._version, 0


class _Around(AbstractContextManager[None]):
    """Seeds the random numbers inside the block, and restores the user's own and NumPy's error
    handling afterwards. With `products`, the settings of matrix products before the block, also
    restores every setting of the framework that a layer may switch. (A class, because the generator
    of a `contextmanager` would cost as much as a small call.)"""

    def __init__(self, state: State, products: Products | None = None) -> None:
        self._state = state
        self._torch = state.torch
        self._products = products

    def __enter__(self) -> None:
        torch = self._torch
        self._drawing, self._errors = self._state.drawing(), np.errstate()
        self._errors.__enter__()
        self._state.restart()
        if self._products is not None:
            self._tracking, self._dtype = torch.is_grad_enabled(), torch.get_default_dtype()
            self._anomaly = torch.is_anomaly_enabled()
            self._strict = torch.are_deterministic_algorithms_enabled()
            self._threads = torch.get_num_threads()
            if self._state.is_small:
                torch.set_num_threads(1)

    def __exit__(self, *raised: Any) -> None:
        try:
            if self._products is not None:
                self._restore_settings(self._products)
        finally:
            self._state.put_drawing(self._drawing)
            self._errors.__exit__(*raised)

    def _restore_settings(self, products: Products) -> None:
        torch = self._torch
        put_products(torch, products)
        torch.set_grad_enabled(self._tracking)
        if torch.get_default_dtype() is not self._dtype:
            torch.set_default_dtype(self._dtype)
        if torch.is_anomaly_enabled() != self._anomaly:
            torch.autograd.set_detect_anomaly(self._anomaly)
        if torch.are_deterministic_algorithms_enabled() != self._strict:
            torch.use_deterministic_algorithms(self._strict)
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)


def _can_be_copied(value: Any, memo: Mapping[int, Any]) -> bool:
    try:
        copy.deepcopy(value, dict(memo))
    except TypeError:
        return False
    return True
