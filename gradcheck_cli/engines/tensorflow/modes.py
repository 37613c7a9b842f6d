"""Forward mode and second derivatives of layers of TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.tensorflow.custom_calls import forward_mode
from gradcheck_cli.engines.tensorflow.passes import taping
from gradcheck_cli.engines.tensorflow.state import numbers

if TYPE_CHECKING:
    from gradcheck_cli.engines.tensorflow.layer import TensorFlowSubject


def jvp(subject: TensorFlowSubject, tangents: Mapping[str, Array]) -> Array | None:
    """As `subject.Subject` has it, like the next two."""
    tf = subject.tf
    with subject.ready({}), forward_mode():
        inputs = subject.inputs({})
        with _accumulating(subject, inputs, tangents) as accumulator:
            arrays = subject.called(inputs)
        pushed = [accumulator.jvp(array) for _, array in arrays]
        if pushed and all(part is None for part in pushed):
            return None
        return np.concatenate(
            [np.zeros(0)]
            + [
                np.zeros(output.size) if flat is None else flat
                for output, part in zip(subject.outputs, pushed, strict=True)
                for flat in (_dense(tf, part),)
            ]
        )


def hvp_reverse_over_reverse(
    subject: TensorFlowSubject, row: Array, tangents: Mapping[str, Array]
) -> dict[str, Array | None]:
    tf = subject.tf
    wrt = subject.moving()
    with subject.ready({}):
        inputs = subject.inputs({})
        sources = [subject.source(name, inputs) for name in wrt]
        with taping(tf, 1, True) as outer:
            outer.watch(sources)
            with taping(tf, 1, True) as inner:
                inner.watch(sources)
                arrays = subject.called(inputs)
            first = subject.pulled(inner, arrays, row, sources, wrt)
            along = [
                tf.reduce_sum(grad * tf.cast(tf.constant(tangents[name]), grad.dtype))
                for name, grad in zip(wrt, first, strict=True)
                if grad is not None and name in tangents
            ]
        if not along:
            return dict.fromkeys(wrt)
        second = outer.gradient(along, sources)
        return {name: _dense(tf, grad) for name, grad in zip(wrt, second, strict=True)}


def hvp_forward_over_reverse(
    subject: TensorFlowSubject, row: Array, tangents: Mapping[str, Array]
) -> dict[str, Array | None]:
    tf = subject.tf
    wrt = subject.moving()
    with subject.ready({}), forward_mode():
        inputs = subject.inputs({})
        sources = [subject.source(name, inputs) for name in wrt]
        with _accumulating(subject, inputs, tangents) as accumulator:
            with taping(tf, 1, True) as tape:
                tape.watch(sources)
                arrays = subject.called(inputs)
            first = subject.pulled(tape, arrays, row, sources, wrt)
        second = [None if grad is None else accumulator.jvp(grad) for grad in first]
        return {name: _dense(tf, part) for name, part in zip(wrt, second, strict=True)}


def _accumulating(
    subject: TensorFlowSubject, inputs: Mapping[str, Any], tangents: Mapping[str, Array]
) -> Any:
    tf = subject.tf
    primals = [subject.source(name, inputs) for name in tangents]
    directions = [
        tf.cast(tf.constant(tangent), primal.dtype)
        for primal, tangent in zip(primals, tangents.values(), strict=True)
    ]
    return tf.autodiff.ForwardAccumulator(primals, directions)


def _dense(tf: Any, part: Any) -> Array | None:
    """Flat numbers. What was gathered has IndexedSlices, which are a tensor in another notation."""
    return None if part is None else numbers(tf.convert_to_tensor(part)).reshape(-1)
