"""Send answers of a worker as bytes: JSON for the structure, followed by the numbers of arrays.

A worker runs user code, so its bytes are not trusted. Reading creates only plain values, arrays of
numbers and the dataclasses of `_CLASSES`, which are in `domain`; bytes cannot name anything else.
Each field of a dataclass must match its annotation.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib
import json
import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import EllipsisType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from gradcheck_cli.domain.dtypes import Array

_DOMAIN = "gradcheck_cli.domain."
_CLASSES = {
    "evaluation": ("Evaluation", "Failure", "Gradient", "Operation", "Trace", "Training"),
    "behaviour": ("OtherRun",),
    "case": ("TruthRequest",),
    "curve": ("Curve", "Line"),
    "fixes": ("Candidate", "Screened", "Target", "Trial", "TrialPoint"),
    "graph": ("Graph",),
    "layer": ("LayerAnswer", "LayerProgress", "LiftedRun", "Meant"),
    "place": ("Place", "Source", "Span"),
    "program": ("CustomGradient", "Node", "Program"),
    "report": (
        "Accepted",
        "Cause",
        "Check",
        "Comparison",
        "Entry",
        "Finding",
        "Fix",
        "Indexing",
        "Pass",
        "Reading",
        "SpecError",
        "SpecResult",
        "TrainingResult",
    ),
    "search": (
        "ErrorLine",
        "GradientProgram",
        "Region",
        "Search",
        "SearchAnswer",
        "SearchResult",
        "SearchedFix",
        "Witness",
    ),
    "suite": ("Sample", "SuiteListing"),
    "truth": ("Cost", "Documented", "Guard", "Hull", "Truth", "TruthBlock"),
}
_MODULES = {name: module for module, names in _CLASSES.items() for name in names}
_DTYPES = {np.dtype(name).name: np.dtype(name) for name in ("f8", "f4", "i8", "i4", "u8", "?")}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_JSON = json.JSONEncoder(check_circular=False, separators=(",", ":"))  # only for trees made here
_HEAD = struct.Struct("!Q")  # the length of the JSON
_SCALARS = frozenset((NoneType, bool, int, float, str))


class Malformed(Exception):
    """The bytes that arrived are not an answer."""


def encode(value: object) -> bytes:
    """The value as bytes. Raises TypeError for values that cannot be sent."""
    writer = _Writer()
    root = writer.tree(value)
    head = _JSON.encode([root, writer.objects, writer.shapes]).encode()
    return b"".join((_HEAD.pack(len(head)), head, *writer.numbers))


def as_text(value: object) -> str:
    """`encode`, compressed, for a value of JSON."""
    return base64.b64encode(zlib.compress(encode(value))).decode("ascii")


def of_text(text: str) -> Any:
    """The value that `as_text` turned into a text. Raises Malformed."""
    try:
        body = zlib.decompress(base64.b64decode(text))
    except (ValueError, TypeError, zlib.error) as error:
        raise Malformed(str(error)) from error
    return decode(body)


def decode(body: bytes) -> Any:
    """The value of these bytes. Raises only Malformed."""
    try:
        (length,) = _HEAD.unpack_from(body)
        root, objects, shapes = json.loads(body[_HEAD.size : _HEAD.size + length])
        reader = _Reader(body, _HEAD.size + length, shapes)
        for name, fields in objects:
            reader.made.append(_rebuilt(name, [reader.value(field) for field in fields]))
        return reader.value(root)
    except Malformed:
        raise
    except Exception as error:  # from JSON, NumPy or unpacking: the bytes are malformed
        raise Malformed(f"{type(error).__name__}: {error}") from error


class _Writer:
    """Turns a value into a tree for JSON. Containers are lists that begin with a letter. An object
    that occurs twice is sent once."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.shapes: list[Any] = []
        self.numbers: list[bytes] = []
        self._sent: dict[int, tuple[list[Any], object]] = {}  # with the object, so that it lives

    def tree(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            return value
        if (known := self._sent.get(id(value))) is not None:
            return known[0]
        if kind is np.ndarray:
            return self._remember(value, self._array(value))
        if kind is tuple:
            return ["t", *map(self.tree, value)]
        if kind is dict:
            return self._mapping(value)
        if kind.__name__ in _MODULES:
            return self._remember(value, self._object(value))
        return self._rare(value)

    def _rare(self, value: Any) -> Any:
        if isinstance(value, np.float64 | np.float32):
            return ["n", float(value)]
        if isinstance(value, np.bool_ | np.integer):
            return value.item()
        if isinstance(value, np.ndarray):
            return self._remember(value, self._array(value))
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, tuple):
            return ["t", *map(self.tree, value)]
        if isinstance(value, list):
            return ["l", *map(self.tree, value)]
        if isinstance(value, slice):
            return ["s", *map(self.tree, (value.start, value.stop, value.step))]
        if isinstance(value, EllipsisType):
            return ["e"]
        for plain in (str, float, int):  # a subclass, possibly the user's
            if isinstance(value, plain):
                return plain(value)
        raise TypeError(f"a {type(value).__name__} cannot be sent")

    def _mapping(self, value: Mapping[Any, Any]) -> list[Any]:
        return ["m", *(self.tree(part) for pair in value.items() for part in pair)]

    def _remember(self, value: object, tree: list[Any]) -> list[Any]:
        self._sent[id(value)] = tree, value
        return tree

    def _array(self, array: Array) -> list[Any]:
        name = _DTYPE_NAMES.get(array.dtype)
        if name is None:
            raise TypeError(f"an array of {array.dtype} cannot be sent")
        self.shapes.append([name, array.shape])
        self.numbers.append(array.tobytes())
        return ["a", len(self.shapes) - 1]

    def _object(self, value: Any) -> list[Any]:
        name = type(value).__name__
        if type(value) is not _class(name):
            raise TypeError(f"a {name} cannot be sent")
        fields = [self.tree(getattr(value, field)) for field in _fields(name)]
        self.objects.append([name, fields])
        return ["o", len(self.objects) - 1]


