"""The values in a call of `check`: arrays of any framework, their names, and their framework."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from types import ModuleType
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, as_pairs
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.layer import MANY
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.binding import called, parameters_of
from gradcheck_cli.engines.layer.loading import backward_beside

_ENGINES = {  # by the package that a class comes from
    "torch": "torch",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "jax": "jax",
    "jaxlib": "jax",
}
_PLACES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a layer: `arrays` by name, in float64, int64 or bool; all other values by
    name (`fixed`), or by position (`at_places`) if the layer does not name all of its arguments;
    and the names of the arrays with `requires_grad` in `asking` (empty: none of the arrays says
    so). Arrays named in `complex_inputs` are pairs of real and imaginary parts."""

    arrays: Mapping[str, Array]
    complex_inputs: frozenset[str]
    fixed: Mapping[str, Any]
    asking: tuple[str, ...]
    dtypes: frozenset[str]  # of the floating arrays as they were given
    at_places: Mapping[int, Any] = field(default_factory=dict)
    types: Mapping[str, type] = field(default_factory=dict)  # of named tuples, by name


class OfArrays:
    """A layer as a function of its arrays, with the values `held` at these positions between
    them."""

    __slots__ = ("__name__", "__signature__", "__wrapped__", "_held")

    def __init__(self, layer: Any, held: Mapping[int, Any]) -> None:
        self.__name__ = getattr(layer, "__name__", type(layer).__name__)
        self.__wrapped__ = layer
        self.__signature__ = inspect.Signature(
            [inspect.Parameter("arrays", inspect.Parameter.VAR_POSITIONAL)]
        )
        self._held = held

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        args = list(arrays)
        for place in sorted(self._held):
            args.insert(place, self._held[place])
        return called(self.__wrapped__, args, named)


def sort_inputs(
    layer: Any,
    values: Sequence[Any],
    named: Mapping[str, Any],
    *,
    by_name: bool = False,
    numbers: bool = True,
) -> Given:
    """Sorts the values of a call. If tensors ask for gradients, or without `numbers`, numbers that
    are no arrays are not differentiated, and the layer gets them unchanged, unless options name
    inputs (`by_name`). Raises UsageError for values that cannot be inputs."""
    names = parameter_names(layer)
    pairs = {**dict(placed(layer, names, values)), **named}
    if len(pairs) < len(values) + len(named):
        twice = next(name for name, _ in placed(layer, names, values) if name in named)
        raise UsageError(f"`{twice}` is given twice: by position and by name")
    whole = list(pairs)
    types = dict(one for name, value in pairs.items() for one in _named_tuples(name, value))
    pairs = dict(part for name, value in pairs.items() for part in _parts(name, value))
    asking = [name for name, value in pairs.items() if getattr(value, "requires_grad", False)]
    arrays: dict[str, Array] = {}
    fixed: dict[str, Any] = {}
    for name, value in pairs.items():
        is_data = (bool(asking) or not numbers) and name not in asking and name in whole
        is_unchanged = _is_sparse(value) or not (by_name or hasattr(value, "dtype"))
        array = None if is_data and is_unchanged else as_array(name, value)
        if array is not None:
            arrays[name] = array
        elif name in whole:
            fixed[name] = value
        else:
            raise UsageError(f"`{name}` is {type(value).__name__}, not an array")
    at_places = {}
    if not set(whole) <= {*names, *named}:  # not everything can be passed by name
        at_places = {whole.index(n): fixed.pop(n) for n in list(fixed) if n not in named}
    floats = {dtype_name(pairs[n]) for n, array in arrays.items() if array.dtype.kind == "f"}
    asking = [name for name in asking if name in arrays]
    return Given(*in_parts(arrays), fixed, tuple(asking), frozenset(floats), at_places, types)


def in_parts(arrays: Mapping[str, Array]) -> tuple[dict[str, Array], frozenset[str]]:
    """The arrays with complex numbers replaced by pairs, and the names of the complex ones."""
    found = frozenset(name for name, array in arrays.items() if array.dtype.kind == "c")
    return {n: as_pairs(array) if n in found else array for n, array in arrays.items()}, found


