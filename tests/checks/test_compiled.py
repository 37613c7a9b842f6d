"""Compiled derivatives: the gradient that is judged is the compiled one, and a wrong one is blamed
on a stage of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from gradcheck_cli import check
from gradcheck_cli.checks.compiled import blamed_on_a_stage, notes_of_better
from gradcheck_cli.checks.protocol import Steps, drive
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Check, Entry, Finding, Indexing, Status
from gradcheck_cli.engines.torch import compiled
from gradcheck_cli.engines.torch.compiled import FELL_BACK, NO_FORWARD_MODE, NOTE, THE_BACKEND
from gradcheck_cli.engines.torch.engine import TorchCompileEngine, TorchEngine
from tests.checks.making import examined, subject_of


def as_traced(graph: Any, inputs: Any) -> Any:
    return make_boxed_func(graph.forward)


def doubled(graph: Any, inputs: Any) -> Any:
    """A compiler of backward passes that makes a mistake."""
    return make_boxed_func(lambda *args: [2 * one for one in graph.forward(*args)])


def layer(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * x


def test_a_wrong_compiled_gradient_is_found_where_the_layer_as_written_is_right() -> None:
    wrong = torch.compile(layer, backend=aot_autograd(fw_compiler=as_traced, bw_compiler=doubled))
    right = torch.compile(layer, backend=aot_autograd(fw_compiler=as_traced))
    for dtype in ("float32", "float64"):
        found = examined(wrong, {"x": [0.5, 1.5]}, dtype=dtype)
        assert {finding.code for finding in found.findings} == {"GC108"}
        assert {finding.stage for finding in found.findings} == {THE_BACKEND}
        assert {finding.mode for finding in found.findings} == {"reverse"}
        assert NOTE in found.notes
        assert any(NO_FORWARD_MODE in note for note in found.notes)
    passed = examined(right, {"x": [0.5, 1.5]}, dtype="float32")
    assert passed.failure is None
    assert passed.findings == ()


class Squashed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.nn.functional.softplus(x))


def within(part: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Tanh(), part, torch.nn.Tanh())


@pytest.mark.parametrize("placed", [lambda part: part, within], ids=["whole", "a part"])
@pytest.mark.parametrize(("backward", "codes"), [(as_traced, set()), (doubled, {"GC108"})])
def test_a_module_that_is_compiled_in_place_is_judged_as_compiled(
    placed: Any, backward: Any, codes: set[str]
) -> None:
    part = Squashed()
    part.compile(backend=aot_autograd(fw_compiler=as_traced, bw_compiler=backward))
    found = examined(placed(part), {"x": [0.5, 1.5]}, dtype="float32")
    assert {finding.code for finding in found.findings} == codes
    assert NOTE in found.notes


def test_a_module_of_pytorch_that_is_compiled_in_place_is_not_compiled() -> None:
    torch._dynamo.reset()
    part = torch.nn.Sequential(torch.nn.Softplus())
    part.compile(backend=aot_autograd(fw_compiler=as_traced, bw_compiler=doubled))
    found = examined(part, {"x": [0.5, 1.5]}, dtype="float32")
    assert FELL_BACK in found.notes
    assert found.findings == ()


def test_a_broken_graph_has_a_note() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return y * x

    compiled = torch.compile(broken, backend=aot_autograd(fw_compiler=as_traced))
    found = examined(compiled, {"x": [0.5, 1.5]}, dtype="float32")
    assert found.findings == ()
    assert any("torch.compile breaks its graph at line" in note for note in found.notes)


calls = 0


def test_what_is_compiled_for_each_value_has_a_note() -> None:
    def counted(x: torch.Tensor) -> torch.Tensor:
        global calls
        calls += 1
        return x * (0.0 * calls + 1.0)

    compiled = torch.compile(counted, backend=aot_autograd(fw_compiler=as_traced))
    found = [subject_of(TorchEngine(), compiled, x=[0.5, 1.5]).notes for _ in range(2)]
    note = "torch.compile recompiles the layer for each value of `G['calls']`"
    assert [note in notes for notes in found] == [False, True]


def test_a_layer_that_the_compiler_leaves_out_has_a_note() -> None:
    inner = torch.compiler.disable(layer)
    subject = subject_of(TorchCompileEngine(), lambda x: inner(x), x=[0.5, 1.5])
    assert FELL_BACK in subject.notes
    assert NOTE not in subject.notes


@pytest.mark.exhaustive
def test_a_function_that_tensorflow_compiled_is_traced_once_for_each_dtype_and_shape() -> None:
    import tensorflow as tf

    function = tf.function(lambda x: tf.tanh(x) ** 2, jit_compile=True)
    for values in ([0.3, -1.2], [2.1, 0.7], [0.3, -1.2, 2.1]):
        assert check(function, tf.constant(values, tf.float64), engines="tensorflow").passed
        shapes = 1 if len(values) == 2 else 2
        assert function.experimental_get_tracing_count() == 2 * shapes


@pytest.mark.exhaustive
@pytest.mark.parametrize("factor", [1.0, 1.0001])
def test_a_saturated_layer_of_float32_alone_is_wrong_only_if_its_rule_is(factor: float) -> None:
    """tanh(3.375) is the same number a few ulps away, so its rounding error stays there."""
    import tensorflow as tf

    @tf.custom_gradient
    def tanh(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        y = tf.tanh(x)
        return y, lambda y_bar: factor * y_bar * (1 - y * y)

    signature = [tf.TensorSpec([None], tf.float32)]
    function = tf.function(
        lambda x: tanh(x**3), input_signature=signature, jit_compile=True, autograph=False
    )
    report = check(function, tf.constant([0.5, -1.2, 1.5, -1.0]), modes=["reverse"])
    codes = [one.code for result in report.results for one in result.findings]
    assert (codes == ["GC101"]) == (factor != 1)
    assert "GC101" in codes or report.passed


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", ["jax", "jax-jit"])
def test_another_point_compiles_nothing_of_a_layer_of_jax(engine: str) -> None:
    import jax

    seen: list[str] = []

    def listen(event: str, _duration: float, **_: object) -> None:
        if event.endswith("backend_compile_duration"):
            seen.append(event)

    def squared(x: jax.Array) -> jax.Array:
        return jax.numpy.tanh(x) ** 2

    function = jax.jit(squared) if engine == "jax" else squared
    jax.monitoring.register_event_duration_secs_listener(listen)
    counts = []
    for values in ([2.1, 0.7], [0.3, -1.2], [-0.4, 1.1]):  # the first needs a second look, too
        with jax.enable_x64(True):
            assert check(function, jax.numpy.array(values), engines=engine).passed
        counts.append(len(seen))
        seen.clear()
    jax.monitoring.unregister_event_duration_listener(listen)
    assert counts[0] > 0
    assert counts[1:] == [0, 0]


TWO_CONVENTIONS = """
def absolute_vjp(upstream, x):
    return upstream * where(x >= 0, 1, -1)

