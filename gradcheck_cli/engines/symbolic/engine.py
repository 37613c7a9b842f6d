"""Computer algebra: a program and its derivative as formulas, both evaluated exactly.

A formula has no dtype. The dtype of this engine only concerns the numbers that go in and come out:
inputs and constants have the dtype, as for any engine, and results are rounded to it once, at the
end. Nothing is rounded in between, so no finding of this engine is about rounding.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np

from gradcheck_cli.domain.blocks import hessian_blocks
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.evaluation import (
    FIRST_ORDER,
    Gradient,
    Mode,
    Problem,
    TrainingProblem,
    modes_in,
)
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.adapter import AnsweringEngine
from gradcheck_cli.engines.kit.lowerings import Table, bound, had, reasons
from gradcheck_cli.engines.kit.modes import Answer
from gradcheck_cli.engines.kit.walker import custom_gradients, round_constant, rounded
from gradcheck_cli.engines.symbolic.custom_gradients import written_out
from gradcheck_cli.engines.symbolic.formulas import OutOfTime, exact, time_limit
from gradcheck_cli.engines.symbolic.notation import NOTATIONS

Made = TypeVar("Made")

_LARGEST = 4096  # entries of a Jacobian or a Hessian
# For the formulas of one program. The examples take milliseconds. Nested conditions may take SymPy
# for ever, and a task usually has a minute.
_PATIENCE_S = 20.0

_LIMIT_S = 2.0  # for both sides of one entry; SymPy may search for a limit for ever
_NEAR = 2.0**-60  # the distance of a point on either side; numbers of a spec are farther apart
_LONGEST = 60  # characters of a formula in a sentence


class SymbolicEngine(AnsweringEngine):
    """Formulas by SymPy, evaluated as numbers by mpmath."""

    capabilities = Capabilities(
        name="symbolic",
        distributions=("sympy",),
        install="pip install 'gradcheck-cli[symbolic]'",
        by_default=False,
        remark="formulas of small arrays, evaluated by mpmath with as many digits as necessary; "
        "the dtype determines how inputs and results are rounded, and nothing in between is "
        "rounded; where the formula of a derivative has no value, its limit counts, or the mean "
        "of both one-sided limits",
    )

    def __init__(self) -> None:
        self._derived: dict[tuple[Any, ...], _Derived] = {}
        self._endless: set[tuple[Any, ...]] = set()  # programs

    def load(self) -> str:
        import sympy

        self._calls = bound(self._table(), sympy)
        return str(sympy.__version__)

    def operations(self) -> frozenset[str]:
        return had(self._table())

    def remarks(self) -> Mapping[str, str]:
        return reasons(self._table())

    def _table(self) -> Table:
        from gradcheck_cli.engines.symbolic.ops import TABLE  # many small modules

        return TABLE

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """Why forward mode is impossible, or None. A formula has one derivative, and a custom rule
        may have two."""
        for custom in custom_gradients(program):
            if "forward" in modes_in(mode) and custom.jvp is not None:
                return f"formulas take the vjp of `{custom.name}`, not its jvp"
        return None

    def lacks(self, error: BaseException) -> bool:
        return isinstance(error, NotImplementedError)

    def close(self) -> None:
        self._derived.clear()
        self._endless.clear()

    def differentiate(self, problem: Problem, answer: Answer) -> None:
        derived = self._derive(problem.program, problem.values, problem.wrt, problem.rounding)
        format = FORMATS[problem.dtype]
        shape = problem.program.result.shape
        blocks = derived.jacobian
        if problem.mode not in FIRST_ORDER:
            words = "second derivative"
            blocks = self._in_time(
                (*derived.about, words), words, lambda: derived.hessian(problem.projection.rows)
            )
        output, matrices = derived.at(problem.values, blocks)
        answer.output = format.round(_floats(output, shape))
        for name, matrix in matrices.items():
            projected = _projected(matrix, problem, name)
            values = format.round(_floats(projected, np.shape(projected)))
            answer.gradients[name] = Gradient(values, problem.dtype)

    def descend(
        self, problem: TrainingProblem, losses: list[Array], path: dict[str, list[Array]]
    ) -> None:
        format = FORMATS[problem.dtype]
        rate = float(round_constant(float(problem.rate), problem.rounding, False))
        derived = self._derive(
            problem.program, problem.values, problem.parameters, problem.rounding
        )
        values = dict(problem.values)
        for step in range(problem.steps + 1):
            (loss,), matrices = derived.at(values, derived.jacobian)
            losses.append(format.round(_floats([loss], ())))
            for name in problem.parameters:
                path[name].append(values[name])
                if step < problem.steps:
                    grad = _floats(matrices[name], np.shape(values[name]))
                    values[name] = format.round(values[name] - format.round(rate * grad))

    def _derive(
        self, program: Program, values: Values, wrt: Sequence[str], rounding: str
    ) -> _Derived:
        fixed = {k: v for k, v in values.items() if v.dtype.kind in "bi"}
        told = tuple(sorted((name, array.tobytes()) for name, array in fixed.items()))
        program = rounded(program, rounding)
        # By content: every task has its own copy of a program, and SymPy is slow. If rounding
        # changes no constant, dtypes share their formulas.
        about = (pickle.dumps(program), tuple(wrt), told)
        if about not in self._derived:
            self._derived[about] = self._in_time(
                about, "derivative", lambda: _Derived(self._calls, program, fixed, wrt, about)
            )
        return self._derived[about]

    def _in_time(self, about: tuple[Any, ...], what: str, make: Callable[[], Made]) -> Made:
        """The result of `make`. Raises Unsupported if SymPy does not finish in time, and then at
        once whenever asked again."""
        from gradcheck_cli.engines.symbolic.formulas import OutOfTime, can_limit, time_limit

        try:
            if about in self._endless:
                raise OutOfTime
            with time_limit(_PATIENCE_S) if can_limit() else nullcontext():
                return make()
        except OutOfTime:
            self._endless.add(about)
            words = f"SymPy did not finish the formula of the {what} within {_PATIENCE_S:g} s"
            raise Unsupported(words) from None


Blocks = Mapping[str, Sequence[Sequence[Any]]]
"""Matrices of expressions, by the name of an input (or of a block "a.b")."""


class _Derived:
    """A program's formulas and their derivatives, each computed once."""

    def __init__(
        self,
        calls: Mapping[str, Any],
        program: Program,
        fixed: Values,
        wrt: Sequence[str],
        about: tuple[Any, ...],
    ) -> None:
        from gradcheck_cli.engines.symbolic.formulas import exact, walk

        self.about = about
        # A custom gradient may be any function, and its own derivatives need not be symmetric.
        self._symmetric = not program.has_custom_gradient
        arrays = walk(calls, program, fixed, exact)
        self._inputs = {
            name: arrays[index].ravel().tolist()
            for name, index in program.inputs.items()
            if name not in fixed
        }
        self._wrt = tuple(wrt)
        self._output = arrays[program.output].ravel().tolist()
        self._numbers: dict[int, tuple[Blocks, Callable[..., list[Any]]]] = {}
        self._second: dict[bytes, Blocks] = {}
        self.jacobian = self._jacobian()

    def _jacobian(self) -> Blocks:
        """d output / d input, not simplified: more digits in the evaluation have the same
        effect."""
        from gradcheck_cli.engines.symbolic.formulas import derivative

        _check_size(len(self._output) * sum(len(self._inputs[name]) for name in self._wrt))
        return _check_known(
            {
                name: [[derivative(e, x) for x in self._inputs[name]] for e in self._output]
                for name in self._wrt
            }
        )

    def hessian(self, rows: Array | None) -> Blocks:
        """The Hessian of <rows[0], output>, in blocks "a.b"."""
        from gradcheck_cli.engines.symbolic.formulas import exact

        weights = np.ones(len(self._output)) if rows is None else rows[0].ravel()
        key = weights.tobytes()
        if key not in self._second:
            slopes = [
                sum(exact(float(w)) * e for w, e in zip(weights, column, strict=True))
                for name in self._wrt
                for column in zip(*self.jacobian[name], strict=True)
            ]
            self._second[key] = self._curvatures(slopes)
        return self._second[key]

    def _curvatures(self, slopes: Sequence[Any]) -> Blocks:
        """The derivatives of all slopes. Of each symmetric pair, only one is computed."""
        from gradcheck_cli.engines.symbolic.formulas import derivative

        symbols = [symbol for name in self._wrt for symbol in self._inputs[name]]
        _check_size(len(symbols) ** 2)
        curvatures: list[list[Any]] = []
        for i, slope in enumerate(slopes):
            before = [row[i] for row in curvatures] if self._symmetric else []
            curvatures.append([*before, *(derivative(slope, x) for x in symbols[len(before) :])])
        ends = np.cumsum([len(self._inputs[name]) for name in self._wrt]).tolist()
        stretches = {
            n: slice(e - len(self._inputs[n]), e) for n, e in zip(self._wrt, ends, strict=True)
        }
        return _check_known(
            {
                str(block): [
                    row[stretches[block.columns]] for row in curvatures[stretches[block.rows]]
                ]
                for block in hessian_blocks(self._wrt)
            }
        )

    def at(self, values: Values, blocks: Blocks) -> tuple[list[Any], dict[str, list[list[Any]]]]:
        """The output and the blocks as mpmath numbers."""
        from gradcheck_cli.engines.symbolic.custom_gradients import written_out
        from gradcheck_cli.engines.symbolic.numbers import Numbers

        if id(blocks) not in self._numbers:
            flat = [e for rows in blocks.values() for row in rows for e in row]
            symbols = [symbol for names in self._inputs.values() for symbol in names]
            formulas = [written_out(e) for e in (*self._output, *flat)]
            self._numbers[id(blocks)] = blocks, Numbers(symbols, formulas)
        given = [float(v) for name in self._inputs for v in np.ravel(values[name])]
        numbers = iter(self._numbers[id(blocks)][1](given))
        output = [next(numbers) for _ in self._output]
        gradients = {
            key: [[next(numbers) for _ in row] for row in rows] for key, rows in blocks.items()
        }
        self._fill(given, output, blocks, gradients)
        return output, gradients

    def _of(self, key: str, row: int) -> Any:
        """The expression that a row of a block differentiates: one output, or the slopes of all
        outputs."""
        if "." not in key:
            return self._output[row]
        return sum(slopes[row] for slopes in self.jacobian[key.split(".")[0]])

    def _fill(
        self,
        given: Sequence[float],
        output: Sequence[Any],
        blocks: Blocks,
        found: dict[str, list[list[Any]]],
    ) -> None:
        """Replace derivatives whose formula has no value, at a point where the program has one, by
        their limits."""

        symbols = [symbol for names in self._inputs.values() for symbol in names]
        point = dict(zip(symbols, given, strict=True))
        for key, rows in blocks.items():
            mine = self._inputs[key.rsplit(".", 1)[-1]]
            for i, row in enumerate(found[key]):
                of = output if "." in key else output[i : i + 1]
                if any(y != y for y in of):  # nan: the value does not exist
                    continue
                for j, number in enumerate(row):
                    if number != number:
                        row[j] = _limit_at(rows[i][j], mine[j], point, self._of(key, i))


