"""Derives the output of `gradcheck derive`: a program's value and derivatives, and each step of the
chain rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.derivation import Derivation, Equation, Section
from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.kit.lowerings import bound
from gradcheck_cli.engines.symbolic.custom_gradients import written_out
from gradcheck_cli.engines.symbolic.formulas import (
    Calls,
    OutOfTime,
    apply,
    arguments,
    decimal,
    derivative,
    simplified,
    symbols,
    time_limit,
    walk,
)
from gradcheck_cli.engines.symbolic.notation import NOTATIONS, Notation, NotationName, python_code
from gradcheck_cli.engines.symbolic.ops import TABLE

PATIENCE_S = 30.0  # for everything but simplification
SHOWN = 24  # equations of a section
_LONGEST = 400  # characters of an expression: a longer one is left out, or shown by its parts


class TooHard(Exception):
    """Raised if SymPy needs longer than a person would wait."""


@dataclass(frozen=True, slots=True)
class Formulas:
    """A program's value and first derivatives, each an array of expressions.

    `output` has the shape of the output, and `gradients[name]` the shape (*output, *input). `plain`
    has the gradients before simplification. `second` has the second derivatives of a scalar, if
    they were requested, by pairs of symbols. `left` counts the derivatives that could not be
    simplified in time.
    """

    program: Program
    nodes: list[Array]
    wrt: tuple[str, ...]
    output: Array
    plain: Values
    gradients: Values
    second: Mapping[tuple[Any, Any], Any]
    left: int

    @property
    def inputs(self) -> Values:
        return {name: self.nodes[index] for name, index in self.program.inputs.items()}


def differentiated(
    program: Program, values: Values, wrt: Sequence[str], order: int, budget: float
) -> Formulas:
    """The formulas of a program, simplified for at most `budget` seconds. `values` must have the
    inputs that are integers or booleans.

    Raises NodeFault if an operation has no formula, and TooHard if SymPy takes too long.
    """
    import sympy

    fixed = {name: v for name, v in values.items() if v.dtype.kind in "bi"}
    try:
        with time_limit(PATIENCE_S):
            nodes = walk(bound(TABLE, sympy), program, fixed, decimal)
            output = nodes[program.output]
            inputs = {name: nodes[program.inputs[name]] for name in wrt}
            plain = {name: _slopes(output, input) for name, input in inputs.items()}
            twice = order > 1 and output.ndim == 0
            second = _curvatures(plain, inputs) if twice else {}
    except OutOfTime:
        raise TooHard(f"SymPy did not differentiate it within {PATIENCE_S:.0f} s") from None
    distinct = dict.fromkeys(e for array in plain.values() for e in array.ravel())
    distinct.update(dict.fromkeys(second.values()))
    simple, left = simplified([written_out(expression) for expression in distinct], budget)
    known = dict(zip(distinct, simple, strict=True))
    return Formulas(
        program,
        nodes,
        tuple(wrt),
        output,
        plain,
        {name: _mapped(known.__getitem__, array) for name, array in plain.items()},
        {pair: known[expression] for pair, expression in second.items()},
        left,
    )


def _curvatures(gradients: Values, inputs: Values) -> dict[tuple[Any, Any], Any]:
    """The second derivatives of a scalar. Of each symmetric pair, only the first is included."""
    curvatures: dict[tuple[Any, Any], Any] = {}
    symbols = [x for input in inputs.values() for x in input.ravel()]
    slopes = [slope for name in inputs for slope in gradients[name].ravel()]
    for i, slope in enumerate(slopes):
        for x in symbols[i:]:
            curvatures[symbols[i], x] = derivative(slope, x)
    return curvatures


def _slopes(output: Array, input: Array) -> Array:
    made = np.empty((*output.shape, *input.shape), dtype=object)
    for i in np.ndindex(output.shape):
        for j in np.ndindex(input.shape):
            made[(*i, *j)] = derivative(output[i], input[j])
    return made


def _mapped(call: Callable[[Any], Any], array: Array) -> Array:
    made = np.empty(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        made[index] = call(array[index])
    return made


def as_python(name: str, formulas: Formulas) -> str:
    """The value and gradient as a Python module."""
    output = _mapped(written_out, formulas.output)
    return python_code(name, tuple(formulas.program.inputs), output, formulas.gradients)


def derivation(formulas: Formulas, written: NotationName, steps: bool, budget: float) -> Derivation:
    """The equations for the value and derivatives. With `steps`, also for every operation and for
    the chain rule."""
    return _Writer(formulas, NOTATIONS[written]).derivation(steps, budget)


class _Writer:
    def __init__(self, formulas: Formulas, notation: Notation) -> None:
        self._formulas = formulas
        self._notation = notation
        self._program = formulas.program
        self._names = _names(formulas.program)
        self._output = symbols(self._names[self._program.output], formulas.output.shape)

    def derivation(self, steps: bool, budget: float) -> Derivation:
        before = self._steps() if steps else [self._value()]
        after = [self._second()] if self._formulas.second else []
        return Derivation((*before, self._derivatives(steps, budget), *after))

    def _equation(self, left: Any, right: Any, origin: str = "") -> Equation:
        text = left if isinstance(left, str) else self._notation.expression(left)
        return Equation(text, self._notation.expression(written_out(right)), origin)

    def _value(self) -> Section:
        output = self._formulas.output
        return _section(
            "value", [self._equation(self._output[i], output[i]) for i in np.ndindex(output.shape)]
        )

    def _derivatives(self, steps: bool, budget: float) -> Section:
        """The derivatives. With `steps`, also their forms before simplification."""
        equations, zeros = [], 0
        for name, array in self._formulas.gradients.items():
            input = self._formulas.inputs[name]
            for index in np.ndindex(array.shape):
                i, j = index[: self._output.ndim], index[self._output.ndim :]
                if array[index] == 0 and array.size > 1:
                    zeros += 1
                    continue
                slope = self._notation.slope(self._output[i], input[j])
                plain = written_out(self._formulas.plain[name][index])
                origin = self._notation.expression(plain) if steps else ""
                same = plain == array[index] or len(origin) > _LONGEST
                equations.append(self._equation(slope, array[index], "" if same else origin))
        notes = [f"{zeros} others are 0"] if zeros else []
        if self._formulas.left:
            notes.append(
                f"{self._formulas.left} not simplified within {budget:g} s (--budget gives more)"
            )
        return _section("derivatives", equations, "; ".join(notes))

    def _second(self) -> Section:
        (output,) = self._output.ravel()
        equations = [
            self._equation(self._notation.curvature(output, a, b), expression)
            for (a, b), expression in self._formulas.second.items()
            if expression != 0
        ]
        zeros = len(self._formulas.second) - len(equations)
        return _section("second derivatives", equations, f"{zeros} others are 0" if zeros else "")

    def _steps(self) -> list[Section]:
        import sympy

        program = self._program
        shown, operations = _operations(bound(TABLE, sympy), program, self._formulas, self._names)
        slopes: list[Equation] = []
        above: dict[
            Any, list[tuple[Any, Any]]
        ] = {}  # symbol -> the results that use it, and their slopes
        for symbol, expression in operations:
            for below in sorted(expression.free_symbols, key=_order(self._names)):
                local = derivative(expression, below)
                above.setdefault(below, []).append((symbol, local))
                slopes.append(self._equation(self._notation.leaf(symbol, below), local))
        first = self._output.ravel()[0]
        note = "" if self._output.size == 1 else f"of the first entry, {first}"
        chain = self._chain(first, operations, above, shown, note)
        return [
            _section("operations", [self._equation(*operation) for operation in operations]),
            _section("leaves: what each operation does to its arguments", slopes),
            *([chain] if chain.equations else []),  # a single operation is not a chain
        ]

    def _chain(
        self,
        output: Any,
        operations: Sequence[tuple[Any, Any]],
        above: Mapping[Any, Sequence[tuple[Any, Any]]],
        shown: Sequence[Array],
        note: str,
    ) -> Section:
        """The chain rule from the output back to the inputs. Symbols that do not reach the output
        are left out."""
        import sympy

        wanted = [self._program.inputs[name] for name in self._formulas.wrt]
        inputs = [x for index in wanted for x in shown[index].ravel()]
        order = [symbol for symbol, _ in reversed(operations) if symbol != output] + inputs
        total: dict[Any, Any] = {output: sympy.Integer(1)}
        equations = []
        for symbol in order:
            parts = [(y, local) for y, local in above.get(symbol, ()) if y in total]
            if not parts:
                continue
            total[symbol] = sympy.Add(*(total[y] * local for y, local in parts))
            slope, leaf = self._notation.slope, self._notation.leaf
            factors = [(slope(output, y), leaf(y, symbol)) for y, _ in parts if y != output]
            direct = [leaf(y, symbol) for y, _ in parts if y == output]
            if not factors:  # only the derivative of one operation
                continue
            origin = " + ".join([*direct, self._notation.product(factors)])
            equation = self._equation(slope(output, symbol), total[symbol], origin)
            if len(equation.right) > _LONGEST:
                equation = Equation(equation.left, origin)
            equations.append(equation)
        return _section("chain rule, from the output back", equations, note)


def _section(title: str, equations: Sequence[Equation], note: str = "") -> Section:
    return Section(title, tuple(equations[:SHOWN]), max(len(equations) - SHOWN, 0), note)


def _names(program: Program) -> list[str]:
    """A name for every node: its own, or `y` for the output and t1, t2, ... for the others. If
    several nodes share a name (a loop assigns to it repeatedly), all except the output are
    numbered."""
    taken = {*program.inputs, *(node.name for node in program.nodes if node.name)}
    times = Counter(node.name for node in program.nodes if node.op != INPUT and node.name)
    count: Counter[str] = Counter()
    fresh = (f"t{i}" for i in range(1, len(program.nodes) + len(taken) + 1) if f"t{i}" not in taken)
    final = next(name for name in ("y", "f", "value", "output_value") if name not in taken)
    names: list[str] = []
    for index, node in enumerate(program.nodes):
        own = node.name
        shared = own and node.op != INPUT and (times[own] > 1 or own in program.inputs)
        if own and shared and (index != program.output or own in program.inputs):
            count[own] += 1
            own = f"{own}_{count[own]}"
            own = None if own in taken else own
        unnamed = final if index == program.output else None
        counted = node.op not in (INPUT, CONSTANT) and node.kind == "float"
        names.append(own or unnamed or (next(fresh) if counted else ""))
    return names


def _operations(
    calls: Calls, program: Program, formulas: Formulas, names: Sequence[str]
) -> tuple[list[Array], list[tuple[Any, Any]]]:
    """For each node, the array that represents it in other formulas (symbols, if it is floating);
    and the entries of every operation, each with its formula in these."""
    shown: list[Array] = []
    operations: list[tuple[Any, Any]] = []
    for index, node in enumerate(program.nodes):
        if node.op in (INPUT, CONSTANT):
            shown.append(formulas.nodes[index])
            continue
        value = apply(calls, node, arguments(program, node, shown), decimal)
        if node.kind != "float":  # masks and indices are shown themselves
            shown.append(value)
            continue
        mine = symbols(names[index], node.shape)
        shown.append(mine)
        operations += [(mine[i], value[i]) for i in np.ndindex(node.shape)]
    return shown, operations


def _order(names: Sequence[str]) -> Callable[[Any], tuple[int, str]]:
    """Symbols in the order of their nodes, then of their entries."""
    places = {name: place for place, name in enumerate(names)}
    return lambda symbol: (places[str(symbol).partition("[")[0]], str(symbol))
