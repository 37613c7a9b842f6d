"""What is written of a row in a framework's words is what the row computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Program
from gradcheck_cli.explain.fixes.code import Inline, code_of, inline
from gradcheck_cli.explain.fixes.dialects import DIALECTS
from gradcheck_cli.formula.program import used_inputs
from reference_engine.op import TABLE
from tests.every import by_family
from tests.reference_engine.samples import SAMPLES
from tests.rows import program_of_row


def ran(framework: str, code: Inline, arrays: Sequence[Array]) -> Array:
    """What the code gives where `x0`, `x1`, ... are the arrays."""
    names: dict[str, Any] = {}
    exec("\n".join([*code.imports, code.definitions]), names)
    if framework == "jax":
        import jax

        # One compilation an expression, not one an operation.
        evaluated = jax.jit(lambda *traced: _evaluated(code, names, traced, lambda x: x))
        with jax.enable_x64(True):
            return np.asarray(evaluated(*arrays))
    return np.asarray(_evaluated(code, names, arrays, _ARRAYS[framework]()))


def _evaluated(
    code: Inline, names: dict[str, Any], arrays: Sequence[Any], made: Callable[[Any], Any]
) -> Any:
    return eval(code.expression, {**names, **{f"x{i}": made(x) for i, x in enumerate(arrays)}})


def _torch() -> Callable[[Array], Any]:
    import torch

    return torch.tensor


def _tensorflow() -> Callable[[Array], Any]:
    import tensorflow as tf

    return tf.constant


_ARRAYS = {"torch": _torch, "tensorflow": _tensorflow, "numpy": lambda: np.asarray}


@pytest.mark.exhaustive
@pytest.mark.parametrize("framework", [dialect.name for dialect in DIALECTS])
@by_family(TABLE)
def test_every_row_that_is_written_is_the_row(op: str, framework: str) -> None:
    for sample in SAMPLES[op][:3]:
        arrays = sample.arrays(3)
        code = inline(program_of_row(op, arrays, sample.keywords), framework)
        if code is not None and all(array.size for array in arrays):
            value = TABLE[op].value(*arrays, **sample.keywords)
            found = ran(framework, code, arrays)
            assert found.shape == value.shape, code.expression
            np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-9, err_msg=code.expression)


@pytest.mark.exhaustive
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
@by_family(TABLE)
def test_every_row_that_is_copied_into_a_script_is_the_row(op: str, framework: str) -> None:
    for sample in SAMPLES[op][:3]:
        arrays = sample.arrays(3)
        program = program_of_row(op, arrays, sample.keywords)
        source = code_of(program, deep=True).get(framework)
        if source is not None and all(array.size for array in arrays):
            assert "gradcheck" not in source
            value = TABLE[op].value(*arrays, **sample.keywords)
            names = [f"x{i}" for i in used_places(program)]
            code = Inline(f"f({', '.join(names)})", source, ())
            found = ran(framework, code, arrays)
            assert found.shape == value.shape, source
            np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-9, err_msg=source)


def used_places(program: Program) -> list[int]:
    used = used_inputs(program)
    return [i for i, name in enumerate(program.inputs) if name in used]
