"""Casts to narrower dtypes in a pair of NumPy functions: where they are, and the pair without them.

Both use arrays of a class that NumPy passes on to every result. A cast that avoids the class
(`np.float32(x)`) still takes effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.layer.casts import History, Watch, is_narrower
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.numpy.recorder import making


class Kind:
    """The class of arrays that are followed through a pair in `dtype`. `watch` has their casts.
    With `uncast`, float64 arrays stay float64 when they are cast to a narrower dtype."""

    def __init__(self, dtype: str, uncast: bool) -> None:
        self.watch = Watch(dtype)
        members = {"kind": self, "places": Places(__name__)}
        self._class: Any = type("Followed", (_Followed,), members)
        self._uncast = uncast

    def of(self, array: Array) -> Array:
        """The array as one that is followed."""
        made: Any = array.view(self._class)
        made.history = frozenset() if array.dtype.kind == "f" else None
        return made

    def making(self) -> AbstractContextManager[None]:
        """Inside the block, put floating arrays that the user's code creates into the class, so
        that writes to them are noticed."""
        return making(self._cast_result)

    def _cast_result(self, make: Callable[..., Any], args: Any, keywords: Mapping[str, Any]) -> Any:
        result = make(*args, **keywords)
        if result.dtype.kind != "f":
            return result
        if args and isinstance(args[0], self._class):
            return args[0].astype(result.dtype, copy=make is not np.asarray)
        if make.__name__.endswith("array"):
            return result
        return result.astype(self.dtype(result.dtype), copy=False).view(self._class)

    def dtype(self, dtype: Any) -> Any:
        """The dtype to use in place of a requested one."""
        narrow = self._uncast and dtype is not None and is_narrower(np.dtype(dtype).name, "float64")
        return np.float64 if narrow else dtype

    def keywords(self, keywords: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.dtype(x) if name == "dtype" else x for name, x in keywords.items()}

    def restored(self, value: Any) -> Any:
        """Restore the class of a floating result that NumPy returned without it."""
        floating = getattr(value, "dtype", np.dtype(object)).kind == "f"
        if not floating or isinstance(value, self._class):
            return value
        return np.asarray(value).view(self._class)


class _Followed(np.ndarray[Any, Any]):
    """An array with a `history`, which is None if its numbers do not depend on followed ones."""

    kind: Kind
    places: Places
    history: History | None = None

    def __array_finalize__(self, source: Any) -> None:
        self._note(source)

    def _note(self, source: Any) -> None:
        """Record that the numbers depend on `source`. Writing to a view changes its base."""
        history = getattr(source, "history", None)
        if history is None:
            return
        if is_narrower(self.dtype.name, source.dtype.name):
            history |= self.kind.watch.narrowed(self.dtype.name, "astype", self.places.running())
        array: Any = self
        while isinstance(array, _Followed):
            array.history = history | (array.history or frozenset())
            array = array.base

    def _from(self, sources: Any, made: Any) -> Any:
        """A result, with the histories of the arguments that made it."""
        if isinstance(made, tuple | list):
            return type(made)([self._from(sources, y) for y in made])
        result = self.kind.restored(made)
        for source in _leaves(sources):
            if isinstance(result, _Followed):
                result._note(source)
        return result

    def astype(self, dtype: Any, *args: Any, **keywords: Any) -> Any:
        return super().astype(self.kind.dtype(dtype), *args, **keywords)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        out = keywords.pop("out", None)
        settings = {} if out is None else {"out": tuple(map(_as_ndarray, out))}
        settings |= self.kind.keywords(keywords)
        result = getattr(ufunc, method)(*map(_as_ndarray, inputs), **settings)
        if out is None:
            return self._from(inputs, result)
        made = self._from(inputs, tuple(out))
        return made[0] if len(out) == 1 else made

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._from(
            args, super().__array_function__(func, types, args, self.kind.keywords(kwargs))
        )

    def __getitem__(self, index: Any) -> Any:
        return self._from([self], super().__getitem__(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        self._from([value], self)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        self._leave()
        return super().__float__()

    def item(self, *args: Any) -> Any:
        self._leave()
        return super().item(*args)

    def tolist(self) -> Any:
        self._leave()
        return super().tolist()

    def _leave(self) -> None:
        """Record that the numbers become Python numbers."""
        self.kind.watch.leaves(self.history or ())


def _leaves(tree: Any) -> Iterator[Any]:
    for part in tree:
        if isinstance(part, tuple | list):
            yield from _leaves(part)
        else:
            yield part


def _as_ndarray(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, _Followed) else value
