from dataclasses import replace

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.program import CONSTANT, INPUT
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.search.enclosures.enclosed import Exceeds, Rounding
from gradcheck_cli.search.enclosures.enclosing import (
    BoxProgram,
    expanded,
    gathered,
    split_evenly,
    unrolled,
)
from gradcheck_cli.truth.plain import PlainFunction
from reference_engine.traced import ROWS
from tests.every import first
from tests.search.searched import searched, spec_of

FLOAT32 = FORMATS["float32"]


def boxed(model: str, low: list[float], high: list[float]) -> tuple[float, float, bool]:
    """The range of a formula of x over one box, and whether it may overflow."""
    spec = spec_of(f"{{x: {low}}}", model)
    program = BoxProgram(spec.program, {}, FLOAT32, Rounding.of(FLOAT32, False))
    (found,) = program({"x": np.array([low])}, {"x": np.array([high])}, 1)
    assert found is not None
    return float(found.lo[0]), float(found.hi[0]), bool(found.bad[0])


def test_a_program_is_enclosed_over_a_box() -> None:
    lo, hi, bad = boxed("sum(x * x) / 2", [-1.0, 2.0], [1.0, 3.0])
    assert (round(lo, 9), round(hi, 9), bad) == (2.0, 5.0, False)
    assert boxed("sum(exp(x))", [0.0, 0.0], [90.0, 1.0])[2]


def test_a_root_of_a_square_is_a_number_beside_0() -> None:
    lo, hi, bad = boxed("sqrt(x[0] * x[0])", [-1e-30], [1.0])
    assert (lo, round(hi, 9), bad) == (0.0, 1.0, False)
    assert boxed("sqrt(x[0] * x[0] - 1e-30)", [-1.0], [1.0])[2]


def test_the_cross_entropy_of_probabilities_is_enclosed() -> None:
    lo, hi, bad = boxed("soft_cross_entropy(x, exp(x - max(x)))", [0.0, 0.0], [0.0, 0.0])
    assert lo <= 2 * np.log(2.0) <= hi
    assert (round(hi - lo, 6), bad) == (0.0, False)


def test_a_constant_that_the_dtype_lacks_is_rounded() -> None:
    spec = spec_of("{x: 1.0}", "0.1 * x")
    program = BoxProgram(spec.program, {}, FLOAT32, Rounding.of(FLOAT32, False))
    (found,) = program({"x": np.ones(1)}, {"x": np.ones(1)}, 1)
    assert found is not None
    assert 2.0**-24 < found.d[0] < 2.0**-22


CHOICES = [
    ("where(exp(x) < 1.2, exp(-abs(exp(x) - 1.2)), 2 - exp(-abs(exp(x) - 1.2)))", True),
    ("where(x * 0.3 > 0.1, (x * 0.3) ** 2, 0.2 * (x * 0.3) - 0.01)", True),
    ("where(0.1 >= x * 0.3, x, 1 + x)", False),  # a jump
    ("where(exp(x) > 1.2, 1.3 * x, x)", False),
    ("where(exp(x) > 1.2, sum(exp(x)) - 1.2, x)", False),  # meets other elements
]


@pytest.mark.parametrize(("model", "small"), CHOICES)
def test_a_wrong_choice_costs_what_the_sides_differ_by_at_its_threshold(
    model: str, small: bool
) -> None:
    """The choice is by a computed number; runs in float32 are off by no more."""
    spec = spec_of("{x: [0.1, 0.2]}", model)
    program = BoxProgram(rounded(spec.program, "float32"), {}, FLOAT32, Rounding.of(FLOAT32, False))
    (found,) = program({"x": np.array([[0.0, 0.0]])}, {"x": np.array([[0.5, 0.5]])}, 1)
    assert found is not None
    assert bool(np.all(found.error < 2.0**-16)) == small  # some ulps, and not a part of the box
    near = np.float32([np.log(1.2), 0.1 / 0.3])
    for x in near + np.arange(-300, 300)[:, None] * np.float32(2.0**-25):
        off = np.abs(in_numpy(spec, x).astype(float) - in_numpy(spec, x.astype(float)))
        assert np.all(off <= found.error[0])


def in_numpy(spec: Spec, x: np.ndarray) -> np.ndarray:
    """Each operation of a formula of x, in the dtype of x, constants rounded to float32."""
    slots: list[np.ndarray] = []
    for node in rounded(spec.program, "float32").nodes:
        if node.op == INPUT:
            slots.append(x)
        elif node.op == CONSTANT:
            slots.append(np.asarray(np.float32(node.value), x.dtype))
        else:
            slots.append(ROWS[node.op].raw(*(slots[i] for i in node.args), **node.keywords))
    return slots[spec.program.output]


def test_a_row_without_a_rule_is_refused() -> None:
    with pytest.raises(Exceeds, match="floor"):
        boxed("sum(floor(x))", [0.1, 0.2], [0.1, 0.2])


