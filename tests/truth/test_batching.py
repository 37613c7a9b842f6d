import numpy as np
import pytest

from gradcheck_cli.truth.batching import Batch, NotBatched, batch_of_few, batched, tiled
from gradcheck_cli.truth.plain import PlainFunction
from tests.search.searched import spec_of

MODELS = (
    "sum(x * y)",
    "max(x) - mean(y)",
    "x @ y",
    "sum(softmax(x) * log_softmax(y, axis=-1))",
    "logsumexp(x) + y[1]",
    "norm(x) / std(y)",
    "sum(cumsum(x) * y[0])",
    "sum(x[1:] - y[:-1])",
    "sum(reshape(x, (3, 1)) @ reshape(y, (1, 3)))",
    "sum(concatenate([x, y])[2:4])",
    "sum(x) * y[2]",
    "prod(x) * y[0]",
    "sum(flip(x) * y)",
    "dot(x, y)",
    "einsum('i,j->ij', x, y)[0, 1]",
    "einsum('i,i->', x, y)",
    "einsum('i, j', x, y)[0]",
    "einsum('...i,...i', outer(x, y), y)",
    "dot(x, y[0]) * x",
    "dot(2, x) * y",
    "expand_dims(outer(x, y), 0) @ y",
    "y @ stack([outer(x, y), outer(y, x)])",
    "stack([outer(x, y), outer(y, x)]) @ reshape(x, (3, 1))",
    "reshape(x, (1, 3)) @ stack([outer(x, y), outer(y, x)])",
    "sum(outer(x, y) * outer(y, x * x))",
    "sum(moveaxis(reshape(x, (3, 1)), 0, -1) * y)",
    "sum(squeeze(expand_dims(x, axis=1)) * y)",
    "sum(squeeze(expand_dims(x, axis=-2), axis=0) * y)",
)


@pytest.mark.parametrize("model", MODELS)
def test_a_batch_has_what_each_of_its_points_has(model: str) -> None:
    program = spec_of("{x: [1, 2, 3], y: [3, -1, 2]}", model).program
    rng = np.random.default_rng(0)
    values = {name: rng.random((5, 3)) for name in ("x", "y")}
    together = PlainFunction(batched(program, 5), "float64")(values)
    for i, found in enumerate(together):
        alone = PlainFunction(program, "float64")({n: v[i] for n, v in values.items()})
        np.testing.assert_allclose(found, alone, rtol=1e-12)


def test_what_has_no_rule_is_not_batched() -> None:
    with pytest.raises(NotBatched, match="cross"):
        batched(spec_of("{x: [1, 2, 3]}", "cross(x, x)[0]").program, 2)


def test_inputs_that_do_not_move_keep_their_shape() -> None:
    program = spec_of("{x: [1, 2, 3], y: [3, -1, 2]}", "sum(x * tanh(y))").program
    batch = Batch(program, 4, ["x"])
    shapes = [node.shape for node in batch.program.nodes]
    assert [shapes[batch.program.inputs[name]] for name in ("x", "y")] == [(4, 3), (3,)]
    assert shapes[batch.places[program.output - 2]] == (3,)  # tanh(y)
    y, x = np.array([0.5, -1.0, 2.0]), np.arange(12.0).reshape(4, 3)
    found = PlainFunction(batch.program, "float64")({"x": x, "y": y})
    np.testing.assert_allclose(found, x @ np.tanh(y))


def test_nodes_of_many_numbers_are_left_alone() -> None:
    program = spec_of("{x: [1, 2, 3]}", "x * 2").program
    assert batch_of_few(program, 2, 3) is batch_of_few(program, 2, 3) is not None
    assert batch_of_few(program, 2, 2) is None


def test_other_inputs_are_repeated() -> None:
    found = tiled({"x": np.ones(2), "n": np.array([1, 2])}, 3)
    assert (found["x"].shape, found["n"].shape) == ((3, 2), (2,))


def test_a_sum_of_a_number_is_that_number() -> None:
    program = batched(spec_of("{x: 1.0}", "sum(exp(x)) + mean(x)").program, 2)
    x = np.array([0.5, 1.5])
    found = PlainFunction(program, "float64")({"x": x})
    np.testing.assert_allclose(found, np.exp(x) + x)
