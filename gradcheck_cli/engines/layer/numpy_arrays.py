"""NumPy arrays in one dtype, for layers that only have first derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.engines.derivatives import Arrays, Function, Movable, Moved, VJPFunction
from gradcheck_cli.engines.errors import Unsupported


class NumpyArrays:
    """`derivatives.Derivatives` without derivatives of functions. `no_vjp` and `no_jvp` give the
    reasons."""

    def __init__(self, dtype: str, no_vjp: str, no_jvp: str) -> None:
        self._dtype = FORMATS[dtype].numpy_dtype()
        self._no_vjp = no_vjp
        self._no_jvp = no_jvp

    def array(self, values: Array) -> Any:
        """A copy as an array of its own."""
        return np.array(values, dtype=self._dtype if values.dtype.kind == "f" else None)

    def numpy(self, array: Any) -> Array:
        return np.asarray(array).astype(np.float64)

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype)

    def nested(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, VJPFunction]:
        raise Unsupported(self._no_vjp)

    def jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        raise Unsupported(self._no_jvp)
