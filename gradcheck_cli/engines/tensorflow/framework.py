"""TensorFlow in one dtype: arrays, and derivatives of functions of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, as_numbers
from gradcheck_cli.engines.derivatives import Arrays, TangentOf, TapeFramework
from gradcheck_cli.engines.errors import NodeFault, Unsupported
from gradcheck_cli.engines.kit.lowerings import Missing
from gradcheck_cli.engines.kit.walker import Call, Rule

if TYPE_CHECKING:
    from gradcheck_cli.engines.execution import Recorder
    from gradcheck_cli.engines.tensorflow.recorder import TensorFlowRecorder

NO_NESTED_ACCUMULATORS = "TensorFlow does not trace an accumulator inside another one"


class TensorFlow(TapeFramework):
    """TensorFlow in one dtype (`framework.Framework`)."""

    def __init__(self, table: Mapping[str, Call | Missing], dtype: str) -> None:
        import tensorflow as tf

        self._tf = tf
        self._calls = table
        self._recorder: TensorFlowRecorder | None = None
        self._accumulators = 0  # that watch now
        self.kinds = {"float": tf.as_dtype(dtype), "int": tf.int64, "bool": tf.bool}

    def lowering(self, op: str) -> Call | Missing | None:
        return self._calls.get(op)

    def constant(self, value: bool | int | float, kind: str) -> Any:
        return self._tf.constant(value, dtype=self.kinds[kind])

    def cast(self, array: Any, kind: str) -> Any:
        return self._tf.cast(array, self.kinds[kind])

    def array(self, values: Array) -> Any:
        values = np.asarray(values)
        if values.dtype.kind != "f":
            return self._tf.constant(values)
        floats = values.astype(self.kinds["float"].as_numpy_dtype, copy=False)
        return self._tf.constant(floats)  # a copy

    def leaf(self, values: Array) -> Any:
        return self.array(values)

    def numpy(self, array: Any) -> Array:
        return as_numbers(np.asarray(array.numpy()))

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype.name)

    @contextmanager
    def tape(self, sources: Sequence[Any]) -> Iterator[tuple[_Tape, list[Any]]]:
        with self._tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(list(sources))
            yield _Tape(self._tf, tape), list(sources)

    @contextmanager
    def tangent(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> Iterator[tuple[list[Any], TangentOf]]:
        moved = [i for i, x_dot in enumerate(tangents) if x_dot is not None]
        pushing = nullcontext() if self._recorder is None else self._recorder.pushing()
        with (
            pushing,
            self._tf.autodiff.ForwardAccumulator(
                [primals[i] for i in moved], [tangents[i] for i in moved]
            ) as accumulator,
        ):
            self._accumulators += 1
            try:
                yield list(primals), lambda y: _dense(self._tf, accumulator.jvp(y))
            except (IndexError, NodeFault) as error:
                cause = error.__cause__ if isinstance(error, NodeFault) else error
                is_nested = self._accumulators > 1 and not self._tf.executing_eagerly()
                if not (is_nested and isinstance(cause, IndexError)):  # of TensorFlow's own code
                    raise
                reason = Unsupported(NO_NESTED_ACCUMULATORS)
                if isinstance(error, NodeFault):
                    raise NodeFault(error.index) from reason
                raise reason from error
            finally:
                self._accumulators -= 1

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        return parameter - rate * gradient

    def recorder(self) -> Recorder:
        from gradcheck_cli.engines.tensorflow.recorder import TensorFlowRecorder

        self._recorder = TensorFlowRecorder()
        return self._recorder

    def custom(self, rule: Rule) -> Call:
        def stated(*args: Any) -> tuple[Any, Callable[[Any], list[Any]]]:
            # A tape calls a custom gradient itself; a recorder must know for which node.
            pull: Callable[..., list[Any]] = rule.pull
            if self._recorder is not None:
                pull = self._recorder.on_behalf_of_this(pull)
            return rule.value(*args), lambda upstream: pull(upstream, args)

        stated.__name__ = rule.name
        return self._tf.custom_gradient(stated)


class _Tape:
    """A persistent GradientTape."""

    def __init__(self, tf: Any, tape: Any) -> None:
        self._tf = tf
        self._tape = tape

    def gradient(
        self, targets: Arrays, sources: Arrays, cotangents: Arrays, again: bool
    ) -> list[Any]:
        # An enclosing tape or accumulator records this anyway, so `again` changes nothing.
        grads = self._tape.gradient(list(targets), list(sources), output_gradients=list(cotangents))
        return [_dense(self._tf, grad) for grad in grads]


def _dense(tf: Any, array: Any) -> Any:
    """The array as one tensor. Gradients of gathered elements are IndexedSlices, another notation
    for a tensor."""
    return None if array is None else tf.convert_to_tensor(array)
