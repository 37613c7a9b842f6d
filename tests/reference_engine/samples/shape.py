"""Samples of ops/shape.py."""

from tests.reference_engine.samples.drawing import REAL, Sample, one

ROWS: dict[str, list[Sample]] = {
    "reshape": [
        one(REAL, 2, 3, shape=(3, 2)),
        one(REAL, 2, 3, shape=(-1,)),
        one(REAL, 1, shape=()),
        one(REAL, shape=(1, 1)),
        one(REAL, 0, 2, shape=(0,)),
    ],
    "expand_dims": [one(REAL, 3, axis=0), one(REAL, 2, 3, axis=-1), one(REAL, axis=0)],
    "squeeze": [one(REAL, 1, 3, 1), one(REAL, 1, 3, 1, axis=0), one(REAL, 1, axis=-1)],
    "transpose": [
        one(REAL, 2, 3),
        one(REAL, 2, 3, 4, axes=(2, 0, 1)),
        one(REAL, 2, 3, 4, axes=(-1, 0, -2)),
        one(REAL),
        one(REAL, 0, 2),
    ],
    "broadcast_to": [
        one(REAL, 3, shape=(2, 3)),
        one(REAL, 2, 1, shape=(2, 3)),
        one(REAL, shape=(2, 2)),
        one(REAL, 1, shape=(0,)),
        one(REAL, 2, shape=(2,)),
    ],
}
