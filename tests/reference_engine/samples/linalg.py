"""Samples of ops/linalg.py."""

from tests.reference_engine.samples.drawing import REAL, Sample


def _matmul() -> list[Sample]:
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((2, 3), (3, 4)),
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (4, 3, 2)),
        ((3,), (2, 3, 2)),
        ((2, 2, 3), (3,)),
        ((1, 1), (1, 1)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 2)),
    )
    return [Sample((REAL, REAL), pair) for pair in shapes]


ROWS: dict[str, list[Sample]] = {
    "matmul": _matmul(),
}
