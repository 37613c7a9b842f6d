"""Samples of ops/exponential.py."""

from tests.reference_engine.samples.drawing import ABOVE_MINUS_ONE, POSITIVE, REAL, Sample, unary

ROWS: dict[str, list[Sample]] = {
    "exp": unary(REAL),
    "expm1": unary(REAL),
    "log": unary(POSITIVE),
    "log1p": unary(ABOVE_MINUS_ONE),
    "tanh": unary(REAL),
    "sigmoid": unary(REAL),
    "softplus": unary(REAL),
    "erf": unary(REAL),
    "logistic_density": unary(REAL),
}
