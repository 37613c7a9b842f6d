from dataclasses import replace

import numpy as np
import pytest
from flint import arb

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.enclosures.enclosed import Rounding, between
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from gradcheck_cli.search.enclosures.facts import facts_of, merged, signed
from reference_engine.arithmetic.arbs import precision
from tests.every import first
from tests.search.searched import spec_of


def narrowed(model: str) -> list[str]:
    """The rows of which something is known."""
    program = merged(spec_of("{x: [1, 2, 3], g: [1, -1, 2]}", model).program)
    return [program.nodes[index].op for index in facts_of(program)]


def test_what_rows_have_in_common_is_known() -> None:
    assert narrowed("sum(exp(x - max(x)) * g)") == ["subtract"]
    assert narrowed("sum(exp(x - max(x))) * g[0]") == ["subtract", "sum"]
    same = "where(max(x) == max(x), max(x), 0)"
    assert narrowed(f"sum(exp(x - {same})) * g[0]") == ["subtract", "sum"]
    assert narrowed("sum(exp(x - where(max(x) == max(g), max(x), 0)))") == []
    assert narrowed("sum(exp(x - logsumexp(x)) * g)") == ["subtract"]
    assert narrowed("sum(softmax(x) * g)") == ["sum"]


def test_numbers_that_are_equal_to_the_largest_are_counted() -> None:
    assert narrowed("sum(where(x == max(x), 1.0, 0.0)) * g[0]") == ["equal", "sum"]
    assert narrowed("sum(where(x == max(x), 0.0, 1.0)) * g[0]") == ["equal"]
    assert narrowed("sum(where(x == max(g), 1.0, 0.0))") == []


@pytest.mark.parametrize(("again", "x", "bad"), [(False, "x", False), (True, "3 * x", True)])
def test_a_quotient_by_the_number_of_largest_elements_is_finite(
    again: bool, x: str, bad: bool
) -> None:
    """Also where an engine takes several subnormal numbers for the same, but not where the largest
    one may be computed with other roundings."""
    model = f"where({x} == max({x}), g, 0 * g) / sum(where({x} == max({x}), 1.0, 0.0))"
    program = spec_of("{x: [1, 2, 3], g: [1, -1, 2]}", model).program
    boxes = BoxProgram(
        program, {}, FORMATS["float32"], Rounding.of(FORMATS["float32"], True, again)
    )
    for ends in ((-1e-38, 1e-38), (-2e-38, -1e-45), (-1.0, 1.0)):
        low, high = ({"x": np.full((1, 3), end), "g": np.full((1, 3), 1.0)} for end in ends)
        (found,) = boxes(low, high, 1)
        assert found is not None
        assert found.bad.any() == bad
        if not bad:  # the engine may count three where one is the largest
            assert np.all((found.lo <= 0) & (found.hi >= 1) & (found.error >= 2 / 3))


@pytest.mark.parametrize(
    ("row", "again"), first(2, [("max", False), ("min", True), ("max", True), ("min", False)])
)
def test_distances_from_the_largest_and_what_is_the_largest_hold_at_all_points(
    row: str, again: bool
) -> None:
    """Of boxes that meet or do not, of products, whose computed numbers are off."""
    model = f"sum(where(x * x * g == {row}(x * x * g), x, g)) + sum(x * x * g - {row}(x * x * g))"
    program = spec_of("{x: [1, 2, 3], g: [1, -1, 2]}", model).program
    rounding = replace(Rounding.of(FORMATS["float32"], False), again=again)
    boxes = BoxProgram(program, {}, FORMATS["float32"], rounding)
    ops = {node.op: index for index, node in enumerate(boxes.program.nodes)}
    rng = np.random.default_rng(0)
    known = 0
    for _ in range(300):
        ends = np.sort(rng.choice([-2.0, -1, 0, 0.5, 0.75, 1, 3], (2, 2, 1, 3)), axis=0)
        ends[1] = np.where(rng.random(3) < 0.7, ends[0] + 0.1, ends[1])
        low, high = ({"x": one[0], "g": one[1]} for one in ends)
        run = boxes.run({n: between(low[n], high[n]) for n in low}, 1)
        mask, apart = run.single[ops["equal"]], run.single[ops["subtract"]]
        for _ in range(4):
            share = rng.choice([0, 1, 0.5], (2, 3))
            x, g = (low[n][0] + s * (high[n] - low[n])[0] for n, s in zip(low, share, strict=True))
            y = x * x * g
            extreme = getattr(np, row)(y)
            assert np.all(apart.lo[0] <= y - extreme)
            assert np.all(y - extreme <= apart.hi[0])
            assert np.all(np.where(y == extreme, mask.true[0], mask.false[0]))
            near = y * (1 + rng.uniform(-1, 1, 3) * 2.0**-24)
            computed = near == getattr(np, row)(near)
            assert np.all(np.where(computed, mask.computed_true[0], mask.computed_false[0]))
        known += not np.all(mask.true & mask.false)
        assert not again or np.all(mask.computed_false | (run.single[ops["multiply"]].error == 0))
    assert known > 30


