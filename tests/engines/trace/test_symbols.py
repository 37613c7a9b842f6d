"""What runs on symbols is written down as a program, at the values of one point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.layer import MANY
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.trace.exact_kernels import finite
from gradcheck_cli.engines.trace.symbols import ProgramWriter, Symbol, take_from_parts
from gradcheck_cli.truth.plain import PlainFunction
from reference_engine.traced import ROWS

PLACE = Span(1, 1, 1, 1)

X = np.arange(24.0).reshape(2, 3, 4)
MOVES: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "nothing": (lambda x: x, []),
    "reshape": (lambda x: x.reshape(6, 4), ["reshape"]),
    "axes": (lambda x: x.transpose(2, 0, 1), ["transpose"]),
    "slice": (lambda x: x[:, 1:, ::2], ["getitem"]),
    "one of an axis": (lambda x: x[1, :, 2], ["getitem"]),
    "one, kept as an axis": (lambda x: x[1:2, 0, :3:2], ["getitem"]),
    "one, of a new shape": (lambda x: x[1, 0].reshape(2, 2), ["getitem", "reshape"]),
    "broadcast": (lambda x: np.broadcast_to(x, (5, 2, 3, 4)), ["broadcast_to"]),
    "backwards": (lambda x: x[::-1], ["reshape", "input", "take", "reshape"]),
    "joined": (lambda x: np.concatenate([x, x], 1), ["reshape", "input", "take", "reshape"]),
}


def value_of(writer: ProgramWriter, output: Symbol, **inputs: np.ndarray) -> np.ndarray:
    return PlainFunction(writer.program(output), "float64")({**inputs, **writer.constants})


def test_rows_and_operators_are_nodes_and_have_the_values_of_the_point() -> None:
    writer = ProgramWriter(PLACE)
    x = writer.input("x", np.array([1.0, 2.0]))
    y = ROWS["exp"](-x) + 2 * x
    assert isinstance(y, Symbol)
    np.testing.assert_allclose(y.value, np.exp([-1.0, -2.0]) + np.array([2.0, 4.0]))
    there = np.array([0.3, -0.5])
    np.testing.assert_allclose(value_of(writer, y, x=there), np.exp(-there) + 2 * there)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_part_of_a_stack_is_what_was_stacked(axis: int) -> None:
    """As the real parts of complex numbers are, whose operations take and give pairs."""
    writer = ProgramWriter(PLACE)
    x, y = writer.input("x", np.ones((2, 2))), writer.input("y", np.zeros((2, 2)))
    pair = ROWS["stack"](ROWS["broadcast_to"](x, shape=(2, 2)), y, axis=axis)
    index = [slice(None)] * 3
    index[axis] = 1
    assert ROWS["getitem"](pair, index=tuple(index)).node == y.node
    index[axis] = -2
    assert ROWS["getitem"](pair, index=tuple(index)).node == x.node


@pytest.mark.parametrize("index", [(0,), (slice(None), slice(1, None), 0), (0, slice(None), 1)])
def test_another_part_of_a_stack_is_taken_from_it(index: Any) -> None:
    writer = ProgramWriter(PLACE)
    x, y = writer.input("x", np.ones((2, 2))), writer.input("y", np.zeros((2, 2)))
    part = ROWS["getitem"](ROWS["stack"](x, y, axis=-1), index=index)
    there = {"x": np.arange(4.0).reshape(2, 2), "y": -np.arange(4.0).reshape(2, 2)}
    expected = np.stack([there["x"], there["y"]], axis=-1)[index]
    np.testing.assert_array_equal(value_of(writer, part, **there), expected)


def test_arrays_that_are_no_symbols_are_constants_once_each() -> None:
    writer = ProgramWriter(PLACE)
    x, given = writer.input("x", np.ones(3)), np.array([1.0, 2.0, 3.0])
    y = x * given + given
    assert list(writer.constants) == ["constant1"]
    np.testing.assert_array_equal(value_of(writer, y, x=np.ones(3)), 2 * given)


def test_constants_that_nothing_reads_are_left_out_and_inputs_are_not() -> None:
    writer = ProgramWriter(PLACE)
    x = writer.input("x", np.ones(3))
    writer.input("y", np.ones(3))
    ROWS["exp"](writer.constant(np.array([1.0, 2.0, 3.0])))
    read, whole = writer.constant(np.array([4.0, 5.0, 6.0])), writer.constant(np.ones(3))
    program = writer.program(x * read, whole)
    assert set(program.inputs) == {"x", "y", *writer.constants}
    np.testing.assert_array_equal(list(writer.constants.values()), [read.value, whole.value])


def test_zero_and_minus_zero_are_two_numbers() -> None:
    writer = ProgramWriter(PLACE)
    x, z = writer.input("x", np.array(-1.0)), writer.input("z", np.array(-1.0))
    y = ROWS["atan2"](0.0, x) - ROWS["atan2"](-0.0, z)
    there = {"x": x.value, "z": z.value}
    np.testing.assert_allclose(value_of(writer, y, **there), 2 * np.pi)


def test_moved_numbers_come_from_where_they_were_and_zeros_from_nowhere() -> None:
    writer = ProgramWriter(PLACE)
    x, y = writer.input("x", np.arange(6.0).reshape(2, 3)), writer.input("y", np.array([7.0]))

    def move(arrays: list[np.ndarray]) -> list[np.ndarray]:
        a, b = arrays
        return [np.concatenate([a.T[::-1].ravel(), [0.0], b])]

    (moved,) = writer.move_numbers(move, [x, y])
    expected = [2.0, 5.0, 1.0, 4.0, 0.0, 3.0, 0.0, 7.0]
    np.testing.assert_array_equal(moved.value, expected)
    there = value_of(writer, moved, x=x.value + 1, y=y.value)
    np.testing.assert_array_equal(there, [3.0, 6.0, 2.0, 5.0, 1.0, 4.0, 0.0, 7.0])


@pytest.mark.parametrize(
    ("move", "ops"),
    [
        (lambda x: x.T, ["transpose"]),
        (lambda x: x.reshape(-1), ["reshape"]),
        (lambda x: np.swapaxes(x, 0, 1).copy(), ["transpose"]),  # not a view
        (lambda x: x[1:], ["getitem"]),
        (lambda x: x[:, 4:9], ["getitem"]),
        (lambda x: x[3::2, -1:], ["getitem"]),
        (lambda x: x[5, 7:], ["getitem"]),
        (lambda x: x[:64, :2].T, ["reshape", "input", "take", "reshape"]),
        (lambda x: x[::-1], ["reshape", "input", "take", "reshape"]),
    ],
)
def test_numbers_of_a_large_array(move: Callable[..., Any], ops: list[str]) -> None:
    """Views of it are recognised without a look at the numbers."""
    writer = ProgramWriter(PLACE)
    x = writer.input("x", np.arange(float(MANY)).reshape(128, -1))
    (found,) = writer.move_numbers(lambda arrays: [move(arrays[0])], [x])
    np.testing.assert_array_equal(found.value, move(x.value))
    assert [node.op for node in writer.program(found).nodes[1:]] == ops


def test_a_mask_that_moves_is_one_of_the_point() -> None:
    writer = ProgramWriter(PLACE)
    x = writer.input("x", np.array([1.0, -2.0, 3.0]))
    (kept,) = writer.move_numbers(lambda arrays: [arrays[0][arrays[1]]], [x, x > 0])
    np.testing.assert_array_equal(kept.value, [1.0, 3.0])


def test_a_composite_row_is_one_node_and_an_internal_one_is_refused() -> None:
    writer = ProgramWriter(PLACE)
    x = writer.input("x", np.arange(16.0).reshape(1, 1, 4, 4))
    y = ROWS["max_pool2d"](x, kernel_size=2)
    assert [node.op for node in writer.program(y).nodes] == ["input", "max_pool2d"]
    with pytest.raises(TypeError, match="formulas have no `scatter`"):
        ROWS["scatter"](x, shape=(4,), index=0)


def test_what_no_output_needs_is_not_in_the_program() -> None:
    writer = ProgramWriter(PLACE)
    x = writer.input("x", np.array(1.0))
    y = ROWS["sin"](x)
    ROWS["cos"](x)
    assert [node.op for node in writer.program(y).nodes] == ["input", "sin"]


@pytest.mark.parametrize(
    ("axis", "shape"), [((1,), (2, 1, 4)), (1, (2, 1, 4)), ((0, 2), (1, 3, 1)), (None, (1, 1, 1))]
)
def test_a_reduction_whose_axes_come_back_keeps_them(
    axis: int | tuple[int, ...] | None, shape: tuple[int, ...]
) -> None:
    writer = ProgramWriter(PLACE)
    given = np.arange(24.0).reshape(2, 3, 4)
    y = ROWS["reshape"](ROWS["sum"](writer.input("x", given), axis=axis), shape=shape)
    program = writer.program(y)
    assert [node.op for node in program.nodes] == ["input", "sum"]
    found = value_of(writer, y, x=given)
    np.testing.assert_array_equal(found, np.sum(given, axis=axis, keepdims=True))


def test_a_reduction_in_another_shape_is_reshaped() -> None:
    writer = ProgramWriter(PLACE)
    given = np.arange(6.0).reshape(2, 3)
    y = ROWS["reshape"](ROWS["sum"](writer.input("x", given), axis=1), shape=(1, 2))
    np.testing.assert_array_equal(value_of(writer, y, x=given), [[3.0, 12.0]])


@pytest.mark.parametrize("index", [1, slice(0, 1)])
def test_an_index_is_a_tuple_as_in_formulas(index: int | slice) -> None:
    writer = ProgramWriter(PLACE)
    y = ROWS["getitem"](writer.input("x", np.ones(3)), index=index)
    program = writer.program(y)
    assert program.nodes[program.outputs[0]].keywords == {"index": (index,)}


def test_a_reduction_whose_axes_come_back_is_still_the_operation_that_reduced() -> None:
    writer = ProgramWriter(PLACE, public=False)
    x = writer.input("x", np.ones(3))
    writer.text = "prod"
    y = ROWS["prod"](x)
    writer.text = "reshape"
    program = writer.program(ROWS["reshape"](y, shape=(1,)))
    node = program.result
    assert (node.op, node.text, node.keywords["keepdims"]) == ("prod", "prod", True)


def test_numbers_that_are_finite_are_themselves() -> None:
    writer = ProgramWriter(PLACE, public=False)
    x = writer.input("x", np.array([1.0, 2.0]))
    program = writer.program(ROWS["where"](finite(x), x, 0.0))
    assert [node.op for node in program.nodes if node.args] == ["equal", "where"]
    shown = ProgramWriter(PLACE).input("x", np.array([1.0, np.inf]))
    assert finite(shown).tolist() == [True, False]


@pytest.mark.parametrize("name", MOVES)
def test_numbers_of_one_array(name: str) -> None:
    move, ops = MOVES[name]
    writer = ProgramWriter(Span(1, 1, 1, 1))
    x = writer.input("x", X)
    found = take_from_parts([np.zeros(1), x], move(np.arange(1, 25).reshape(X.shape)))
    np.testing.assert_array_equal(found.value, move(X))
    assert [node.op for node in writer.program(found).nodes[1:]] == ops


@pytest.mark.parametrize(
    ("move", "op"),
    [
        (lambda x, y: np.concatenate([x, y], -1), "concatenate"),
        (lambda x, y: np.stack([x, y], 1), "stack"),
        (lambda x, y: np.concatenate([x[:1], y[1:]]), "reshape"),
    ],
)
def test_numbers_of_two_arrays(move: Callable[..., Any], op: str) -> None:
    writer = ProgramWriter(Span(1, 1, 1, 1))
    x, y = writer.input("x", X), writer.input("y", -X)
    places = np.arange(1, 49).reshape(2, *X.shape)
    found = take_from_parts([np.zeros(1), x, y], move(*places))
    np.testing.assert_array_equal(found.value, move(X, -X))
    assert writer.program(found).nodes[-1].op == op


def test_nothing_is_taken() -> None:
    writer = ProgramWriter(Span(1, 1, 1, 1))
    found = take_from_parts([np.zeros(1), writer.input("x", X)], np.zeros((0, 2)))
    assert found.shape == (0, 2)
