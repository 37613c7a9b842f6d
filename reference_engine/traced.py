"""What tensors and dual numbers have in common: a level, an inner value, operators.

Every transformation (a `vjp`, a `jvp`, ...) opens a level with a number of its own. A traced value
of a level holds a value of some lower level, down to a NumPy array; an operation is handled by the
highest level among its arguments, where everything of a lower level is a constant. This keeps
nested transformations apart (no perturbation confusion) in any mix of modes.

    level 0     tensors that need no gradient
    level 1     the user's tape: tensors made with requires_grad, and what is computed from them
    level >= 2  one for each transformation
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from reference_engine.floats import Array, is_float

Value: TypeAlias = Any  # a NumPy array or number, a Tensor or a Dual

CONSTANT_LEVEL = 0
USER_LEVEL = 1


class Use(NamedTuple):
    """One use of a row: the operation, its arguments and its result (None where a rule that does
    not read it is asked), both on one level, and its keywords."""

    op: Any
    xs: Sequence[Value]
    y: Value
    keywords: Mapping[str, Any]


ROWS: dict[str, Any] = {}  # name -> Op, filled by reference_engine.op.row

_levels = count(USER_LEVEL + 1)
_floor: ContextVar[int] = ContextVar("levels that do not record", default=CONSTANT_LEVEL)


def new_level() -> int:
    """The number of a new transformation: higher than every one before it."""
    return next(_levels)


recording_floor = _floor.get
"""The highest level whose tensors record nothing of what is done to them (see `no_grad`)."""


@contextmanager
def no_grad() -> Iterator[None]:
    """Record nothing on the tapes that are open already; results need no gradient.

    A transformation that starts inside works as always. Dual numbers are not affected. Works as a
    `with` block and as a decorator.
    """
    token = _floor.set(new_level())
    try:
        yield
    finally:
        _floor.reset(token)


def _operator(name: str) -> Callable[[Any, Value], Value]:
    """The row as a method of its first argument; an array beside it leaves no level to look for."""

    def operator(self: Traced, other: Value) -> Value:
        row = ROWS[name]
        if isinstance(other, Traced):
            return row(self, other)
        return self.apply(row, (self, other), {})

    return operator


def _reflected(name: str) -> Callable[[Any, Value], Value]:
    """The row as a method of its second argument, the first one being no traced value."""

    def operator(self: Traced, other: Value) -> Value:
        return self.apply(ROWS[name], (other, self), {})

    return operator


class Traced:
    """A value that remembers how it was computed. Operators and methods are rows of the op
    table."""

    __slots__ = ("level", "value")
    __array_ufunc__ = None  # NumPy arrays leave `array * traced` to us

    level: int
    value: Value
    composes: ClassVar[bool] = True
    """Whether a composite row is run as the rows that it consists of, and not applied whole."""

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        """Run `op`, self having the highest level among `args`."""
        raise NotImplementedError

    def lower(self, args: Sequence[Value]) -> list[Value]:
        """The arguments one level down; tensors without gradients dissolve into their arrays."""
        level = self.level
        return [
            a.value if isinstance(a, Traced) and (a.level == level or a.level == 0) else a
            for a in args
        ]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.value.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype

    @property
    def T(self) -> Value:
        return ROWS["transpose"](self)

    def numpy(self) -> Array:
        """The plain array behind this value; what is computed from it is not differentiated."""
        return to_array(self)

    def item(self) -> bool | int | float:
        """The only element as a Python number; what is computed from it is not differentiated."""
        return to_array(self).item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.level > CONSTANT_LEVEL:
            raise TypeError(
                "a value that is being differentiated cannot become a NumPy array unnoticed; "
                "use an operation of reference_engine, or .numpy() to leave the graph"
            )
        return np.array(self.value, dtype=dtype, copy=copy)

    def __float__(self) -> float:
        if self.level > CONSTANT_LEVEL:
            raise TypeError("use .item() to leave the graph of derivatives on purpose")
        return float(self.value)

    def __bool__(self) -> bool:
        return bool(to_array(self))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d value")
        return self.shape[0]

    def __iter__(self) -> Iterator[Value]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Value:
        parts = index if isinstance(index, tuple) else (index,)
        plain = [to_array(p) if isinstance(p, Traced) else p for p in parts]
        return self.apply(ROWS["getitem"], (self,), {"index": tuple(plain)})

    __hash__ = object.__hash__

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _operator("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _operator("divide"), _reflected("divide")
    __pow__, __rpow__ = _operator("power"), _reflected("power")
    __matmul__, __rmatmul__ = _operator("matmul"), _reflected("matmul")
    __lt__, __le__ = _operator("less"), _operator("less_equal")
    __gt__, __ge__ = _operator("greater"), _operator("greater_equal")
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")
    __and__, __or__ = _operator("logical_and"), _operator("logical_or")
    __rand__, __ror__ = _reflected("logical_and"), _reflected("logical_or")

    def __neg__(self) -> Value:
        return self.apply(ROWS["negative"], (self,), {})

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        return ROWS["abs"](self)

    def __invert__(self) -> Value:
        return ROWS["logical_not"](self)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Value:
        return ROWS["sum"](self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Value:
        return ROWS["mean"](self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Value:
        return ROWS["prod"](self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Value:
        return ROWS["max"](self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Value:
        return ROWS["min"](self, axis=axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Value:
        return ROWS["reshape"](self, shape=shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Value:
        return ROWS["transpose"](self, axes=(axes[0] if len(axes) == 1 else axes) or None)


def to_array(x: Value) -> Array:
    """The plain array at the bottom of a value."""
    while isinstance(x, Traced):
        x = x.value
    return np.asarray(x)


def shape_of(x: Value) -> tuple[int, ...]:
    """The shape of an array, a number or a traced value."""
    try:
        shape: tuple[int, ...] = x.shape
    except AttributeError:
        return np.shape(x)
    return shape


def float_value(x: Value, what: str, position: int | None = None) -> Value:
    """`x` as an array or traced value that can be differentiated with respect to.

    Raises TypeError, naming `what` and its position, unless its dtype is float16, bfloat16, float32
    or float64.
    """
    if not isinstance(x, Traced):
        x = np.asarray(x)
    if not is_float(x.dtype):
        which = what if position is None else f"{what} {position}"
        raise TypeError(
            f"{which} has dtype {x.dtype}; only float16, bfloat16, float32 and float64 "
            f"can require a gradient (write 1.0 rather than 1, or convert with dtype='float64')"
        )
    return x
