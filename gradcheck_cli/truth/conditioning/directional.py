"""Derivatives of blocks of derivatives: along a direction of the inputs (one more derivative), and
when factorised matrices move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.draws import signs
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import SECOND, Mode
from gradcheck_cli.truth.conditioning.tape import run_nodes
from gradcheck_cli.truth.gradients import block_shapes
from gradcheck_cli.truth.plain import inlined

OUTPUT = "output"
Seen = Callable[[Any], Array]  # picks the requested part of a result


class Derivatives:
    """The blocks of a request's program in float64, as functions of every floating input that is
    not exact. `lines` are the rows (reverse mode) or columns of all blocks (forward mode) to
    compute (None: all); the others are nan."""

    def __init__(self, request: TruthRequest, lines: frozenset[int] | None = None) -> None:
        self._request = request
        self._lines = lines
        self._program = inlined(request.program)
        self._shape = request.program.result.shape
        values = {name: np.asarray(value) for name, value in request.values.items()}
        exact = request.exact
        self.names = [n for n, x in values.items() if x.dtype.kind == "f" and n not in exact]
        self.xs = [values[name].astype(np.float64) for name in self.names]
        self._sizes = {name: values[name].size for name in request.wrt}

    def along(self, mode: Mode | None, direction: Mapping[str, Array]) -> dict[str, Array]:
        """The derivative of every block along `direction`, floating input -> array of its shape;
        (rows, columns) each. Without a mode, the derivative of the flattened output, (1, m)."""
        from reference_engine.dual import Dual
        from reference_engine.traced import new_level, to_array

        level = new_level()
        x_dots = [np.asarray(direction[name], np.float64) for name in self.names]
        duals = [Dual(level, x, x_dot) for x, x_dot in zip(self.xs, x_dots, strict=True)]

        def seen(x: Any) -> Array:
            own = isinstance(x, Dual) and x.level == level
            return np.asarray(to_array(x.tangent)) if own else np.zeros(np.shape(x))

        return self._blocks(mode, duals, seen)

    def randomly_perturbed(
        self, mode: Mode | None, part: float, rng: np.random.Generator
    ) -> dict[str, Array]:
        """Every block with each input moved by `part` of itself, at random up or down."""
        xs = [x * (1 + part * signs(rng, x.shape)) for x in self.xs]
        return self._blocks(mode, xs, np.asarray)

    def perturbed(
        self, mode: Mode | None, part: float, rng: np.random.Generator
    ) -> dict[str, Array]:
        """Every block with each factorised matrix moved by `part` of its norm."""
        from reference_engine.arithmetic.perturbed import Perturbed

        def seen(found: Any) -> Array:
            return found.value if isinstance(found, Perturbed) else np.asarray(found)

        return self._blocks(mode, [Perturbed(x, part, rng) for x in self.xs], seen)

    def factorises(self) -> bool:
        """Check whether some operation is a backward stable algorithm on matrices."""
        from reference_engine.traced import ROWS

        rows = (ROWS.get(node.op) for node in self._program.nodes)
        return any(row is not None and row.rounding == "inputs" for row in rows)

    def _blocks(self, mode: Mode | None, xs: Sequence[Any], seen: Seen) -> dict[str, Array]:
        """The blocks at the inputs `xs`, numbers of any kind, each passed through `seen`."""
        import reference_engine as re

        if mode is None:
            return {OUTPUT: seen(self._output(*xs)).reshape(1, -1)}
        if mode == "reverse":
            _, pull = re.vjp(self._output, *xs)
            nothing = np.full(sum(self._sizes.values()), np.nan)
            rows = [
                seen(self._flat(pull(cotangent))) if self._is_wanted(row) else nothing
                for row, cotangent in enumerate(self._cotangents(mode))
            ]
            return self._split(np.stack(rows), 1)
        shapes = block_shapes(self._request, mode)
        gradient = partial(self._gradient, mode)
        columns: dict[str, list[Array]] = {name: [] for name in shapes}
        for column_number, (name, tangents) in enumerate(self._tangents(mode)):
            if mode == "forward":
                if not self._is_wanted(column_number):
                    columns[name].append(np.full(int(np.prod(self._shape)), np.nan))
                    continue
                y_dot = re.jvp(self._output, xs, tangents)[1]
                columns[name].append(seen(y_dot).reshape(-1))
                continue
            column = seen(re.jvp(gradient, xs, tangents)[1])
            for first, part in self._split(column, 0).items():
                if (block := str(HessianBlock(first, name))) not in columns:
                    continue
                along = (self._request.projections[mode].firsts or {}).get(first)
                found = part if along is None else along.reshape(len(along), -1) @ part
                columns[block].append(found)
        return {
            name: np.stack(found, axis=1) if found else np.zeros(shapes[name])
            for name, found in columns.items()
        }

    def _is_wanted(self, line: int) -> bool:
        return self._lines is None or line in self._lines

    def _output(self, *xs: Any) -> Any:
        values = {**self._request.values, **dict(zip(self.names, xs, strict=True))}
        return run_nodes(self._program, values, self._request.dtype)[self._program.output]

    def _gradient(self, mode: Mode, *xs: Any) -> Any:
        """The flattened gradient of the scalar whose second derivatives are requested."""
        import reference_engine as re

        _, pull = re.vjp(self._output, *xs)
        return self._flat(pull(self._cotangents(mode)[0]))

    def _flat(self, x_bars: Sequence[Any]) -> Any:
        import reference_engine as re

        parts = ((self.names.index(name), size) for name, size in self._sizes.items())
        return re.concatenate([re.reshape(x_bars[i], shape=(size,)) for i, size in parts])

    def _split(self, array: Array, axis: int) -> dict[str, Array]:
        """By input of `wrt`, its part of an array that is flattened along `axis`."""
        parts = np.split(array, np.cumsum(list(self._sizes.values()))[:-1], axis=axis)
        return dict(zip(self._sizes, parts, strict=True))

    def _cotangents(self, mode: Mode) -> Array:
        projection = self._request.projections[mode]
        if projection.rows is None and mode in SECOND:
            return np.ones((1, *self._shape))
        return projection.cotangents(self._shape)

    def _tangents(self, mode: Mode) -> Iterator[tuple[str, list[Array]]]:
        """Yield the input that moves, with a tangent for every floating input."""
        projection = self._request.projections[mode]
        still = {name: np.zeros(x.shape) for name, x in zip(self.names, self.xs, strict=True)}
        for name in self._request.wrt:
            for there in projection.tangents(name, still[name].shape):
                yield name, list({**still, name: there}.values())
