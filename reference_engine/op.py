"""Op: one row of the table of operations, and the table.

A row states everything about an operation: its value, its derivative (once: both modes and every
order follow, because the rule is written in operations of the table), where it is defined, where
its derivative does not exist and which convention holds there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import CO_VARARGS
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, Self, TypeVar

import numpy as np

from reference_engine.errors import ShapeError
from reference_engine.floats import Array, as_dtype, is_narrow
from reference_engine.reads import EVERYTHING, RESULT
from reference_engine.traced import ROWS, Traced, Use, Value, shape_of


class _Required:
    """The default of a keyword that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()

ELEMENTWISE = frozenset(
    [
        "activations",
        "arithmetic",
        "bessel",
        "control",
        "exponential",
        "gamma",
        "incomplete",
        "integrals",
        "selection",
        "special",
        "trigonometric",
    ]
)
"""The families whose rows work element by element."""


class Rule(Protocol):
    """A derivative, stated in one of the ways of reference_engine.rules."""

    def forward(self, use: Use, x_dots: Sequence[Value]) -> Value:
        """y_dot from the arguments' tangents (None: a constant); None if no argument matters."""

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        """The cotangents of the `wanted` arguments (None: zero), not yet unbroadcast."""


Rounding = Literal["none", "result", "sums", "inputs"]
PointKind = Literal["kink", "tie", "jump", "pole", "vertical tangent", "edge", "limit"]


@dataclass(frozen=True, slots=True)
class Point:
    """A place where a row has no derivative, or where the engines part ways, with an example.

    where       the condition, in the names of the arguments: "x = 0"
    kind        what it is. At an "edge" the domain ends; a "limit" is a point (or a region) where
                the derivative exists but is easily lost: a number so large that squares overflow
    at          one array an argument: an example of such a call, with `keywords`, in `dtype`
    gradient    of the sum of the result's elements there, one array an argument (a number stands
                for all elements, None for an argument without a gradient): what this library gives
    value       the result there, where it is worth saying (a pole: inf)
    differs     what other engines give instead, by the engine's name; those not named agree
    raises      the engines that raise an error there
    reason      why this gradient was chosen, or why the others differ
    """

    where: str
    kind: PointKind
    at: tuple[Any, ...]
    gradient: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    differs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    reason: str = ""
    dtype: str = "float64"
    raises: tuple[str, ...] = ()

    def because(
        self, reason: str, frameworks: tuple[Any, ...] | None = None, **differs: tuple[Any, ...]
    ) -> Point:
        """The point with its reason, and with what other engines give instead: by name, or all
        three `frameworks` alike."""
        if frameworks is not None:
            differs = dict.fromkeys(("torch", "tensorflow", "jax"), frameworks)
        return replace(self, reason=reason, differs=differs)


class Recording(NamedTuple):
    """What the tape does with a call of a row.

    wanted          positions of the arguments that are differentiated
    active          whether the rule has anything for one of them
    keeps_result    whether the reverse rule reads the value of the result
    unread          the arguments among the wanted whose values it does not read: the position, and
                    the place in `wanted`
    """

    wanted: tuple[int, ...]
    active: bool
    keeps_result: bool
    unread: tuple[tuple[int, int], ...]


def in_both(point: Point) -> tuple[Point, Point]:
    """The point as it stands, in float64, and in float32."""
    return point, replace(point, where=f"{point.where}, in float32", dtype="float32")


class _Recordings(dict[int, Recording]):
    """The Recording of a row for each set of differentiated arguments: the bits of the key.

    A rule that does not say `reads` is taken to read everything.
    """

    def __init__(self, op: Op) -> None:
        self._of = op.rule, frozenset(op.passive)

    def __missing__(self, mask: int) -> Recording:
        rule, passive = self._of
        wanted = tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
        stated = getattr(rule, "reads", None)
        reads = EVERYTHING if stated is None else stated(passive, wanted)
        known = self[mask] = Recording(
            wanted,
            not passive.issuperset(wanted),
            RESULT in reads,
            tuple((i, k) for k, i in enumerate(wanted) if i not in reads),
        )
        return known


