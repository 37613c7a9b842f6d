"""What the engines computed, as text."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck_cli.domain.report import Reading, SpecResult, TrainingResult
from gradcheck_cli.report.numbers import shortest

SHOWN_NUMBERS = 6  # of one array on a line for a passing spec
SHOWN_POINTS = 3
UNNAMED = "output"  # what a result's output is called where the formula gives it no name
_WIDEST_FIRST = ("float64", "float32", "float16", "bfloat16")


def nested(value: object, dtype: str, dots: str, limit: int | None = None) -> str:
    """A number or nested list as text; of more than `limit` numbers the first few."""
    if limit is not None and count(value) > limit:
        first = ", ".join(shortest(number, dtype) for number in list(_flat(value))[:2])
        return f"[{first}, {dots} {count(value)} numbers]"
    return _text(value, dtype)


def _text(value: object, dtype: str) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(part, dtype) for part in value)}]"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return shortest(float(value), dtype)
    return "none"


def count(value: object) -> int:
    """How many numbers a nested list holds."""
    return sum(count(part) for part in value) if isinstance(value, list | tuple) else 1


def _flat(value: object) -> Iterable[float]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, int | float):
        yield float(value)


def depth(value: object) -> int:
    """The number of axes of a nested list."""
    levels = 0
    while isinstance(value, list | tuple):
        levels += 1
        value = value[0] if value else None
    return levels


def shown_readings(result: SpecResult) -> list[Reading]:
    """One engine's readings in the widest dtype, one a point: it stands for all where all pass."""
    if not result.readings:
        return []

    def order(reading: Reading) -> tuple[int, int, int]:
        return (
            _WIDEST_FIRST.index(reading.dtype) if reading.dtype in _WIDEST_FIRST else 9,
            reading.engine != "reference",
            reading.mode != "reverse",
        )

    best = min(result.readings, key=order)
    return [
        reading
        for reading in result.readings
        if (reading.engine, reading.dtype, reading.mode) == (best.engine, best.dtype, best.mode)
    ]


def reading_text(reading: Reading, output_name: str, dots: str, limit: int | None) -> str:
    """`z = 11, dz/dx = 8`; with a point in front where the spec has points."""
    named = output_name != UNNAMED
    value, numerator = (output_name, f"d{output_name}") if named else ("value", "d")
    parts = [f"{value} = {nested(reading.output, reading.dtype, dots, limit)}"]
    for name, gradient in reading.gradients.items():
        parts.append(f"{numerator}/d{name} = {nested(gradient, reading.dtype, dots, limit)}")
    point = "" if reading.point is None else f"points[{reading.point}]: "
    return point + ", ".join(parts)


def training_text(training: TrainingResult, dots: str, limit: int | None) -> str:
    """`after 100 steps: w = ..., b = ..., loss = ...`, to the last digit."""
    parts = [
        f"{name} = {nested(value, training.dtype, dots, limit)}"
        for name, value in training.parameters.items()
    ]
    parts.append(f"loss = {shortest(training.loss, training.dtype)}")
    return f"after {training.steps} steps: {', '.join(parts)}"


def shown_trainings(result: SpecResult) -> list[TrainingResult]:
    """The final parameters in the widest dtype, once where the engines agree to the last digit."""
    found = [
        training
        for dtype in _WIDEST_FIRST
        for training in result.trainings
        if training.dtype == dtype
    ]
    widest = [training for training in found if training.dtype == found[0].dtype]
    seen: dict[str, TrainingResult] = {}
    for training in widest:
        seen.setdefault(repr((training.loss, dict(training.parameters))), training)
    return list(seen.values())
