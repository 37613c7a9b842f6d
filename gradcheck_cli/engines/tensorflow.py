"""TensorFlow, eagerly: GradientTape for reverse, `tf.autodiff.ForwardAccumulator` for forward."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.adapter import ProgramEngine
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.framework import Pushed
from gradcheck_cli.engines.walker import OPERATORS, Lowering, Rule, custom_gradients

_THREADS = 2  # several engines share the machine, and specs are small
_LACKS = (  # how TensorFlow says that an op has no kernel, or no gradient, for a dtype
    "is not in the list of allowed values",
    "not in list of allowed values",
    "Could not find device for node",
    "No OpKernel was registered",
    "gradient registry has no entry for",
)


class TensorFlowEngine(ProgramEngine):
    """TensorFlow on the CPU, in eager mode."""

    capabilities = Capabilities(
        name="tensorflow",
        distributions=("tensorflow", "tensorflow-cpu", "tf-nightly"),
        install="pip install 'gradcheck-cli[tensorflow]'",
    )

    def load(self) -> str:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # before the import: looking for one takes time
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(_THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(_THREADS)
        self._table = _table(tf)
        return str(tf.__version__)

    def framework(self, dtype: str) -> _TensorFlow:
        return _TensorFlow(self._table, dtype)

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """An accumulator differentiates the operations inside a `tf.custom_gradient`, whatever its
        rule says: what it gives is not the derivative that the user states."""
        custom = next(iter(custom_gradients(program)), None)
        if mode.startswith("forward") and custom is not None:
            return (
                f"TensorFlow's forward mode ignores the custom gradient of `{custom.name}`: "
                "it differentiates the operations inside it"
            )
        return None

    def lacks(self, error: BaseException) -> bool:
        import tensorflow as tf

        words = str(error)
        return isinstance(error, tf.errors.UnimplementedError | NotImplementedError) or any(
            phrase in words for phrase in _LACKS
        )


class _TensorFlow:
    """TensorFlow in one dtype (`framework.Framework`)."""

    def __init__(self, table: Mapping[str, Lowering], dtype: str) -> None:
        import tensorflow as tf

        self._tf = tf
        self._table = table
        self._kinds = {"float": tf.as_dtype(dtype), "int": tf.int64, "bool": tf.bool}

    def lowering(self, op: str) -> Lowering | None:
        return self._table.get(op)

    def constant(self, value: bool | int | float, kind: str) -> Any:
        return self._tf.constant(value, dtype=self._kinds[kind])

    def cast(self, array: Any, kind: str) -> Any:
        return self._tf.cast(array, self._kinds[kind])

    def array(self, values: Array) -> Any:
        values = np.asarray(values)
        if values.dtype.kind != "f":
            return self._tf.constant(values)
        return self._tf.constant(values.astype(self._kinds["float"].as_numpy_dtype))

    def leaf(self, values: Array) -> Any:
        return self.array(values)

    def numpy(self, array: Any) -> Array:
        plain: Array = array.numpy()
        return np.asarray(plain if plain.dtype.kind in "biu" else plain.astype(np.float64))

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype.name)

    @contextmanager
    def tape(self, sources: Sequence[Any]) -> Iterator[tuple[_Tape, list[Any]]]:
        with self._tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(list(sources))
            yield _Tape(self._tf, tape), list(sources)

    @contextmanager
    def tangent(self, primal: Any, tangent: Any) -> Iterator[tuple[Any, Pushed]]:
        with self._tf.autodiff.ForwardAccumulator(primal, tangent) as accumulator:
            yield primal, accumulator.jvp

    def inner(self, a: Any, b: Any) -> Any:
        return self._tf.reduce_sum(a * b)

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        return parameter - rate * gradient

    def custom(self, rule: Rule) -> Lowering:
        def stated(*args: Any) -> tuple[Any, Callable[[Any], list[Any]]]:
            return rule.value(*args), lambda upstream: rule.pull(upstream, args)

        stated.__name__ = rule.name
        made: Lowering = self._tf.custom_gradient(stated)
        return made


class _Tape:
    """A persistent GradientTape."""

    def __init__(self, tf: Any, tape: Any) -> None:
        self._tf = tf
        self._tape = tape

    def gradient(
        self, target: Any, sources: Sequence[Any], cotangent: Any, again: bool
    ) -> list[Any]:
        # An enclosing tape or accumulator records this by itself, so `again` asks for nothing more.
        grads = self._tape.gradient(target, list(sources), output_gradients=cotangent)
        # Indexing may give IndexedSlices, which are a gradient in another notation.
        return [None if grad is None else self._tf.convert_to_tensor(grad) for grad in grads]


def _table(tf: Any) -> dict[str, Lowering]:
    """The op table in TensorFlow's own words: what a user would call."""

    def matmul(x: Any, y: Any) -> Any:
        """tf.matmul takes matrices only; a vector becomes one and its axis goes again."""
        left, right = x.shape.rank == 1, y.shape.rank == 1
        x = tf.expand_dims(x, 0) if left else x
        y = tf.expand_dims(y, -1) if right else y
        z = tf.matmul(x, y)
        axes = ([-2] if left else []) + ([-1] if right else [])
        return tf.squeeze(z, axis=axes) if axes else z

    def clip(x: Any, min: Any = None, max: Any = None) -> Any:
        if min is not None and max is not None:
            return tf.clip_by_value(x, min, max)
        x = x if min is None else tf.maximum(x, min)
        return x if max is None else tf.minimum(x, max)

    def expand_dims(x: Any, axis: Any) -> Any:
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        rank = x.shape.rank + len(axes)
        for a in sorted(a % rank for a in axes):
            x = tf.expand_dims(x, a)
        return x

    def shape_of(shape: Any) -> Any:
        return (shape,) if isinstance(shape, int) else shape

    def reduction(call: Callable[..., Any]) -> Lowering:
        return lambda x, axis=None, keepdims=False: call(x, axis=axis, keepdims=keepdims)

    def logsumexp(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
        return tf.reduce_logsumexp(x, axis=axis, keepdims=keepdims)

    return {
        **OPERATORS,
        "matmul": matmul,
        "exp": tf.exp,
        "log": tf.math.log,
        "log1p": tf.math.log1p,
        "expm1": tf.math.expm1,
        "sqrt": tf.sqrt,
        "square": tf.square,
        "sin": tf.sin,
        "cos": tf.cos,
        "tan": tf.tan,
        "tanh": tf.tanh,
        "sigmoid": tf.sigmoid,
        "softplus": tf.nn.softplus,
        "relu": tf.nn.relu,
        "erf": tf.math.erf,
        "abs": tf.abs,
        "maximum": tf.maximum,
        "minimum": tf.minimum,
        "where": tf.where,
        "clip": clip,
        "sum": reduction(tf.reduce_sum),
        "mean": reduction(tf.reduce_mean),
        "max": reduction(tf.reduce_max),
        "min": reduction(tf.reduce_min),
        "prod": reduction(tf.reduce_prod),
        "logsumexp": logsumexp,
        "softmax": lambda x, axis=-1: tf.nn.softmax(x, axis=axis),
        "log_softmax": lambda x, axis=-1: tf.nn.log_softmax(x, axis=axis),
        "norm": reduction(tf.norm),
        "reshape": lambda x, shape: tf.reshape(x, shape_of(shape)),
        "transpose": lambda x, axes=None: tf.transpose(x, perm=axes),
        "broadcast_to": lambda x, shape: tf.broadcast_to(x, shape_of(shape)),
        "expand_dims": expand_dims,
        "squeeze": lambda x, axis=None: tf.squeeze(x, axis=axis),
        "concatenate": lambda *xs, axis=0: tf.concat(xs, axis=axis),
        "stack": lambda *xs, axis=0: tf.stack(xs, axis=axis),
        "getitem": lambda x, index: x[index],
        "stop_gradient": tf.stop_gradient,
        "logical_and": tf.logical_and,
        "logical_or": tf.logical_or,
        "logical_not": tf.logical_not,
    }