class _Reader:
    """The arrays of a message, and the objects that were made so far."""

    def __init__(self, body: bytes, start: int, shapes: Sequence[Any]) -> None:
        self.made: list[Any] = []
        self._arrays: list[Array] = []
        for name, shape in shapes:
            dtype = _DTYPES[name]
            count = math.prod(shape)
            array = np.frombuffer(body, dtype, count, start) if count else np.empty(0, dtype)
            self._arrays.append(array.reshape(shape).copy())
            start += count * dtype.itemsize
        if start != len(body):
            raise Malformed("there are more or fewer numbers than it says")

    def value(self, tree: Any) -> Any:
        if type(tree) is not list:
            if type(tree) is dict:
                raise Malformed("an object of JSON")
            return tree
        letter = tree[0]
        if letter == "o":
            return self.made[_index(tree)]
        if letter == "a":
            return self._arrays[_index(tree)]
        values = [self.value(part) for part in tree[1:]]
        if letter == "m":
            return dict(zip(values[::2], values[1::2], strict=True))
        if letter == "t":
            return tuple(values)
        if letter == "l":
            return values
        if letter == "n":
            return np.float64(*values)
        if letter == "s":
            return slice(*values)
        if letter == "e":
            return ...
        raise Malformed(f"the letter {letter!r}")


def _index(tree: Sequence[Any]) -> int:
    _, index = tree
    if type(index) is not int or index < 0:
        raise Malformed(f"the place {index!r}")
    return index


def _rebuilt(name: str, values: Sequence[Any]) -> Any:
    """The dataclass with these fields. Raises Malformed for a field of the wrong type."""
    cls = _class(name)
    for field, check, value in zip(_fields(name), _checks(name), values, strict=True):
        if not check(value):
            raise Malformed(f"{name}.{field} is a {type(value).__name__}")
    return cls(*values)


@cache
def _class(name: str) -> Any:
    module = importlib.import_module(_DOMAIN + _MODULES[name])
    return getattr(module, name)


@cache
def _fields(name: str) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(_class(name)))


Check = Callable[[Any], bool]


@cache
def _checks(name: str) -> tuple[Check, ...]:
    """For each field, a function that checks whether a value matches the annotation."""
    cls = _class(name)
    hints = get_type_hints(cls, localns=_Names())
    return tuple(_check(hints[field.name]) for field in dataclasses.fields(cls))


class _Names(dict[str, Any]):
    """Names in annotations that their module imports only for the type checker."""

    def __missing__(self, name: str) -> Any:
        if name in _MODULES:
            return _class(name)
        if name == "Array":
            return Array
        kind = getattr(importlib.import_module(_DOMAIN + "evaluation"), name, None)
        if kind is None:
            raise KeyError(name)
        return kind


def _check(hint: Any) -> Check:
    """Return a function that checks whether a value is a `hint`. Nested values were checked
    before."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # a `type` statement, as NDArray is since NumPy 2.5
        origin = get_origin(origin.__value__)
    if hint is Any or hint is object:
        return lambda value: True
    if origin is np.ndarray:
        numbers = np.ndarray, np.floating
        return lambda value: isinstance(value, numbers)
    if origin in (Union, UnionType):
        checks = [_check(argument) for argument in arguments]
        if len(checks) == 2 and arguments[1] is NoneType:
            return lambda value: value is None or checks[0](value)
        return lambda value: any(check(value) for check in checks)
    if origin is Literal:
        return lambda value: type(value) is str and value in arguments
    if origin is tuple:
        return _tuple_check(arguments)
    if origin is Mapping or origin is dict:
        key, part = map(_check, arguments)
        return lambda value: (
            type(value) is dict and all(key(k) and part(v) for k, v in value.items())
        )
    if hint is float:
        return lambda value: isinstance(value, float) or type(value) is int
    assert isinstance(hint, type), f"no check for {hint}"
    return lambda value: type(value) is hint


def _tuple_check(arguments: tuple[Any, ...]) -> Check:
    if len(arguments) == 2 and arguments[1] is ...:
        each = _check(arguments[0])
        return lambda value: type(value) is tuple and all(map(each, value))
    checks = [_check(argument) for argument in arguments]
    return lambda value: (
        type(value) is tuple
        and len(value) == len(checks)
        and all(check(part) for check, part in zip(checks, value, strict=True))
    )