def test_a_kernel_that_is_simpler_beyond_a_threshold_is_off_by_what_that_costs() -> None:
    program = spec_of("{x: 21.0}", "where(x > 20, x, softplus(x)) - x").program
    nodes = tuple(
        replace(node, text="aten.softplus.default") if node.op == "where" else node
        for node in program.nodes
    )
    float64 = FORMATS["float64"]
    restated = BoxProgram(replace(program, nodes=nodes), {}, float64, Rounding.of(float64, False))
    (found,) = restated({"x": np.array([21.0])}, {"x": np.array([21.0])}, 1)
    assert found is not None
    assert found.lo[0] <= np.log1p(np.exp(-21.0)) <= found.hi[0]
    assert found.error[0] >= np.log1p(np.exp(-21.0))  # the engine computes 0


def test_whole_numbers_are_numbers() -> None:
    program = spec_of("{x: 1.0, n: [1, 2]}", "n / x").program
    boxes = BoxProgram(program, {"n": np.array([1, 2])}, FLOAT32, Rounding.of(FLOAT32, False))
    (found,) = boxes({"x": np.ones(1)}, {"x": np.full(1, 2.0)}, 1)
    assert found is not None
    assert np.allclose([found.lo, found.hi], [[[0.5, 1.0]], [[1.0, 2.0]]])


def test_a_row_of_other_rows_is_these() -> None:
    program, _ = expanded(spec_of("{x: [1, 2], y: [0, 1]}", "mse(x, y) + sum(x)").program, {})
    assert [node.op for node in program.nodes if node.args] == [
        *("subtract", "square", "mean", "sum", "add")
    ]
    assert expanded(program, {})[0] is program


LABELS = "{v: {value: [1, 2, 0.5], domain: [-3, 3]}, t: {value: 2, dtype: int64}}"


@pytest.mark.parametrize("model", ["cross_entropy(v, 2)", "cross_entropy(v, t)"])
def test_labels_decide_which_rows_a_loss_is(model: str) -> None:
    """The range over a box is that of the label's own number."""
    spec = spec_of(LABELS, model)
    labels = {"t": np.asarray(2)} if "t" in spec.program.inputs else {}
    program = BoxProgram(spec.program, labels, FLOAT32, Rounding.of(FLOAT32, False))
    v = np.array([[3.0, -3.0, -1.0]])
    (found,) = program({"v": v}, {"v": v}, 1)
    assert found is not None
    assert found.lo[0] <= np.log(np.sum(np.exp(v))) - v[0, 2] <= found.hi[0]


@pytest.mark.parametrize(
    "model",
    [
        "sum(pad(v, 1)**2)",
        "sum(diag(v) @ v)",
        "sum(tril(outer(v, v)))",
        "sum(triu(outer(v, v), k=1))",
        "trace(outer(v, v))",
    ],
)
def test_what_only_moves_numbers_is_enclosed(model: str) -> None:
    spec = spec_of("{v: [1, 2, 0.5]}", model)
    program = BoxProgram(spec.program, {}, FLOAT32, Rounding.of(FLOAT32, False))
    v = np.array([[0.75, -2.0, 1.5]])
    (found,) = program({"v": v}, {"v": v}, 1)
    one = v[0]
    outer = np.outer(one, one)
    values = {"pad": sum(one**2), "diag": sum(one**2), "trace": np.trace(outer)}
    values |= {"tril": np.tril(outer).sum(), "triu": np.triu(outer, 1).sum()}
    value = next(y for name, y in values.items() if name in model)
    assert found is not None
    assert found.lo[0] <= value <= found.hi[0]
    assert found.hi[0] - found.lo[0] < 1e-12


@pytest.mark.parametrize(
    "model",
    first(
        1,
        [
            "sum(where(transpose(m > 0), m, 2*m))",
            "sum(where((m > 0)[0], m, 2*m))",
            "sum(where(stack([m[0] > 0, m[1] > 0]), m, 2*m))",
            "sum(where(flip(m > 0), m, 2*m))",
            "sum(where(broadcast_to(m[0] > 0, (2, 2)), m, 2*m))",
        ],
    ),
)
def test_a_mask_may_be_moved(model: str) -> None:
    """Wherever it is, it holds for all numbers of a box."""
    inputs = "{m: {value: [[1, 2], [3, -0.5]], domain: [-4, 4]}}"
    found = searched(spec_of(inputs, model), budget=1.0)
    assert found["value-nonfinite"].verdict == "proven-absent"
    assert found["gradient-inaccurate"].verdict == "proven-absent"
    assert found["undefined"].verdict != "proven-absent"  # it has a jump


def test_what_is_made_of_others_is_proven() -> None:
    spec = spec_of("{x: {value: [1, 2], domain: [-5, 5]}, y: [0, 1]}", "mse(x, y)")
    assert searched(spec, budget=1.0)["value-inaccurate"].verdict == "proven-absent"