def _check_size(count: int) -> None:
    if count > _LARGEST:
        raise Unsupported(f"{count} derivatives; formulas are for up to {_LARGEST}")


def _check_known(blocks: Blocks) -> Blocks:
    """The blocks. Raises Unsupported if SymPy did not evaluate a derivative."""
    from gradcheck_cli.engines.symbolic.formulas import unknown

    name = unknown(dict.fromkeys(e for rows in blocks.values() for row in rows for e in row))
    if name:
        raise Unsupported(f"SymPy has no derivative of {name}")
    return blocks


def _projected(matrix: list[list[Any]], problem: Problem, name: str) -> list[list[Any]]:
    """The rows or columns that the problem requests."""
    from gradcheck_cli.engines.symbolic.numbers import products

    if problem.mode == "reverse":
        rows = problem.projection.rows
        return matrix if rows is None else products(rows.reshape(len(rows), -1).tolist(), matrix)
    first, _, second = name.rpartition(".")
    firsts = (problem.projection.firsts or {}).get(first)
    if firsts is not None:
        matrix = products(firsts.reshape(len(firsts), -1).tolist(), matrix)
    columns = (problem.projection.columns or {}).get(second)
    if columns is None:
        return matrix
    turned = [list(column) for column in zip(*matrix, strict=True)]
    along = products(columns.reshape(len(columns), -1).tolist(), turned)
    return [list(row) for row in zip(*along, strict=True)]