class Op:
    """A row of the table; calling it runs the operation on arrays, tensors and duals in any mix.

    name, aliases       what it is called; aliases are its other Array-API or NumPy names
    family              the file of the table that it stands in
    arrays              names of the array arguments in order; a last one with "*" is variadic.
                        Unless they are stated they are those of `raw`
    keywords            static arguments with their defaults, REQUIRED where there is none; given by
                        name, or after the arrays in this order (a text stands before the arrays).
                        Unless they are stated they are the keyword-only arguments of `raw`
    points              kinks, ties, jumps, poles: what happens there, in which engine
    rule                the derivative as a statement; None if the result is never differentiated
    kinds               positions of array arguments that are "int" or "bool", and not floating: the
                        rule has nothing for them (`passive`)
    rounding            where rounding enters the value: "none" (it is exact), "result" (a few units
                        of the result), "sums" (of the result for the arguments' absolute values,
                        which bound every partial sum), "inputs" (as much as a few units of every
                        argument's norm do: a backward stable algorithm, whose result is
                        floating for whole numbers too)
    raw                 the value as a function of plain arrays
    kinks_at            the elements that lie exactly at a kink, a tie or a jump
    result_shape        the result's shape from the arguments' shapes and the keywords, where it may
                        be far larger than the arguments or dear to compute; raises ValueError
                        where they do not fit
    """

    def __init__(
        self,
        name: str,
        raw: Callable[..., Any],
        rule: Rule | None,
        *,
        family: str = "",
        arrays: tuple[str, ...] | None = None,
        keywords: Mapping[str, Any] | None = None,
        aliases: tuple[str, ...] = (),
        points: tuple[Point, ...] = (),
        rounding: Rounding = "result",
        kinds: Mapping[int, Literal["int", "bool"]] | None = None,
        kinks_at: Callable[..., Any] | None = None,
        result_shape: Callable[..., tuple[int, ...]] | None = None,
    ) -> None:
        self.name = name
        self.raw = raw
        self.rule = rule
        self.family = family
        arrays, keywords = _arrays_and_keywords(raw, arrays, keywords)
        self.arrays = arrays
        self.arity = -1 if arrays and arrays[-1].startswith("*") else len(arrays)
        self.keywords: Mapping[str, Any] = MappingProxyType(dict(keywords))
        self.aliases = aliases
        self.formula = self.derivative = self.domain = self.stability = self.source = ""
        self.points = points
        self.rounding = rounding
        self.exact = rounding == "none"
        self.passive = tuple(kinds or ())
        self.kinds: Mapping[int, str] = MappingProxyType(dict(kinds or {}))
        self.kinks_at = kinks_at
        self.result_shape = result_shape
        self.add_to: Callable[..., None] | None = getattr(rule, "add_to", None)
        self.takes_repeated: bool = getattr(rule, "takes_repeated", False)
        self.recordings = _Recordings(self)

    def says(
        self,
        formula: str,
        derivative: str,
        *,
        domain: str = "all real numbers",
        stability: str = "",
        source: str | None = None,
    ) -> Self:
        """The row with its texts for people.

        formula, derivative, domain    the mathematics
        stability                      why value or derivative are computed in this form and not in
                                       the textbook's
        source                         where derivative or behaviour come from, if not from where
                                       those of its family do
        """
        self.formula = formula
        self.derivative = derivative
        self.domain = domain
        self.stability = stability
        if source is not None:
            self.source = source
        return self

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    @property
    def differentiable(self) -> bool:
        return self.rule is not None

    @property
    def elementwise(self) -> bool:
        """Whether an element of the result comes from the elements of the arguments that meet it by
        broadcasting, and from no others."""
        return self.family in ELEMENTWISE

    def value(self, *arrays: Any, **keywords: Any) -> Array:
        """The value on plain arrays, in their own dtype; nothing is checked or recorded."""
        return np.asarray(self.raw(*arrays, **keywords))

    def at_kink(self, *arrays: Any, **keywords: Any) -> Array | None:
        """Which elements lie exactly at a kink, a tie or a jump; None if there can be none."""
        if self.kinks_at is None:
            return None
        with np.errstate(all="ignore"):  # outside of its domain a row has none
            return np.asarray(self.kinks_at(*arrays, **keywords))

    def __call__(self, *args: Value, **keywords: Any) -> Value:
        """Run the operation.

        Raises ShapeError where the arrays do not fit together or do not fit the keywords, and
        TypeError for a wrong number of arguments or an unknown keyword.
        """
        if len(args) != self.arity:
            args, keywords = self._bind(args, keywords)
        top: Traced | None = None
        for a in args:
            if isinstance(a, Traced) and (top is None or a.level > top.level):
                top = a
        return self.on_arrays(args, keywords) if top is None else top.apply(self, args, keywords)

    def on_arrays(self, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> Array:
        """The value where no array is traced and their number is right. Raises as a call does."""
        try:
            y = self.raw(*arrays, **keywords)
        except (ValueError, IndexError) as error:
            raise self._misfit(arrays, keywords, error) from error
        return y if type(y) is np.ndarray else np.asarray(y)

    def _misfit(
        self, arrays: Sequence[Any], keywords: Mapping[str, Any], error: Exception
    ) -> ShapeError:
        """Why the value cannot be computed, in the words of the stated shape where it has some."""
        shapes = tuple(shape_of(a) for a in arrays)
        if self.result_shape is not None:
            given = {name: keywords.get(name, self.keywords[name]) for name in self.keywords}
            given.pop("dtype", None)
            try:
                self.result_shape(*shapes, **given)
            except (ValueError, IndexError) as stated:
                error = stated
        reason = error.reason if isinstance(error, ShapeError) else str(error)
        return ShapeError(self.name, shapes, reason)

    def _bind(
        self, args: tuple[Value, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Value, ...], dict[str, Any]]:
        """Take a list for a variadic argument, and keywords that were given by position."""
        arity = self.arity
        if args and isinstance(args[0], str):
            text = next(name for name, given in self.keywords.items() if given is REQUIRED)
            args, keywords = args[1:], {text: args[0], **keywords}
        if arity < 0:
            if not args or not isinstance(args[0], (list, tuple)):
                return args, keywords
            args, arity = (*args[0], *args[1:]), len(args[0])
        extra = args[arity:]
        if len(args) < arity or len(extra) > len(self.keywords):
            raise TypeError(
                f"{self.name} takes {', '.join((*self.arrays, *self.keywords))}; "
                f"{len(args)} arguments were given"
            )
        given = dict(zip(self.keywords, extra, strict=False))
        twice = given.keys() & keywords.keys()
        if twice:
            raise TypeError(f"{self.name} got {', '.join(sorted(twice))} twice")
        return args[:arity], {**given, **keywords}


def _arrays_and_keywords(
    raw: Callable[..., Any], arrays: tuple[str, ...] | None, keywords: Mapping[str, Any] | None
) -> tuple[tuple[str, ...], Mapping[str, Any]]:
    """Arrays and keywords, from the function that computes the value where they are not stated."""
    if arrays is not None and keywords is not None:
        return arrays, keywords
    named, static = _arguments_of(raw)
    keywords = static if keywords is None else keywords
    if arrays is None:
        arrays = tuple(name for name in named if name not in keywords)
    return arrays, keywords


def _arguments_of(raw: Callable[..., Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names of the arrays that a value is computed from (one that takes any number of them
    says nothing: `x`), and its keyword-only arguments with their defaults."""
    while hasattr(raw, "__wrapped__"):
        raw = raw.__wrapped__
    if isinstance(raw, np.ufunc):
        return ("x",) if raw.nin == 1 else ("x1", "x2"), {}
    code = getattr(raw, "__code__", None)
    if code is None or code.co_flags & CO_VARARGS:
        return ("x",), {}
    count = code.co_argcount
    static = code.co_varnames[count : count + code.co_kwonlyargcount]
    defaults = getattr(raw, "__kwdefaults__", None) or {}
    return code.co_varnames[:count], {name: defaults.get(name, REQUIRED) for name in static}


class Composite(Op):
    """A row that is written in other rows: its derivative, in every mode and order, is theirs.

    `compose` takes the arrays by position and the keywords by name, and calls rows. Narrow formats
    are computed in float32 and rounded once, as the kernels of frameworks do.
    """

    def __init__(
        self,
        name: str,
        compose: Callable[..., Value],
        *,
        arrays: tuple[str, ...] | None = None,
        keywords: Mapping[str, Any] | None = None,
        **stated: Any,
    ) -> None:
        arrays, keywords = _arrays_and_keywords(compose, arrays, keywords)
        super().__init__(name, self._on_arrays, None, arrays=arrays, keywords=keywords, **stated)
        self.compose = compose

    @property
    def differentiable(self) -> bool:
        return True

    def _on_arrays(self, *arrays: Any, **keywords: Any) -> Any:
        return self._in_float32(arrays, keywords)

    def __call__(self, *args: Value, **keywords: Any) -> Value:
        if len(args) != self.arity:
            args, keywords = self._bind(args, keywords)
        for a in args:
            if isinstance(a, Traced) and not a.composes:
                return a.apply(self, args, keywords)
        try:
            return self._in_float32(args, keywords)
        except (ValueError, IndexError) as error:
            raise self._misfit(args, keywords, error) from error

    def _in_float32(self, args: Sequence[Value], keywords: Mapping[str, Any]) -> Value:
        narrow = None
        for a in args:
            dtype = getattr(a, "dtype", None)
            if dtype is not None and dtype.itemsize == 2 and is_narrow(dtype):
                narrow = dtype
        if narrow is None:
            return self.compose(*args, **keywords)
        wide = [
            ROWS["astype"](a, dtype=as_dtype("float32"))
            if getattr(a, "dtype", None) == narrow
            else a
            for a in args
        ]
        return ROWS["astype"](self.compose(*wide, **keywords), dtype=narrow)


class Several:
    """A function of several results, each of them a row: `w, v = eigh(x)`.

    `parts` takes the shapes of the arrays and the keywords and gives, for each result, the row and
    the keywords with which it is called on the same arrays.
    """

    def __init__(
        self,
        name: str,
        parts: Callable[..., Sequence[tuple[Op, Mapping[str, Any]]]],
        *,
        family: str,
        results: tuple[str, ...],
        formula: str,
        arrays: tuple[str, ...] = ("x",),
        keywords: Mapping[str, Any] | None = None,
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.parts = parts
        self.family = family
        self.results = results
        self.formula = formula
        self.arrays = arrays
        self.keywords: Mapping[str, Any] = MappingProxyType(dict(keywords or {}))
        self.aliases = aliases

    def __repr__(self) -> str:
        return f"<several {self.name}>"

    def __call__(self, *args: Value, **keywords: Any) -> tuple[Value, ...]:
        """The results, in order. Raises what the rows raise."""
        count = len(self.arrays)
        given = {**dict(zip(self.keywords, args[count:], strict=False)), **keywords}
        return tuple(self._results(args[:count], given))

    def _results(self, args: Sequence[Value], given: Mapping[str, Any]) -> Iterator[Value]:
        unknown = given.keys() - self.keywords.keys()
        complete = {**self.keywords, **given}
        missing = [name for name, value in complete.items() if value is REQUIRED]
        if unknown or missing or len(args) != len(self.arrays):
            raise TypeError(f"{self.name} takes {', '.join((*self.arrays, *self.keywords))}")
        for row, chosen in self.parts(*(shape_of(a) for a in args), **complete):
            yield row(*args, **chosen)


_PUBLIC: dict[str, Op] = {}
_SEVERAL: dict[str, Several] = {}
_INTERNAL: dict[str, Op] = {}
_ALIASES: dict[str, str] = {}

TABLE: Mapping[str, Op] = MappingProxyType(_PUBLIC)
"""Every operation that a program may use, by its name."""

INTERNAL: Mapping[str, Op] = MappingProxyType(_INTERNAL)
"""Operations that occur in derivatives only; rows like the others, but not offered by name."""


SEVERAL: Mapping[str, Several] = MappingProxyType(_SEVERAL)
"""Functions of several results, by their names."""


_Stated = ParamSpec("_Stated")
_Row = TypeVar("_Row", bound=Op)


def _adder(kind: Callable[_Stated, _Row], *, internal: bool = False) -> Callable[_Stated, _Row]:
    """Makes a row of that kind and adds it to the table.

    Its family is the module that states it. Where that has a ROUNDING or a SOURCE, they hold for
    all rows that do not state another. Raises ValueError if a name or an alias is taken.
    """

    def add(*arguments: _Stated.args, **stated: _Stated.kwargs) -> _Row:
        module = sys._getframe(1).f_globals
        defaults = {"family": _family(module), "rounding": module.get("ROUNDING", "result")}
        made = kind(*arguments, **{**defaults, **stated})
        made.source = module.get("SOURCE", "elementary calculus")
        _claim(made)
        ROWS[made.name] = made
        (_INTERNAL if internal else _PUBLIC)[made.name] = made
        return made

    return add


row = _adder(Op)
composite = _adder(Composite)
internal = _adder(Op, internal=True)


def several(*arguments: Any, **stated: Any) -> Several:
    """Adds a function of several results, in the same way."""
    function = Several(*arguments, **stated, family=_family(sys._getframe(1).f_globals))
    _claim(function)
    _SEVERAL[function.name] = function
    return function


def _family(module: Mapping[str, Any]) -> str:
    name: str = module["__name__"]
    return name.rpartition(".")[2]


def _claim(made: Op | Several) -> None:
    for name in (made.name, *made.aliases):
        if name in ROWS or name in _SEVERAL or name in _ALIASES:
            raise ValueError(f"two rows are called {name}")
    _ALIASES.update(dict.fromkeys(made.aliases, made.name))


def find(name: str) -> Op | None:
    """The row of that name or alias, or None."""
    return _PUBLIC.get(_ALIASES.get(name, name))


def find_several(name: str) -> Several | None:
    """The function of several results of that name or alias, or None."""
    return _SEVERAL.get(_ALIASES.get(name, name))
