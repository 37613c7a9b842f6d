"""A layer's value from a graph: many evaluations without Python between the operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.tensorflow.state import Constant

if TYPE_CHECKING:
    from gradcheck_cli.engines.tensorflow.layer import TensorFlowSubject

EAGER = 16  # evaluations that cost less than tracing a small layer (some 20 ms) does


class Graph:
    """The subject's function as one tf.function over all that it computes with.

    Traced after some evaluations, and used only if it gives the same bits as the layer itself:
    a graph may fuse operations. Layers that draw random numbers, or that cannot be traced, stay as
    they are.
    """

    def __init__(self, tf: Any) -> None:
        self._tf = tf
        self._asked = 0
        self.traced: Any = None
        self._given_up = False

    def value(self, subject: TensorFlowSubject, values: Mapping[str, Array]) -> Array | None:
        """The flattened outputs, or None where the layer itself has to be asked."""
        if self._given_up:
            return None
        if self.traced is None:
            self._asked += 1
            if self._asked <= EAGER:
                return None
            self._given_up = not self._trace(subject, values)
            return None
        if any(isinstance(subject.held.get(name), Constant) for name in values):
            return None  # a graph has it for good
        return self._run(subject, values)

    def _trace(self, subject: TensorFlowSubject, values: Mapping[str, Array]) -> bool:
        tf = self._tf
        names = list(subject.given)
        if subject.random:
            return False

        def flat(*tensors: Any) -> Any:
            arrays = subject.called(dict(zip(names, tensors, strict=True)))
            parts = [tf.reshape(tf.cast(array, tf.float64), [-1]) for _, array in arrays]
            return tf.concat(parts, axis=0)

        specs = [tf.TensorSpec(t.shape, t.dtype) for t in subject.given.values()]
        try:
            with subject.ready({}):
                function = tf.function(flat, autograph=False)
                self.traced = function.get_concrete_function(*specs)
            return all(
                np.array_equal(self._run(subject, at), subject.eagerly(at), equal_nan=True)
                for at in (values, {})
            )
        except Exception:  # branches on numbers, NumPy in between: the layer runs as it is
            return False

    def _run(self, subject: TensorFlowSubject, values: Mapping[str, Array]) -> Array:
        with subject.assigned(values):
            inputs = [
                base if name not in values else subject.tensor(values[name])
                for name, base in subject.given.items()
            ]
            result: Array = self.traced(*inputs).numpy()
        return result