def _floats(numbers: Any, shape: tuple[int, ...]) -> Array:
    from gradcheck_cli.engines.symbolic.numbers import as_floats

    return as_floats(numbers, shape)


def _limit_at(expression: Any, symbol: Any, point: Mapping[Any, float], value: Any) -> Any:
    """The limit of a derivative of `value` with respect to `symbol`, along `symbol`, as an mpmath
    number.

    If the one-sided limits exist and differ, the result is their mean, which is the limit of a
    central difference, and one of the generalised derivatives (Clarke, Optimization and Nonsmooth
    Analysis, 1983). A side on which the value or the derivative is not real does not count.

    Raises Unsupported if the limit does not exist, or SymPy does not find it in time.
    """
    import mpmath
    import sympy

    others = {s: exact(v) for s, v in point.items() if s != symbol}
    slope, height = (written_out(e).subs(others) for e in (expression, value))
    place = exact(point[symbol])
    limits = []
    try:
        with time_limit(_LIMIT_S):
            for side, sign in (("+", 1), ("-", -1)):
                if sympy.N(height.subs(symbol, place + sign * exact(_NEAR))).is_extended_real:
                    limits.append(sympy.limit(slope, symbol, place, side))
    except (OutOfTime, NotImplementedError, ValueError, TypeError, ArithmeticError):
        limits = []
    limits = [limit for limit in limits if limit.is_number and limit.is_extended_real]
    limit = sympy.Add(*limits) / len(limits) if limits else sympy.nan
    if not limit.is_extended_real:
        text = NOTATIONS["text"].expression(written_out(expression))
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        raise Unsupported(
            f"the derivative with respect to `{symbol}`, {shown}, has no limit at this point"
        )
    return mpmath.mpf(str(sympy.N(limit, 40)).replace("oo", "inf"))