def test_a_share_of_a_tie_is_never_a_quotient_by_0() -> None:
    """JAX's derivative of a maximum, where the engine may see another tie than there is."""
    text = "where(x == z, 1.0, 0.0) / where(y == z, 2.0, 1.0) + x / where(y == z, 2.0, 1.0)"
    program = spec_of("{x: 1.0, y: 2.0, z: 2.0}", text).program
    found = split_evenly(program, {})
    assert [node.op for node in found.nodes].count("divide") == 1
    function = (PlainFunction(one, "float64") for one in (program, found))
    values = [{"x": x, "y": y, "z": 2.0} for x in (1.0, 2.0) for y in (2.0, 3.0)]
    one, other = ([f({n: np.asarray(v) for n, v in at.items()}) for at in values] for f in function)
    assert one == other


def test_a_kernel_that_adds_in_any_order_is_a_sum() -> None:
    program = spec_of("{x: 1.0, y: 2.0}", "x + y + x*y").program
    nodes = [replace(one, text="AddN" if one.op == "add" else one.text) for one in program.nodes]
    found = gathered(replace(program, nodes=tuple(nodes)))
    assert [node.op for node in found.nodes if node.args] == ["add", "multiply", "stack", "sum"]
    stack = next(node for node in found.nodes if node.op == "stack")
    assert (len(stack.args), stack.shape, found.result.shape) == (3, (3,), ())
    assert [node.op for node in gathered(program).nodes] == [node.op for node in program.nodes]


@pytest.mark.parametrize("exponent", [-5, -2, -1, 2, 3, 4, 7])
def test_a_power_of_a_kernel_that_multiplies_is_its_products(exponent: int) -> None:
    program = spec_of("{x: 2.0}", f"x ** {exponent} + 1").program
    nodes = tuple(
        replace(node, text="integer_pow") if node.op == "power" else node for node in program.nodes
    )
    found = unrolled(replace(program, nodes=nodes))
    rows = {node.op for node in found.nodes if node.args}
    assert ("divide" in rows, "multiply" in rows) == (exponent < 0, exponent != -1)
    assert "power" not in rows
    boxes = BoxProgram(found, {}, FORMATS["float32"], Rounding.of(FORMATS["float32"], True))
    (value,) = boxes({"x": np.array([2.0])}, {"x": np.array([2.0])}, 1)
    assert value is not None
    assert value.lo[0] <= 2.0**exponent + 1 <= value.hi[0]
    assert value.hi[0] - value.lo[0] < 1e-12 * value.hi[0]


@pytest.mark.parametrize(("exponent", "multiplies"), [("2", True), ("3", True), ("4", False)])
def test_pytorch_multiplies_for_squares_and_cubes_alone(exponent: str, multiplies: bool) -> None:
    program = spec_of("{x: 2.0}", f"x ** {exponent}").program
    text = "aten.pow.Tensor_Scalar"
    nodes = tuple(replace(node, text=text) if node.args else node for node in program.nodes)
    rows = {node.op for node in unrolled(replace(program, nodes=nodes)).nodes if node.args}
    assert ("multiply" in rows) == multiplies
    assert ("power" in rows) != multiplies


A = "reshape(x, (2, 2))"


@pytest.mark.parametrize(
    "model",
    [
        "sum(conv1d(reshape(x, (1, 1, 4)), reshape(x[:2], (1, 1, 2)), stride=2, padding=1) ** 3)",
        "sum(conv1d(reshape(x, (1, 2, 2)), reshape(x, (2, 1, 2)), groups=2) ** 3)",
        "sum(conv2d(reshape(x, (1, 1, 2, 2)), reshape(x, (1, 1, 2, 2)), padding=1) ** 3)",
        "sum(cross(x[:3], x[1:]) ** 3)",
        "sum(roll(x, 1) * x ** 2)",
        f"sum({A} @ (eye(2) + full((2, 2), 0.5)) ** 2)",
        "sum(zeros_like(x) * x + ones((4,)) * x)",
        f"norm({A}) + norm({A}, ord=1) + sum(avg_pool2d(reshape(x, (1, 1, 2, 2)), 2))",
        f"det({A} + 2 * eye(2)) + logdet({A} + 2 * eye(2))",
        f"sum(inv({A} + 2 * eye(2)) ** 2) + sum(solve({A} + 2 * eye(2), x[:2]))",
        "sum(cummax(x, axis=0) * x) + sum(cummin(x, axis=0) ** 2)",
    ],
)
def test_what_is_written_in_other_rows_is_the_same_number(model: str) -> None:
    point = [0.5, -0.25, 0.75, 0.3]
    lo, hi, bad = boxed(model, point, point)
    value = float(
        PlainFunction(spec_of(f"{{x: {point}}}", model).program, "float64")({"x": np.array(point)})
    )
    assert not bad
    assert lo <= value <= hi
    assert hi - lo < 1e-12 * (1 + abs(value))
