"""Samples of ops/trigonometric.py."""

from tests.reference_engine.samples.drawing import BETWEEN_POLES_OF_TAN, REAL, Sample, unary

ROWS: dict[str, list[Sample]] = {
    "sin": unary(REAL),
    "cos": unary(REAL),
    "tan": unary(BETWEEN_POLES_OF_TAN),
}
