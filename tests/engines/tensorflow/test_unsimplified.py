"""A stage of XLA that has a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.evaluation import SECOND, Problem, Projection
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.subject import Call
from gradcheck_cli.engines.tensorflow import unsimplified
from gradcheck_cli.engines.tensorflow.compiler import UNSIMPLIFIED
from tests.checks.making import layer_problem, subject_of


@pytest.mark.exhaustive
def test_the_simplifier_alone_takes_log_of_exp_for_its_argument(
    engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    """Without it, exp(89) overflows float32."""
    values = {"x": np.array([89.0])}
    question = Problem(
        program("sum(log(exp(x)))", values),
        values,
        ("x",),
        "float32",
        "float32",
        "reverse",
        Projection(),
    )
    engine = engine_called("tensorflow-xla")
    assert engine.evaluate(question).output == 89.0
    found = engine.evaluate(replace(question, stage=UNSIMPLIFIED))
    assert found.failure is None, found.failure
    assert found.output == np.inf
    assert np.isnan(found.gradients["x"].values)


@pytest.mark.exhaustive
def test_a_layer_has_one_such_process_for_every_mode(
    engine_called: Callable[[str], Engine], tmp_path: Path
) -> None:
    """What the layer prints is no answer."""
    text = "import tensorflow as tf\ndef f(x):\n    print('x')\n    return tf.math.log(tf.exp(x))\n"
    (tmp_path / "layer.py").write_text(text)
    problem = layer_problem("layer.py:f", {"x": [89.0]}, dtype="float32", engine="tensorflow-xla")
    layer = replace(problem.implementation, folder=str(tmp_path))
    engine = engine_called("tensorflow-xla")
    subject = Subjects(engine, replace(problem, implementation=layer)).bound("float32")
    row, one = np.ones(1), {"x": np.ones(1)}
    with subject.at_stage(UNSIMPLIFIED):
        assert subject.run(Call(cotangents=row[None])).output == np.inf
        assert np.isnan(subject.jvp(one))
        for mode in SECOND[:3]:
            assert np.isnan(subject.hvp(mode, row, one)["x"])
        assert np.isnan(subject.second_tangent(row, one, one))
        with pytest.raises(Unsupported, match="KeyError"):
            subject.jvp({"z": np.ones(1)})
    assert subject.run(Call()).output == 89.0


@pytest.mark.exhaustive
def test_a_layer_in_memory_has_no_such_stage(engine_called: Callable[[str], Engine]) -> None:
    subject = subject_of(engine_called("tensorflow-xla"), lambda x: 2.0 * x, x=[1.0])
    with subject.at_stage(UNSIMPLIFIED), pytest.raises(Unsupported, match="handed this layer"):
        subject.run(Call())


def test_a_stage_that_never_answers_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsimplified, "LIMIT_S", 0.0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with unsimplified.unsimplified_process(None) as process:
        with pytest.raises(Unsupported, match="no answer within 0 s"):
            process.ask("what runs for ever")
        with pytest.raises(Unsupported):  # it is not asked again
            process.ask("what follows")
