"""What the engines computed, as text."""

from __future__ import annotations

from gradcheck_cli.domain.decimals import nested, shortest
from gradcheck_cli.domain.report import Reading, TrainingResult

UNNAMED = "output"  # what a result's output is called where the formula gives it no name


def depth(value: object) -> int:
    """The number of axes of a nested list."""
    levels = 0
    while isinstance(value, list | tuple):
        levels += 1
        value = value[0] if value else None
    return levels


def reading_text(reading: Reading, output_name: str) -> str:
    """`z = 11, dz/dx = 8`; with a point in front where the spec has points."""
    named = output_name != UNNAMED
    value, numerator = (output_name, f"d{output_name}") if named else ("value", "d")
    parts = [f"{value} = {nested(reading.output, reading.dtype)}"]
    for name, gradient in reading.gradients.items():
        parts.append(f"{numerator}/d{name} = {nested(gradient, reading.dtype)}")
    point = "" if reading.point is None else f"points[{reading.point}]: "
    return point + ", ".join(parts)


def training_text(training: TrainingResult) -> str:
    """`after 100 steps: w = ..., b = ..., loss = ...`, to the last digit."""
    parts = [
        f"{name} = {nested(value, training.dtype)}" for name, value in training.parameters.items()
    ]
    parts.append(f"loss = {shortest(training.loss, training.dtype)}")
    return f"after {training.steps} steps: {', '.join(parts)}"
