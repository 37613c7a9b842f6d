"""One row of the op table as a program, about which engines and the judge are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation, Mode, Problem, Projection
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import INPUT, Node, Program
from gradcheck_cli.formula.shapes import wanted_kinds
from reference_engine.op import TABLE, Op, Point
from tests.conftest import KINDS, loaded

SPAN = Span(1, 1, 1, 2)


def program_of_row(name: str, arrays: Sequence[Array], keywords: Mapping[str, Any]) -> Program:
    """A program of one call; its inputs are x0, x1, ..."""
    row = TABLE[name]
    kinds = [KINDS[a.dtype.kind] for a in arrays]
    inputs = [
        Node(INPUT, (), {}, SPAN, f"x{k}", name=f"x{k}", shape=a.shape, kind=kind)
        for k, (a, kind) in enumerate(zip(arrays, kinds, strict=True))
    ]
    complete = {**row.keywords, **keywords}
    with np.errstate(all="ignore"):
        value = row.value(*arrays, **keywords)
    kind = KINDS[value.dtype.kind]
    call = Node(
        name,
        tuple(range(len(arrays))),
        complete,
        SPAN,
        name,
        shape=value.shape,
        kind=kind,
        wants=wanted_kinds(row, kinds, kind),
    )
    places = {f"x{k}": k for k in range(len(arrays))}
    return Program((*inputs, call), places, (len(arrays),), name)


def floats_of(arrays: Sequence[Array]) -> tuple[str, ...]:
    """The inputs that are differentiated."""
    return tuple(f"x{k}" for k, a in enumerate(arrays) if a.dtype.kind == "f")


def answer(
    engine: str,
    name: str,
    arrays: Sequence[Array],
    keywords: Mapping[str, Any],
    *,
    mode: Mode = "reverse",
    dtype: str = "float64",
    rounding: str | None = None,
    projection: Projection | None = None,
) -> Evaluation:
    """The evaluation of a row by an engine at these arrays, rounded to `rounding` (default:
    `dtype`): the whole Jacobian, or the requested part of it."""
    fmt = FORMATS[rounding or dtype]
    rounded = [fmt.round(a) if a.dtype.kind == "f" else a for a in arrays]
    values = {f"x{k}": np.asarray(a) for k, a in enumerate(rounded)}
    program = program_of_row(name, arrays, keywords)
    problem = Problem(
        program, values, floats_of(arrays), dtype, fmt.name, mode, projection or Projection()
    )
    return loaded(engine).evaluate(problem)


def combined(
    name: str, arrays: Sequence[Array], keywords: Mapping[str, Any], seed: int
) -> Projection:
    """A random combination of the rows of the Jacobian, or of its columns. A wrong entry shows in
    either. All rows and columns if there are none."""
    rng = np.random.default_rng(seed)
    shape = TABLE[name].value(*arrays, **keywords).shape
    if 0 in shape:
        return Projection()
    columns = {f"x{k}": rng.uniform(0.5, 1.5, (1, *a.shape)) for k, a in enumerate(arrays)}
    return Projection(rows=rng.uniform(0.5, 1.5, (1, *shape)), columns=columns)


def point_arrays(row: Op, point: Point) -> list[Array]:
    """The arguments of a point's example, floating if the row takes numbers."""
    return [
        np.asarray(value) if i in row.kinds else np.asarray(value, np.float64)
        for i, value in enumerate(point.at)
    ]