def test_of_others_nothing_is() -> None:
    assert narrowed("sum(exp(x - max(g)))") == []
    assert narrowed("sum(g * x)") == []


def test_the_largest_number_of_another_row_is_no_bound() -> None:
    square = "{x: [[1, 2], [3, 4]]}"

    def known(model: str) -> list[str]:
        program = merged(spec_of(square, model).program)
        return [program.nodes[index].op for index in facts_of(program)]

    assert known("sum(exp(x - max(x, axis=0)))") == ["subtract", "sum"]
    assert known("sum(exp(x - max(x, axis=1, keepdims=True))[0])") == ["subtract"]
    assert known("sum(exp(x - max(x, axis=1)))") == []


def test_equal_nodes_are_one() -> None:
    program = merged(spec_of("{x: 1, y: 2}", "(x - y) * (x - y) + 2 * (y - x)").program)
    assert [node.op for node in program.nodes].count("subtract") == 2
    product = next(node for node in program.nodes if node.op == "multiply")
    assert product.args[0] == product.args[1]


def test_the_larger_of_two_numbers_is_equal_to_one_of_them_where_that_is_not_smaller() -> None:
    def compared(model: str) -> list[str]:
        program = merged(spec_of("{x: 1, y: 2}", f"where({model}, x, 2*y)").program)
        return [node.op for node in program.nodes if "equal" in node.op]

    assert compared("x == maximum(x, y)") == ["greater_equal"]
    assert compared("minimum(x, y) == y") == ["less_equal"]
    assert compared("maximum(x, 2*y) == y") == ["equal"]


def test_a_root_of_squares_is_not_taken_below_0() -> None:
    def roots(model: str) -> list[bool]:
        program = signed(merged(spec_of("{x: 1.0, y: 2.0}", model).program))
        return [bool(n.keywords) for n in program.nodes if n.op == "sqrt"]

    assert roots("sqrt(x * x + y**2)") == [True]
    assert roots("sqrt((x - y) * (x - y) / 2)") == [True]
    assert roots("sqrt(sqrt(x)) + y") == [False, True]
    assert roots("sqrt(x * y)") == [False]
    assert roots("sqrt(x * x - y * y)") == [False]
    assert roots("sqrt(x**3) + y") == [False]
    assert roots("sqrt(x * x + y)") == [False]


def test_a_root_of_the_larger_of_0_and_a_number_is_one_of_no_negative_number() -> None:
    def says(model: str) -> bool:
        program = signed(spec_of("{x: [1, 2, 3]}", model).program)
        return any(node.keywords.get("not_below_0") for node in program.nodes)

    for inside in ("maximum(x, 0)", "maximum(x, x*x)", "relu(x)", "var(x)", "maximum(x, 0) + 1"):
        assert says(f"sum(sqrt({inside}))"), inside
    for inside in ("maximum(x, -1)", "minimum(x, 0)", "x"):
        assert not says(f"sum(sqrt({inside}))"), inside


def test_what_is_left_of_1_is_above_0() -> None:
    """1 - sigmoid(x), and 1 - tanh(x)^2, whose digits float64 lacks: at all points of boxes."""
    rng, float32 = np.random.default_rng(0), FORMATS["float32"]
    for model, exact in (
        ("1 - sigmoid(x)", lambda x: 1 / (1 + arb(x).exp())),
        ("1 - tanh(x)*tanh(x)", lambda x: 1 / arb(x).cosh() ** 2),
    ):
        program = spec_of("{x: 1.0}", model).program
        boxes = BoxProgram(program, {}, float32, Rounding.of(float32, False))
        ends = np.sort(rng.choice((1, 30, 300), (2, 200)) * rng.uniform(-1, 1, (2, 200)), axis=0)
        ends[1, ::2] = ends[0, ::2]
        (found,) = boxes({"x": ends[0]}, {"x": ends[1]}, 200)
        assert found is not None
        with precision(2000):
            for i, (low, high) in enumerate(ends.T.tolist()):
                for x in (low, high, (low + high) / 2):
                    assert found.lo[i] <= exact(x) <= found.hi[i], (model, x)
        assert np.all(found.lo[np.abs(ends).max(axis=0) < 300] > 0)
        narrow = ends[0] == ends[1]
        assert np.all(found.hi[narrow] <= found.lo[narrow] * (1 + 1e-11) + 1e-300)
