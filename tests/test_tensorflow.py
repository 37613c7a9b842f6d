"""The drop-in for tf.test.compute_gradient."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from gradcheck_cli.tensorflow import compute_gradient


@tf.custom_gradient
def nearly(x):
    return 2 * x, lambda upstream: 2.002 * upstream


def test_the_numbers_are_those_of_tensorflow_and_the_verdict_is_ours() -> None:
    x = [[0.5, -1.25], 2.0]
    pair = compute_gradient(lambda a, b: tf.sin(a) * b, x)
    theirs = tf.test.compute_gradient(lambda a, b: tf.sin(a) * b, x)
    theoretical, numerical = pair
    for mine, other in zip((*theoretical, *numerical), (*theirs[0], *theirs[1]), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert pair.passed
    assert {check.dtype for check in pair.report.result.checks} == {"float32"}


def test_a_wrong_gradient_fails_however_near_it_is() -> None:
    pair = compute_gradient(nearly, [tf.constant([0.5, -1.25], tf.float64)], delta=1e-3)
    np.testing.assert_allclose(*pair, rtol=1e-2)
    assert not pair.passed
    assert {finding.code for finding in pair.report.findings} == {"GC101"}


def test_complex_arguments_are_checked_in_their_dtype() -> None:
    pair = compute_gradient(nearly, [tf.constant([0.5 - 1j])])
    assert not pair.passed
    assert {finding.dtype for finding in pair.report.findings} == {"complex128"}