def placed(layer: Any, names: Sequence[str], values: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    if names and len(values) > len(names) and not _takes_any(layer):
        known = "1 argument" if len(names) == 1 else f"{len(names)} arguments"
        raise UsageError(f"the layer takes {known}, but {len(values)} were given")
    unnamed = ["x"] if len(values) == 1 else [f"x{index}" for index in range(len(values))]
    yield from zip([*names, *unnamed[len(names) :]], values, strict=False)


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of a tuple, list or dictionary ("state[0]", "state['h']"); any other value
    itself."""
    if isinstance(value, Mapping):
        inside = [(f"{name}[{key!r}]", part) for key, part in value.items()]
    elif isinstance(value, tuple | list) and _numbers(name, value) is None:
        inside = [(f"{name}[{index}]", part) for index, part in enumerate(value)]
    else:
        inside = []
    if not any(holds_array(part) for _, part in inside):
        yield name, value
        return
    for label, part in inside:
        yield from _parts(label, part)


def _named_tuples(name: str, value: Any) -> Iterator[tuple[str, type]]:
    """The types of the named tuples in a value, with their names ("state", "state[0]")."""
    inside: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else ()
    if isinstance(value, tuple | list):
        inside = enumerate(value)
        if hasattr(value, "_fields"):
            yield name, type(value)
    for key, part in inside:
        yield from _named_tuples(f"{name}[{key!r}]", part)


def holds_array(value: Any) -> bool:
    """Whether the value is an array, or a tuple, list or dictionary that contains one."""
    if isinstance(value, Mapping):
        return any(map(holds_array, value.values()))
    if isinstance(value, tuple | list):
        return any(map(holds_array, value))
    return hasattr(value, "dtype") and hasattr(value, "shape")


def parameter_names(layer: Any) -> tuple[str, ...]:
    """The names of the inputs of the layer in order; empty if they are unknown."""
    return tuple(p.name for p in _parameters(layer) if p.kind in _PLACES)


def required_inputs(layer: Any) -> int:
    """How many inputs the layer requires; 0 if that is unknown."""
    empty = inspect.Parameter.empty
    return sum(p.kind in _PLACES and p.default is empty for p in _parameters(layer))


def takes_by_name(layer: Any, name: str) -> bool:
    """Whether the layer has a parameter of this name, or accepts any keyword."""
    any_name = inspect.Parameter.VAR_KEYWORD
    return any(p.name == name or p.kind is any_name for p in _parameters(layer))


def _parameters(layer: Any) -> list[inspect.Parameter]:
    called, skipped = _signature_owner(layer)
    return (parameters_of(called) or [])[skipped:]


def _takes_any(layer: Any) -> bool:
    return any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in _parameters(layer))


def _signature_owner(layer: Any) -> tuple[Any, int]:
    """The object with the signature of the layer, and how many of its first parameters are not
    inputs."""
    if inspect.isclass(layer):
        static = inspect.getattr_static(layer, "forward", None)
        if isinstance(static, staticmethod):  # an autograd.Function: with `ctx`, unless set apart
            apart = any("setup_context" in vars(c) for c in layer.__mro__ if not _is_torch(c))
            return static.__func__, 0 if apart else 1
        for name in ("forward", "call"):
            if hasattr(layer, name):
                return getattr(layer, name), 1  # self
        return layer, 0
    for name in ("forward", "call"):
        method = getattr(layer, name, None)
        if callable(method):
            return method, 0
    return layer, 0


def _is_torch(found: type) -> bool:
    return found.__module__.partition(".")[0] == "torch"


def as_array(name: str, value: Any) -> Array | None:
    """The numbers of an array of any framework, of a float or complex number, or of nested lists of
    them, in float64, complex128, int64 or bool; None for any other value. Large float32 arrays keep
    their dtype and memory."""
    if isinstance(value, bool | int | str | bytes) or value is None:
        return None
    array = _numbers(name, value)
    if array is None or array.dtype.kind in "OSU":  # of strings, as TensorFlow has them
        return None
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype == np.float32 and array.size >= MANY:
        return array
    return array.astype(np.bool_ if array.dtype.kind == "b" else np.float64)


def _numbers(name: str, value: Any) -> Array | None:
    if isinstance(value, float | complex | np.ndarray | np.generic):
        array = np.asarray(value)
        return array if array.dtype.kind in "biufcV" else None
    if isinstance(value, list | tuple):
        return _of_lists(value)
    if not (hasattr(value, "dtype") and hasattr(value, "shape")):
        return None
    if hasattr(value, "detach"):  # torch: NumPy has no bfloat16, float64 holds it
        if getattr(value, "is_meta", False):
            raise UsageError(f"`{name}` is a meta tensor, which has a shape and no numbers")
        if _is_sparse(value):
            raise UsageError(
                f"`{name}` is a sparse tensor",
                "pass its values, and build the sparse tensor in a function",
            )
        plain = value.detach().cpu()
        if plain.is_floating_point():
            is_kept = str(plain.dtype) == "torch.float32" and plain.numel() >= MANY
            plain = (plain if is_kept else plain.double()).resolve_neg()
        elif plain.is_complex():  # nor complex32, nor conjugates that are yet to be made
            plain = plain.cdouble().resolve_conj().resolve_neg()
        array = plain.numpy()  # in the tensor's own memory
    elif hasattr(value, "numpy"):  # TensorFlow
        is_kept = value.dtype == "float32" and "CPU" in str(getattr(value, "backing_device", ""))
        array = np.asarray(memoryview(value) if is_kept else value.numpy())  # the latter is a copy
    elif hasattr(value, "__array__"):  # JAX
        array = np.asarray(value)  # in its own memory: nobody writes to it
    else:
        return None
    return array


def _is_sparse(value: Any) -> bool:
    """Whether the value is a sparse tensor of PyTorch."""
    return str(getattr(value, "layout", "torch.strided")) != "torch.strided"


def _of_lists(value: Sequence[Any]) -> Array | None:
    """An array of numbers. None for whole numbers only, because a tuple of integers is a shape."""
    flat: list[Any] = [value]
    while any(isinstance(part, list | tuple) for part in flat):
        flat = [p for part in flat for p in (part if isinstance(part, list | tuple) else [part])]
    if not any(isinstance(part, float | complex) for part in flat):
        return None
    if not all(isinstance(part, int | float | complex) for part in flat):
        return None
    try:
        found = np.array(value)
        return found if found.dtype.kind == "c" else found.astype(np.float64)
    except ValueError:  # ragged
        return None


def dtype_name(value: Any) -> str:
    """The name of the dtype of an array; float64 for Python numbers."""
    return dtype_word(getattr(value, "dtype", "float64"))


def dtype_word(dtype: Any) -> str:
    """The name of a dtype of any framework: torch.float32, tf.float32, np.float32, jnp.float32."""
    name = getattr(dtype, "name", None)
    if isinstance(name, str):
        return name
    if str(dtype).startswith("torch."):
        return str(dtype).removeprefix("torch.")
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        return str(dtype)


def engine_of(layer: Any, values: Iterable[Any]) -> str:
    """The engine of the framework that the layer and the values belong to. Raises UsageError."""
    values = list(_leaves(values))
    engines = _of_objects([layer, getattr(layer, "__self__", None)])
    if not engines and callable(getattr(layer, "backward", None)) and hasattr(layer, "forward"):
        return "numpy"
    engines = engines or _of_objects(values) or _of_globals(layer)
    if not engines and backward_beside(layer):
        return "numpy"
    if len(engines) > 1:
        raise UsageError(f"the values belong to several frameworks: {', '.join(sorted(engines))}")
    if engines:
        return engines.pop()
    if not values:
        raise UsageError(
            "no input was given, and the layer does not say which framework it belongs to",
            "the arguments of the call follow the layer: check(layer, x)",
        )
    raise UsageError(
        "neither the layer nor its inputs say which framework they belong to",
        "a NumPy function needs backward=...; otherwise name the framework: engines='torch'",
    )


def gpu_of(layer: Any, values: Iterable[Any]) -> str | None:
    """The GPU that holds the PyTorch tensors of the layer and its arguments, or None. JAX and
    TensorFlow place their computations themselves."""
    has_own = hasattr(layer, "parameters") and not inspect.isclass(layer)
    parameters = layer.parameters() if has_own else ()
    for tensor in chain(_leaves(values), parameters if isinstance(parameters, Iterable) else ()):
        if hasattr(tensor, "is_cuda") and tensor.is_cuda:
            return str(tensor.device)
    return None


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    """The values inside of nested tuples, lists and dictionaries."""
    for value in values:
        if isinstance(value, Mapping):
            yield from _leaves(value.values())
        elif isinstance(value, tuple | list):
            yield from _leaves(value)
        else:
            yield value


def _of_objects(objects: Iterable[Any]) -> set[str]:
    engines = set()
    for one in objects:
        for parent in one.__mro__ if inspect.isclass(one) else type(one).__mro__:
            root = parent.__module__.partition(".")[0]
            if root in _ENGINES:
                engines.add(_ENGINES[root])
    return engines


def _of_globals(function: Any) -> set[str]:
    """The frameworks that a function is part of, or refers to by name, as in `torch.exp(x)`."""
    code, scope = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    named = (scope.get(name) for name in getattr(code, "co_names", ()))
    modules = [one.__name__ for one in named if isinstance(one, ModuleType)]
    owner = getattr(function, "__objclass__", function)  # of a method such as torch.Tensor.sum
    modules.append(getattr(owner, "__module__", None) or "")
    roots = {module.partition(".")[0] for module in modules}
    return {_ENGINES[root] for root in roots if root in _ENGINES}
