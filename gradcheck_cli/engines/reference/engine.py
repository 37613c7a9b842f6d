"""The reference engine: the library `reference_engine`, whose op table is the formula language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, as_numbers
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.derivatives import Arrays, TangentOf, TapeFramework
from gradcheck_cli.engines.kit.adapter import ProgramEngine
from gradcheck_cli.engines.kit.walker import Call, Rule
from gradcheck_cli.version import VERSION

if TYPE_CHECKING:
    from gradcheck_cli.engines.execution import Recorder


class ReferenceEngine(ProgramEngine):
    """Part of gradcheck itself. Imports neither the table nor NumPy's extras before `load`."""

    capabilities = Capabilities(
        name="reference",
        distributions=(),
        install="pip install gradcheck-cli",
        orders=(1, 2, 3),
    )

    def load(self) -> str:
        import reference_engine  # noqa: F401 - fills the table

        return VERSION

    def operations(self) -> frozenset[str]:
        from reference_engine.op import TABLE

        return frozenset(TABLE)

    def framework(self, dtype: str) -> _Reference:
        return _Reference(dtype)


class _Reference(TapeFramework):
    """The reference engine in one dtype (`framework.Framework`). Arrays are NumPy arrays."""

    def __init__(self, dtype: str) -> None:
        import reference_engine
        from reference_engine import dual, op, tape, traced
        from reference_engine.tensor import Tensor

        self._engine, self._dual, self._op, self._tape, self._traced = (
            reference_engine,
            dual,
            op,
            tape,
            traced,
        )
        self._tensor = Tensor
        self._dtype = FORMATS[dtype].numpy_dtype()
        self.kinds = {"float": self._dtype, "int": np.dtype(np.int64), "bool": np.dtype(np.bool_)}

    def lowering(self, op: str) -> Call | None:
        return self._op.find(op)

    def constant(self, value: bool | int | float, kind: str) -> Any:
        return np.array(value, dtype=self.kinds[kind])

    def cast(self, array: Any, kind: str) -> Any:
        # Only integers and booleans are ever cast, and nothing is differentiated through those.
        return self._traced.to_array(array).astype(self.kinds[kind])

    def array(self, values: Array) -> Any:
        values = np.asarray(values)
        return values.astype(self._dtype) if values.dtype.kind == "f" else values

    def leaf(self, values: Array) -> Any:
        return self.array(values)

    def numpy(self, array: Any) -> Array:
        return as_numbers(self._traced.to_array(array))

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype.name)

    def tape(self, sources: Sequence[Any]) -> nullcontext[tuple[_Tape, list[Any]]]:
        level = self._traced.new_level()
        watched = [self._tensor(level, source) for source in sources]
        visit = next((s.recorder.visit for s in sources if hasattr(s, "recorder")), None)
        return nullcontext((_Tape(self._tape, level, visit), watched))

    @contextmanager
    def tangent(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> Iterator[tuple[list[Any], TangentOf]]:
        level = self._traced.new_level()

        def tangent_of(result: Any) -> Any:
            own = isinstance(result, self._dual.Dual) and result.level == level
            return result.tangent if own else None

        pairs = zip(primals, tangents, strict=True)
        dual = self._dual.Dual
        yield [x if x_dot is None else dual(level, x, x_dot) for x, x_dot in pairs], tangent_of

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        return np.asarray(parameter - rate * gradient)

    def recorder(self) -> Recorder:
        from gradcheck_cli.engines.reference.recorder import ReferenceRecorder

        return ReferenceRecorder()

    def custom(self, rule: Rule) -> Call:
        count = len(rule.custom.forward.inputs)

        def vjp(upstream: Any, *args: Any) -> tuple[Any, ...]:
            return tuple(rule.pull(upstream, args))

        def jvp(*values: Any) -> Any:
            return rule.push(values[:count], values[count:])

        def stated(*args: Any) -> Any:
            return rule.value(*args)

        stated.__name__ = rule.name
        return self._engine.custom_gradient(vjp, jvp if rule.jvp else None)(stated)


class _Tape:
    """One level of the reference engine's reverse mode."""

    def __init__(self, tape: Any, level: int, visit: Any = None) -> None:
        self._tape = tape
        self._level = level
        self._visit = visit  # a recorder knows where the walk is

    def gradient(
        self, targets: Arrays, sources: Arrays, cotangents: Arrays, again: bool
    ) -> list[Any]:
        # What an enclosing level sees of this walk it records by itself, whatever `again` says.
        recorded = [
            (y, y_bar)
            for y, y_bar in zip(targets, cotangents, strict=True)
            if isinstance(y, self._tape.Node) and y.level == self._level
        ]
        if not recorded:
            return [None] * len(sources)
        observed: dict[Any, Any] = {}
        records = [s.record if isinstance(s, self._tape.Node) else None for s in sources]
        leaves = all(record is None or record.op is None for record in records)
        observe = self._visit or (None if leaves else observed.__setitem__)
        reached = self._tape.pull_back(recorded, observe=observe)
        return [observed.get(record, reached.get(record)) for record in records]
