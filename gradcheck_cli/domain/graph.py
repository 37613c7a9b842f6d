"""The computation graph of a program, with the numbers of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class Graph:
    """A program with the numbers of one run. `values` has the result of each node of `program` by
    its index, `derivatives` its cotangent (reverse mode) or tangent (forward mode); a node without
    one is absent.

    The cotangents belong to element `row` of the flattened output (None: to the sum of all), the
    tangents to element `column` of `input`. `lifted` is the engine of the lifted layer, if the
    program does not come from a spec.
    """

    program: Program
    engine: str = ""  # empty: nothing was run, and there are no numbers
    dtype: str = ""
    mode: str = ""
    point: int | None = None
    row: int | None = 0
    input: str | None = None
    column: int = 0
    values: Mapping[int, Array] = field(default_factory=dict)
    derivatives: Mapping[int, Array] = field(default_factory=dict)
    lifted: str = ""
