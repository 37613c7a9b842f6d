"""A layer's value from a graph, for many evaluations without Python between the operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.engines.temporarily import temporarily

EAGER = 16  # evaluations that cost less than tracing a small layer (some 20 ms)


class Graph:
    """A layer as one tf.function of all its inputs. `given` are the inputs (None for a large one,
    beside which the time of Python between the operations is negligible: such a layer runs
    eagerly), `call` runs the layer with inputs by name, `plain_value` returns its value without a
    graph, and `assigned` gives variables other values.

    The layer is traced after some evaluations. The graph is used only if its results are equal to
    the layer's in every bit, because a graph may fuse operations. A layer that cannot be traced
    runs eagerly. A layer that draws random numbers must have no graph.
    """

    def __init__(
        self,
        tf: Any,
        given: Mapping[str, Any],
        call: Callable[[Mapping[str, Any]], list[Any]],
        plain_value: Callable[[Values], Array],
        ready: Callable[[Values], AbstractContextManager[None]],
        assigned: Callable[[Values], AbstractContextManager[None]],
    ) -> None:
        self._tf = tf
        self._given = given
        self._call = call
        self._plain_value = plain_value
        self._ready = ready
        self._assigned = assigned
        self._asked = 0
        self.traced: Any = None
        self._given_up = any(one is None for one in given.values())

    def value(self, values: Values) -> Array | None:
        """The flattened outputs, or None if the layer itself must run."""
        if self._given_up:
            return None
        if self.traced is None:
            self._asked += 1
            if self._asked > EAGER:
                self._given_up = not self._trace(values)
            return None
        return self._run(values)

    def _trace(self, values: Values) -> bool:
        tf = self._tf

        def flat(*tensors: Any) -> Any:
            arrays = self._call(dict(zip(self._given, tensors, strict=True)))
            parts = [tf.reshape(tf.cast(array, tf.float64), [-1]) for array in arrays]
            return tf.concat(parts, axis=0)

        specs = [tf.TensorSpec(t.shape, t.dtype) for t in self._given.values()]
        try:
            with self._ready({}):
                function = tf.function(flat, autograph=False)
                self.traced = function.get_concrete_function(*specs)
            return all(
                np.array_equal(self._run(at), self._plain_value(at), equal_nan=True)
                for at in (values, {})
            )
        except Exception:  # the layer branches on numbers or uses NumPy: it runs eagerly
            return False

    def _run(self, values: Values) -> Array:
        tf = self._tf
        with self._assigned(values):
            inputs = [
                tf.cast(tf.constant(values[name]), base.dtype) if name in values else base
                for name, base in self._given.items()
            ]
            result: Array = self.traced(*inputs).numpy()
        return result


@contextmanager
def eagerly(tf: Any) -> Iterator[None]:
    """Run tf.functions eagerly inside the block: a traced function refers to the user's variables,
    which may be replaced."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


@contextmanager
def maps_unrolled(tf: Any) -> Iterator[None]:
    """Run tf.vectorized_map operation by operation inside the block, with its function called once
    for each element. Otherwise it compiles the function, even in eager mode, and hides its
    operations."""
    from tensorflow.python.ops.parallel_for import control_flow_ops

    vectorized = control_flow_ops.pfor

    def mapped(body: Callable[[Any], Any], count: Any, **how: Any) -> Any:
        if not body.__qualname__.startswith("vectorized_map."):  # a Jacobian has one tape
            return vectorized(body, count, **how)
        results = [body(tf.constant(i)) for i in range(int(count))]
        return tf.nest.map_structure(lambda *parts: tf.stack(parts), *results)

    with temporarily(control_flow_ops, pfor=mapped):
        yield
