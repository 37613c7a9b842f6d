"""The effect of every intermediate rounding on a number: sums over the reference engine's tape."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.plain import constant


def run_nodes(
    program: Program,
    values: Mapping[str, Any],
    rounding: str,
    constants: Callable[[Any], Any] = lambda value: value,
) -> list[Any]:
    """The value of every node on arrays, tensors, duals and so on. Floating constants are rounded
    to `rounding` and then passed to `constants`."""
    from reference_engine.traced import ROWS

    fmt = FORMATS[rounding]
    slots: list[Any] = [None] * len(program.nodes)
    for name, index in program.inputs.items():
        slots[index] = values[name]
    for index, node in enumerate(program.nodes):
        if node.op == CONSTANT:
            value = constant(node, fmt)
            slots[index] = constants(value) if node.kind == "float" else value
        elif node.op != INPUT:
            slots[index] = ROWS[node.op](*[slots[i] for i in node.args], **node.keywords)
    return slots


@dataclass(frozen=True, slots=True)
class Sums:
    """How far a number moves. `inputs`: each input is off by half an ulp. `operations`: each
    operation rounds, in the order of the tape. `backward`: each argument of a backward stable
    algorithm is off by u times its norm, all together. `norms`: each input is off by u times its
    norm."""

    inputs: float
    operations: list[float]
    backward: float
    norms: float


class RecordedProgram:
    """A program that ran once in float64 on the tape. Every floating input that is not `exact` is a
    leaf. Constants are on the tape but are no leaves: they are exact, but results of constants
    alone round."""

    def __init__(
        self,
        program: Program,
        values: Mapping[str, Array],
        rounding: str,
        exact: Collection[str] = (),
    ) -> None:
        from reference_engine import tensor

        def leaf(value: Any) -> Any:
            return tensor(value, requires_grad=True)

        arrays = {name: np.asarray(values[name]) for name in program.inputs}
        floating = {name: leaf(array) for name, array in arrays.items() if array.dtype.kind == "f"}
        self.leaves: dict[str, Any] = {n: x for n, x in floating.items() if n not in exact}
        slots = run_nodes(program, {**arrays, **floating}, rounding, leaf)
        self.output = slots[program.output]

    def sensitivities(self, flat: int, fmt: FloatFormat) -> Sums:
        """`sensitivity_sums` of element `flat` of the output."""
        number = EntryTape._pick_entry(self.output, flat)
        return sensitivity_sums(number, self.leaves.values(), fmt)

    def gradient(self, output: Any, cotangent: Array) -> dict[str, Any]:
        """<cotangent, d output / d leaf> for every leaf, recorded on the tape. Leaves that the
        output does not depend on are left out."""
        from reference_engine.tape import Node, pull_back

        if not isinstance(output, Node) or output.op is None:
            return {}
        reached = pull_back([(output, cotangent)], create_graph=True)
        return {
            name: reached[leaf.record]
            for name, leaf in self.leaves.items()
            if leaf.record in reached
        }


def sensitivity_sums(number: Any, leaves: Iterable[Any], fmt: FloatFormat) -> Sums:
    """How far a recorded scalar s moves if `leaves` are off by half an ulp, and if each operation
    rounds: u * sum |ds/dx| |x| over the leaves, and sum |ds/dv| (u |v| + eta) over the result v of
    each operation that rounds, in the order of the tape. The smallest subnormal eta is the cost of
    underflow (Higham, Accuracy and Stability of Numerical Algorithms, eq. 2.8)."""
    from reference_engine.tape import Node, pull_back
    from reference_engine.traced import to_array

    if not isinstance(number, Node) or number.op is None:
        return Sums(0.0, [], 0.0, 0.0)
    by_op: list[float] = []
    backward = 0.0
    u, eta = fmt.unit_roundoff, fmt.smallest_subnormal

    def observe(record: Any, bar: Any) -> None:
        nonlocal backward
        if not record.op.exact:
            size = np.abs(to_array(bar))
            moved = np.where(size == 0, 0.0, size * (u * _rounded_at(record) + eta))  # not 0 * inf
            if np.isnan(moved).any():
                moved = np.where(_is_whole(record, fmt), 0.0, moved)
            by_op.append(float(np.sum(moved)))
            if record.op.rounding == "inputs":
                backward += u * _moved_by_inputs(record, bar)

    reached = pull_back([(number, np.ones(()))], observe=observe)
    pairs = [(to_array(v), to_array(reached[v.record])) for v in leaves if v.record in reached]
    at_leaves = sum(u * float(np.sum(np.abs(x * x_bar))) for x, x_bar in pairs)
    norms = sum(u * _by_norm(x, x_bar) for x, x_bar in pairs)
    return Sums(at_leaves, by_op[::-1], backward, norms)


def _by_norm(x: Array, x_bar: Array) -> float:
    """The largest move of s if x is off by its whole norm."""
    return float(np.linalg.norm(np.ravel(x_bar)) * np.linalg.norm(np.ravel(x)))


def _rounded_at(record: Any) -> Array:
    """The size at which an operation rounds: the size of its result, or the sum of its terms'
    sizes."""
    from reference_engine.traced import to_array

    if record.op.rounding == "sums":
        arrays = [to_array(x) for x in record.xs]
        sizes = [np.abs(a) if a.dtype.kind == "f" else a for a in arrays]  # not of an index
        return np.abs(record.op.value(*sizes, **record.keywords))
    return np.abs(to_array(record.value))


def _is_whole(record: Any, fmt: FloatFormat) -> Array:
    """Mark the results of an elementwise operation that are integers of integers and small enough
    for half of the dtype's bits, like n - 1 in the derivative of x^n. They do not round, although
    the derivative by n is nan for a negative x."""
    from reference_engine.traced import to_array

    if not record.op.elementwise:
        return np.zeros((), bool)
    most = 2.0 ** (fmt.bits // 2)
    arrays = [to_array(record.value), *map(to_array, record.xs)]
    whole = [(np.abs(array) <= most) & (np.rint(array) == array) for array in arrays]
    return np.asarray(np.logical_and.reduce(np.broadcast_arrays(*whole)))


def _moved_by_inputs(record: Any, bar: Any) -> float:
    """How far s moves if every matrix argument of a backward stable algorithm is off by its whole
    norm: sum |x_bar| |x| in Frobenius norms (Higham, Accuracy and Stability, section 1.5). For an
    elementwise function each element is off by its own size, and a 0 not at all."""
    from reference_engine.rules import Elementwise
    from reference_engine.traced import Use, shape_of, to_array

    xs = [np.asarray(to_array(x)) for x in record.xs]
    wanted = [i for i, x in enumerate(xs) if x.dtype.kind == "f"]
    y = to_array(record.value)
    use = Use(record.op, xs, y, record.keywords)
    x_bars = record.op.rule.reverse(use, to_array(bar), wanted)
    moved = 0.0
    for i, x_bar in zip(wanted, x_bars, strict=True):
        if x_bar is None:
            continue
        if isinstance(record.op.rule, Elementwise):
            moved += float(np.sum(np.abs(xs[i] * to_array(x_bar)), where=xs[i] != 0))
        elif shape_of(x_bar):
            moved += _by_norm(xs[i], to_array(x_bar))
    return moved


class EntryTape:
    """The entries of a mode's blocks, each as a recorded scalar."""

    def __init__(
        self, run: RecordedProgram, projection: Projection, mode: Mode, fmt: FloatFormat
    ) -> None:
        self._fmt = fmt
        self._mode = mode
        self._projection = projection
        self._run = run
        self._rows: dict[object, dict[str, Any]] = {}

    def sensitivities(self, name: str, row: int, column: int) -> Sums:
        """`sensitivity_sums` of one entry; zeros if it does not depend on anything."""
        if self._mode in ("reverse", "forward"):
            gradient = self._row_gradient(row).get(name)
            return self._sums(self._pick(gradient, self._projection.columns, name, column))
        first, second = name.split(".")
        if (first, row) not in self._rows:
            part = self._pick(self._row_gradient(0).get(first), self._projection.firsts, first, row)
            self._rows[first, row] = self._run.gradient(part, np.ones(()))
        gradient = self._rows[first, row].get(second)
        part = self._pick(gradient, self._projection.columns, second, column)
        return self._sums(part)

    def _sums(self, number: Any) -> Sums:
        return sensitivity_sums(number, self._run.leaves.values(), self._fmt)

    def _row_gradient(self, row: int) -> dict[str, Any]:
        """The recorded gradient of row `row` of the output or its projection."""
        if row not in self._rows:
            cotangent = self._projection.cotangents(np.shape(self._run.output))[row]
            self._rows[row] = self._run.gradient(self._run.output, cotangent)
        return self._rows[row]

    def _pick(
        self, gradient: Any, directions: Mapping[str, Array] | None, name: str, number: int
    ) -> Any:
        """An entry, or the product with a direction if there are directions."""
        if gradient is None or directions is None or name not in directions:
            return self._pick_entry(gradient, number)
        return (gradient * np.asarray(directions[name][number], dtype=np.float64)).sum()

    @staticmethod
    def _pick_entry(gradient: Any, flat: int) -> Any:
        if gradient is None or np.ndim(gradient) == 0:
            return gradient
        return gradient[index_of(flat, gradient.shape)]


def output_noise_sums(
    program: Program,
    values: Mapping[str, Array],
    rounding: str,
    rows: Array | Sequence[Array] | None,
) -> tuple[Float, Float]:
    """For every output (or its projection) in float64: the rounding of its operations and of its
    inputs, shape (m,) each."""
    run = RecordedProgram(program, values, rounding)
    shape = np.shape(run.output)
    count = int(np.prod(shape)) if rows is None else len(rows)
    at_ops, at_inputs = np.zeros(count), np.zeros(count)
    for k in range(count):
        number = (
            EntryTape._pick_entry(run.output, k)
            if rows is None
            else (run.output * np.asarray(rows[k], dtype=np.float64)).sum()
        )
        sums = sensitivity_sums(number, run.leaves.values(), FORMATS["float64"])
        # a nan belongs to another output: 0 * inf in the backward pass
        at_ops[k], at_inputs[k] = np.nansum([*sums.operations, sums.backward]), sums.inputs
    return at_ops, at_inputs
