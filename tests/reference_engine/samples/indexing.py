"""Samples of ops/indexing.py."""

import numpy as np

from tests.reference_engine.samples.drawing import REAL, Sample, one

ROWS: dict[str, list[Sample]] = {
    "getitem": [
        one(REAL, 4, index=(1,)),
        one(REAL, 4, index=(-1,)),
        one(REAL, 4, index=(slice(None, None, -2),)),
        one(REAL, 3, 4, index=(slice(1, None), None, 2)),
        one(REAL, 2, 3, 4, index=(..., 1)),
        one(REAL, 4, index=(np.array([0, 2, 0]),)),
        one(REAL, 4, index=(np.array([True, False, True, True]),)),
        one(REAL, 4, index=(slice(2, 2),)),
        one(REAL, index=()),
    ],
    "scatter": [
        one(REAL, 2, shape=(4,), index=(slice(1, 3),)),
        one(REAL, shape=(3, 2), index=(1, 0)),
        one(REAL, 3, shape=(4,), index=(np.array([0, 2, 0]),)),
    ],
    "concatenate": [
        Sample((REAL, REAL), ((2,), (3,))),
        Sample((REAL, REAL, REAL), ((2, 1), (2, 2), (2, 0)), {"axis": -1}),
        Sample((REAL,), ((3,),)),
    ],
    "stack": [
        Sample((REAL, REAL), ((3,), (3,))),
        Sample((REAL, REAL), ((), ())),
        Sample((REAL, REAL, REAL), ((2, 3), (2, 3), (2, 3)), {"axis": -1}),
    ],
}
