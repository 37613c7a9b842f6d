"""Samples of ops/neural.py."""

from tests.reference_engine.samples.drawing import REAL, Sample, along_axis, one, reduction

ROWS: dict[str, list[Sample]] = {
    "softmax": along_axis(REAL),
    "log_softmax": along_axis(REAL),
    "logsumexp": [*along_axis(REAL), *reduction(REAL, empty=False)[3:], one(REAL, 2, 2, axis=None)],
}