def absolute_jvp(x_dot, x):
    return x_dot * where(x > 0, 1, -1)

@custom_gradient(absolute_vjp, jvp=absolute_jvp)
def absolute(x):
    return abs(x)

absolute(x)
"""


def test_modes_that_disagree_uncompiled_are_no_fault_of_the_compiler() -> None:
    report = check(TWO_CONVENTIONS, x=0.0, engines="jax-jit", dtypes="float32")
    assert {finding.code for finding in report.findings} == {"GC105", "GC401"}


def test_layers_of_one_factory_do_not_use_up_each_others_compilations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def with_activation(function: Any) -> Any:
        return lambda x: function(x) * x

    monkeypatch.setattr(compiled, "MOST_COMPILED", 1)
    with torch.compiler.set_stance(force_backend="aot_eager"):
        for function in (torch.sin, torch.tanh):
            subject = subject_of(TorchCompileEngine(), with_activation(function), x=[0.5, 1.5])
            assert FELL_BACK not in subject.notes


LADDER = ("no compiler", "early", "late")


def finding(code: str, ulps: float = 1e6) -> Finding:
    entry = Entry((0,), 0.0, 1.0, 0.0, None, None, ulps)
    return Finding(
        code,
        "warning",
        "it is wrong",
        Span(1, 1, 1, 2),
        "e",
        "float32",
        "reverse",
        "x",
        entries=(entry,),
    )


JUDGED = (Check("e", "float32", "reverse", "x", "failed"),)


def blamed(found: Finding, wrong_from: int, others: tuple[Check, ...] = JUDGED) -> Finding:
    """What comes of a finding that is there from stage number `wrong_from` on."""
    made: list[Finding] = []

    def examined_at(stage: str) -> Steps[Any]:
        yield []
        return others, [found] if LADDER.index(stage) >= wrong_from else []

    def steps() -> Steps[None]:
        made.extend((yield from blamed_on_a_stage([found], LADDER, examined_at)))

    drive(steps(), lambda ask: None)
    return made[0]


@pytest.mark.parametrize(("wrong_from", "stage"), [(1, "early"), (2, "late")])
def test_the_first_stage_that_is_wrong_is_to_blame(wrong_from: int, stage: str) -> None:
    found = blamed(finding(Codes.WRONG_GRADIENT), wrong_from)
    assert (found.code, found.severity, found.stage) == ("GC108", "error", stage)
    assert found.message.endswith(f"right with {LADDER[wrong_from - 1]}, wrong from {stage} on")


def test_what_is_wrong_without_a_compiler_is_no_fault_of_it() -> None:
    assert blamed(finding(Codes.WRONG_GRADIENT), 0) == finding(Codes.WRONG_GRADIENT)


def test_a_stage_that_does_not_run_is_not_taken_for_right() -> None:
    refused = replace(finding(Codes.ENGINE_RAISED), input=None)
    wrong = finding(Codes.WRONG_GRADIENT)
    for without in (((), []), (JUDGED, [refused])):
        for early, code in (([wrong], "GC101"), ([], "GC108")):
            made: list[Finding] = []
            answers = {LADDER[0]: without, LADDER[1]: (JUDGED, early)}

            def examined_at(stage: str, answers: Any = answers) -> Steps[Any]:
                yield []
                return answers[stage]

            def steps(made: list[Finding] = made, at: Any = examined_at) -> Steps[None]:
                made.extend((yield from blamed_on_a_stage([wrong], LADDER, at)))

            drive(steps(), lambda ask: None)
            assert made[0].code == code


def test_a_stage_that_says_nothing_may_be_the_one_to_blame() -> None:
    wrong, made = finding(Codes.WRONG_GRADIENT), list[Finding]()
    answers: dict[str, Any] = {LADDER[0]: (JUDGED, []), LADDER[1]: ((), [])}

    def examined_at(stage: str) -> Steps[Any]:
        yield []
        return answers[stage]

    def steps() -> Steps[None]:
        made.extend((yield from blamed_on_a_stage([wrong], LADDER, examined_at)))

    drive(steps(), lambda ask: None)
    assert [(one.code, one.stage) for one in made] == [("GC108", "early or late")]


@pytest.mark.parametrize(
    ("code", "rounding", "expected"),
    [
        (Codes.UNSTABLE_OUTPUT, 0.2, "GC104"),
        (Codes.UNSTABLE_OUTPUT, 0.3, "GC303"),
        (Codes.UNSTABLE_OUTPUT, None, "GC303"),
        (Codes.NON_FINITE_OUTPUT, None, "GC203"),
    ],
)
def test_a_wrong_value_has_a_stage(code: str, rounding: float | None, expected: str) -> None:
    """But where rounding, in another order, may cost as much (four times what the first order
    says)."""
    whole = finding(code)
    entries = (replace(whole.entries[0], rounding=rounding),)
    found = blamed(replace(whole, input=None, entries=entries), 2)
    assert found.code == expected
    assert found.stage == ("" if expected == "GC303" else "late")


@pytest.mark.parametrize(("lost", "code"), [(0, "GC101"), (1, "GC108"), (None, "GC101")])
def test_an_output_that_is_lost_without_the_compiler_has_no_right_gradient_there(
    lost: int | None, code: str
) -> None:
    """XLA takes log(exp(x)) for x in the forward pass alone. Of a formula no entry is named."""
    wrong = replace(finding(Codes.WRONG_GRADIENT), indexing=Indexing(1))
    entries = () if lost is None else (Entry((lost,), float("inf")),)
    output = replace(finding("GC203"), input=None, entries=entries)
    made: list[Finding] = []

    def examined_at(stage: str) -> Steps[Any]:
        yield []
        return JUDGED, [output]

    def steps() -> Steps[None]:
        made.extend((yield from blamed_on_a_stage([wrong], LADDER, examined_at)))

    drive(steps(), lambda ask: None)
    assert made[0].code == code


def test_entries_are_blamed_one_by_one() -> None:
    """One entry is wrong without the compiler, too, and another one from a stage on."""
    whole = finding(Codes.WRONG_GRADIENT)
    first = whole.entries[0]
    whole = replace(whole, entries=(first, replace(first, index=(1,))))
    plain = replace(whole, entries=(first,))
    made: list[Finding] = []

    def examined_at(stage: str) -> Steps[Any]:
        yield []
        return JUDGED, [whole if stage == LADDER[-1] else plain]

    def steps() -> Steps[None]:
        made.extend((yield from blamed_on_a_stage([whole], (*LADDER, "last"), examined_at)))

    drive(steps(), lambda ask: None)
    assert [(one.code, one.stage, one.entries[0].index) for one in made] == [
        ("GC101", "", (0,)),
        ("GC108", "late", (1,)),
    ]
    assert made[1].message.endswith("; entry 1: right with early, wrong from late on")


@pytest.mark.parametrize(("ulps", "code"), [(2.0**9, "GC301"), (2.0**19, "GC108")])
def test_a_compiler_may_lose_a_little_more_than_is_lost_without_it(ulps: float, code: str) -> None:
    """Without it six bits are lost, which are too few for a finding."""
    plain = Check("e", "float32", "reverse", "x", "passed", max_ulps=2.0**6)
    assert blamed(finding(Codes.PRECISION_LOSS, ulps), 2, (plain,)).code == code


def test_a_compiled_derivative_that_alone_is_right_has_a_note() -> None:
    plain = replace(finding(Codes.NAN_GRADIENT), engine="jax")
    checks = [
        Check("jax", "float32", "reverse", "x", "failed"),
        Check("jax-jit", "float32", "reverse", "x", "passed"),
        Check("jax-jit", "float64", "reverse", "x", "passed"),
    ]
    assert list(notes_of_better(checks, [plain])) == [
        "jax-jit is right where jax is not: the gradient of `x` in reverse mode, float32"
    ]
    assert list(notes_of_better(checks, [plain, replace(plain, engine="jax-jit")])) == []


@pytest.mark.parametrize("code", [Codes.NON_FINITE_OUTPUT, Codes.UNSTABLE_OUTPUT])
@pytest.mark.parametrize("status", ["passed", "failed", "error"])
def test_a_compiled_value_that_alone_is_right_has_a_note(code: str, status: Status) -> None:
    """Its gradient may be wrong: XLA takes log(exp(x)) for x in the forward pass alone."""
    plain = replace(finding(code), engine="tensorflow", input=None)
    checks = [
        Check("tensorflow", "float32", "reverse", "x", "failed"),
        Check("tensorflow-xla", "float32", "reverse", "x", status),
        Check("tensorflow-xla", "float64", "reverse", "x", "passed"),
    ]
    note = "tensorflow-xla is right where tensorflow is not: the value in reverse mode, float32"
    assert list(notes_of_better(checks, [plain])) == ([] if status == "error" else [note])
    both = [plain, replace(plain, engine="tensorflow-xla")]
    assert list(notes_of_better(checks, both)) == []
