"""What is asked of which engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.evaluation import FIRST_ORDER, SECOND, Projection
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines import devices
from gradcheck_cli.engines.registry import Registered, engines
from gradcheck_cli.run.plan import Plan, make_plan
from gradcheck_cli.run.spec_state import Work

Read = Callable[[str], Spec]
SQUARE = "inputs: {x: 2.5}\nmodel: x ** 2"
CUSTOM = """
inputs: {x: 1.0}
model: |
  def f_vjp(upstream, x):
      return upstream * exp(x)
  @custom_gradient(f_vjp)
  def f(x):
      return exp(x)
  f(x)
"""


def _plan(spec: Spec, **settings: object) -> Plan:
    layered = {
        name: Layered(override=value)
        if name in ("engines", "dtypes", "modes", "timeout")
        else value
        for name, value in settings.items()
    }
    return make_plan(spec, RunOptions(**layered), engines())  # type: ignore[arg-type]


def _without(name: str) -> Mapping[str, Registered]:
    """The registry of a machine on which a framework is not installed."""
    known = dict(engines())
    there = known[name]
    known[name] = Registered(name, there.target, there.engine, None)
    return known


def test_defaults_are_every_engine_two_dtypes_and_both_modes(spec: Read) -> None:
    plan = _plan(spec(SQUARE))
    assert plan.engines[:3] == ("reference", "torch", "tensorflow")
    assert plan.named == plan.named_modes == frozenset()
    assert [look.case.dtype for look in plan.looks] == ["float32", "float64"]
    assert [p.mode for p in plan.looks[0].problems["torch"]] == ["reverse", "forward"]
    assert plan.timeout == 60.0


def test_engine_that_is_not_installed_is_left_out(spec: Read) -> None:
    plan = make_plan(spec(SQUARE), RunOptions(), _without("torch"))
    assert "torch" not in plan.engines


def test_named_engine_that_is_not_installed_gives_the_install_line(spec: Read) -> None:
    options = RunOptions(engines=Layered(override=("torch",)))
    with pytest.raises(UsageError, match="`torch` is not installed") as caught:
        make_plan(spec(SQUARE), options, _without("torch"))
    assert caught.value.help == "pip install 'gradcheck-cli[torch]'"
    assert caught.value.exit_code == 2


def test_unknown_engine_is_corrected(spec: Read) -> None:
    with pytest.raises(UsageError, match="unknown engine `tensorflwo`") as caught:
        _plan(spec(SQUARE), engines=("tensorflwo",))
    assert caught.value.help == "did you mean `tensorflow`?"
    with pytest.raises(UsageError) as caught:
        _plan(spec(SQUARE), engines=("caffe",))
    assert "reference, torch, tensorflow" in caught.value.help
    with pytest.raises(UsageError) as caught:
        _plan(spec(SQUARE), engines=("torhc", "reference", "tensorflwo"))
    assert str(caught.value) == (
        "unknown engine `torhc` (did you mean `torch`?); "
        "unknown engine `tensorflwo` (did you mean `tensorflow`?)"
    )


def test_a_layer_is_not_for_every_engine(spec: Read, tmp_path: Path) -> None:
    (tmp_path / "layer.py").write_text("def f(x): return x\n\ndef g(x): return x\n", "utf-8")
    layer = spec("inputs: {x: 0.1}\nimplementations: {torch: layer.py:f, jax: layer.py:g}")
    assert _plan(layer, engines=("torch", "reference")).engines == ("torch",)
    assert _plan(layer, engines=("torch", "reference")).notes == ()
    plan = _plan(layer, engines=("tensorflow", "reference"))
    told = "`implementations` has a layer for torch, jax, but none for tensorflow, reference"
    assert (plan.engines, plan.layers, plan.notes) == ((), (), (told,))


def test_command_line_beats_the_spec_beats_the_configuration(spec: Read) -> None:
    stated = spec(SQUARE + "\ndtypes: [float16]\ntimeout: 5")
    assert _plan(stated).looks[0].case.dtype == "float16"
    assert _plan(stated, dtypes=("bfloat16",)).looks[0].case.dtype == "bfloat16"
    options = RunOptions(dtypes=Layered(fallback=("float64",)), timeout=Layered(fallback=9.0))
    assert make_plan(stated, options, engines()).looks[0].case.dtype == "float16"
    assert make_plan(stated, options, engines()).timeout == 5.0
    assert make_plan(spec(SQUARE), options, engines()).looks[0].case.dtype == "float64"


def test_values_are_rounded_to_each_dtype(spec: Read) -> None:
    plan = _plan(spec("inputs: {x: 0.1}\nmodel: x ** 2"), dtypes=("float32", "float64"))
    assert plan.looks[0].case.values["x"] == np.float64(np.float32(0.1))
    assert plan.looks[1].case.values["x"] == 0.1
    problem = plan.looks[0].problems["reference"][0]
    assert (problem.dtype, problem.rounding) == ("float32", "float32")


def test_integers_are_not_rounded(spec: Read) -> None:
    text = "inputs: {x: 1.0, n: {value: 2049, dtype: int64}}\nmodel: x * n"
    plan = _plan(spec(text), dtypes=("float16",))
    assert plan.looks[0].case.values["n"] == 2049
    assert plan.looks[0].case.values["n"].dtype == np.int64


def test_points_are_looks_of_their_own(spec: Read) -> None:
    plan = _plan(spec(SQUARE + "\npoints: [{x: 1.0}, {x: 2.0}]"), dtypes=("float64",))
    assert [(look.case.point, float(look.case.values["x"])) for look in plan.looks] == [
        (0, 1.0),
        (1, 2.0),
    ]
    assert _plan(spec(SQUARE)).looks[0].case.point is None


def test_small_jacobians_are_whole(spec: Read) -> None:
    plan = _plan(spec("inputs: {x: {shape: [64], distribution: normal}}\nmodel: sin(x)"))
    for projection in plan.looks[0].case.projections.values():
        assert projection.rows is None
        assert projection.columns is None


def test_many_rows_are_probed_in_reverse_and_many_columns_in_forward(spec: Read) -> None:
    tall = "inputs: {x: {shape: [2], distribution: normal}}\nmodel: broadcast_to(x, (65, 2))"
    projections = _plan(spec(tall)).looks[0].case.projections
    assert projections["reverse"].rows is not None
    assert projections["reverse"].rows.shape == (4, 65, 2)
    assert projections["forward"].columns is None
    wide = "inputs: {x: {shape: [5, 13], distribution: normal}}\nmodel: sum(x * x)"
    projections = _plan(spec(wide)).looks[0].case.projections
    assert projections["reverse"].rows is None
    assert projections["forward"].columns is not None
    assert projections["forward"].columns["x"].shape == (4, 5, 13)


def test_probes_are_seeded_exact_and_of_two_kinds(spec: Read) -> None:
    text = "inputs: {x: {shape: [100], distribution: normal, seed: 1}}\nmodel: sum(x * x)"
    one = spec(text)

    def probes(dtype: str, seed: int = 0) -> np.ndarray:
        columns = (
            _plan(one, dtypes=(dtype,), seed=seed).looks[0].case.projections["forward"].columns
        )
        assert columns is not None
        return columns["x"]

    wide, narrow = probes("float64"), probes("bfloat16")
    np.testing.assert_array_equal(wide, probes("float64"))
    np.testing.assert_array_equal(narrow, FORMATS["bfloat16"].round(wide))
    assert not np.array_equal(wide, probes("float64", seed=1))
    assert len(np.unique(np.abs(wide[1]))) == len(np.unique(np.abs(wide[3]))) == 1
    assert len(np.unique(np.abs(wide[0]))) == len(np.unique(np.abs(wide[2]))) == 100


def test_probes_have_the_size_of_their_input(spec: Read) -> None:
    text = (
        "inputs:\n"
        "  small: {shape: [80], distribution: uniform, low: 1.0e-3, high: 2.0e-3}\n"
        "  large: {shape: [80], distribution: uniform, low: 1000, high: 2000}\n"
        "model: sum(small * large)"
    )
    columns = _plan(spec(text)).looks[0].case.projections["forward"].columns
    assert columns is not None
    assert np.all(np.abs(columns["small"][1]) == 2.0**-10)
    assert np.all(np.abs(columns["large"][1]) == 2.0**10)


def test_second_order_adds_its_modes(spec: Read) -> None:
    text = "inputs: {x: [1.0, 2.0]}\nmodel: sin(x)\norder: 2"
    assert [p.mode for p in _plan(spec(text)).looks[0].problems["torch"]] == [
        *FIRST_ORDER,
        *SECOND[:4],
    ]
    plan = _plan(spec(f"{text}\nmodes: [forward]"))
    assert [p.mode for p in plan.looks[0].problems["torch"]] == ["forward", "forward-over-forward"]
    projection = plan.looks[0].case.projections["forward-over-forward"]
    assert projection.rows is not None
    assert projection.rows.shape == (1, 2)
    assert projection.columns is None
    assert plan.named_modes == {"forward", "forward-over-forward"}


def test_pairs_of_directions_stand_for_many_pairs_of_entries(spec: Read) -> None:
    text = "inputs: {{x: {{shape: [{}], distribution: normal}}}}\nmodel: sum(x ** 3)\norder: 2"
    few = _plan(spec(text.format(4))).looks[0].case.projections
    assert len({id(few[mode]) for mode in SECOND[:4]}) == 1
    many = _plan(spec(text.format(5))).looks[0].case.projections
    assert many["reverse-over-forward"] == Projection()
    alone = many["forward-over-forward"]
    assert alone.firsts is not None
    assert alone.columns is not None
    assert alone.firsts["x"].shape == alone.columns["x"].shape == (1, 5)
    assert not np.array_equal(alone.firsts["x"], alone.columns["x"])


def test_third_order_is_a_look_of_its_own(spec: Read) -> None:
    text = "inputs: {x: [1.0, 2.0]}\nmodel: sin(x) * 0.1\norder: 3\ndtypes: [float32]"
    one, third = _plan(spec(text)).looks
    assert set(one.case.projections) == {*FIRST_ORDER, *SECOND[:4]}
    assert set(third.case.projections) == set(SECOND[4:])
    assert third.truth.program is third.case.spec.program
    assert all(p.program is one.case.spec.program for p in third.problems["torch"])


def test_large_hessians_are_probed(spec: Read) -> None:
    text = "inputs: {x: {shape: [33], distribution: normal}}\nmodel: sum(x ** 3)\norder: 2"
    projection = _plan(spec(text)).looks[0].case.projections["reverse-over-reverse"]
    assert projection.rows is None
    assert projection.columns is not None
    assert projection.columns["x"].shape == (4, 33)


def test_forward_mode_that_cannot_use_a_rule_is_left_out_with_a_note(spec: Read) -> None:
    plan = _plan(spec(CUSTOM))
    look = plan.looks[0]
    assert [p.mode for p in look.problems["reference"]] == ["reverse", "forward"]
    assert [p.mode for p in look.problems["torch"]] == ["reverse"]
    assert look.case.evaluations == ()
    assert {"torch", "tensorflow", "jax"} <= {note.partition(":")[0] for note in plan.notes}
    assert plan.notes[0].startswith("torch: forward mode was left out: ")


def test_it_is_left_out_for_named_engines_too(spec: Read) -> None:
    plan = _plan(spec(CUSTOM), engines=("torch",))
    assert plan.looks[0].case.evaluations == ()
    assert len(plan.notes) == 1


def test_mode_that_was_named_is_refused_aloud(spec: Read) -> None:
    plan = _plan(spec(CUSTOM), modes=("forward",), engines=("torch", "reference"))
    (refused,) = plan.looks[0].case.evaluations
    assert (refused.engine, refused.mode) == ("torch", "forward")
    assert refused.failure is not None
    assert refused.failure.kind == "unsupported"
    assert plan.notes == ()


def test_engine_without_a_mode(spec: Read, fakes: dict[str, str]) -> None:
    plan = _plan(spec(SQUARE), engines=("onemode",))
    assert [p.mode for p in plan.looks[0].problems["onemode"]] == ["reverse"]
    named = _plan(spec(SQUARE), engines=("onemode",), modes=("forward",))
    assert named.looks[0].case.evaluations[0].failure is not None
    assert named.looks[0].case.evaluations[0].failure.message == "onemode has no forward mode"


def test_a_named_engine_that_can_do_nothing_of_a_spec_refuses_it_aloud(spec: Read) -> None:
    plan = _plan(spec(SQUARE), engines=("numpy", "reference"))
    refused = plan.looks[0].case.evaluations
    assert [(found.engine, found.mode) for found in refused] == [
        ("numpy", "reverse"),
        ("numpy", "forward"),
    ]
    assert "not formulas" in str(refused[0].failure)
    assert plan.notes == ()


def test_truth_is_asked_for_the_modes_that_run(spec: Read) -> None:
    text = "inputs: {x: {value: 1.0, domain: [0, 5]}}\nmodel: log(x)\nmodes: [reverse]"
    truth = _plan(spec(text), dtypes=("float32",)).looks[0].truth
    assert list(truth.projections) == ["reverse"]
    assert truth.bounds == {"x": (0.0, 5.0)}
    assert truth.dtype == "float32"


def test_training_has_a_problem_a_dtype(spec: Read) -> None:
    text = (
        "inputs: {w: 0.1}\nmodel: w ** 2\n"
        "train: {optimizer: {sgd: {lr: 0.1}}, steps: 5, parameters: [w]}"
    )
    plan = _plan(spec(text), dtypes=("float32", "float64"))
    assert [p.dtype for p in plan.trainings] == ["float32", "float64"]
    assert plan.trainings[0].values["w"] == np.float64(np.float32(0.1))
    assert (plan.trainings[0].rate, plan.trainings[0].steps) == (0.1, 5)
    assert plan.trainings[0].parameters == ("w",)


ON_A_GPU = SQUARE + "\ndevice: cuda\n"
TRAINED = ON_A_GPU + "train: {optimizer: {sgd: {lr: 0.1}}, steps: 2, parameters: [x]}"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one."""
    monkeypatch.setattr(devices, "cuda_devices", lambda: (1, ""))


@pytest.mark.usefixtures("gpu")
def test_a_device_beats_and_is_beaten_like_every_setting(spec: Read) -> None:
    def placed(text: str, **layers: str) -> Placement:
        options = RunOptions(device=Layered(**layers))
        return make_plan(spec(text), options, engines()).placement

    assert placed(SQUARE) == HOST
    assert placed(SQUARE, fallback="cuda") == placed(ON_A_GPU) == Placement("cuda", "full")
    assert placed(ON_A_GPU, override="cpu", fallback="cuda") == HOST
    assert placed(ON_A_GPU + "matmul_precision: tf32\n") == Placement("cuda", "tf32")
    assert placed(SQUARE + "\nmatmul_precision: tf32\n") == HOST  # the CPU has no such thing


@pytest.mark.usefixtures("gpu")
def test_engines_without_the_device_refuse_it_where_they_were_named(spec: Read) -> None:
    words = "eigen runs on the CPU only; the device `cuda` is not supported"
    plan = _plan(spec(TRAINED), engines=("torch", "jax", "tensorflow", "eigen"))
    assert plan.without == {"eigen"}
    look = plan.looks[0]
    refused = look.case.evaluations
    assert {found.engine for found in refused} == {"eigen"}
    assert {str(found.failure and found.failure.message) for found in refused} == {words}
    assert look.problems["eigen"] == ()
    assert all(look.problems[name] for name in ("torch", "jax", "tensorflow"))
    assert plan.notes[0] == "computed on cuda; float32 products in full precision"
    unnamed = [note for note in _plan(spec(TRAINED)).notes if "left out" in note]
    assert unnamed == [
        "reference: reverse and forward mode were left out: "
        "reference runs on the CPU only; the device `cuda` is not supported"
    ]
    (path,) = Work(plan).trainings[0].paths  # of a training it is not asked either
    assert Work(_plan(spec(TRAINED))).trainings[0].paths == ()  # no word of what nobody named
    assert path.engine == "eigen"
    assert path.failure is not None
    assert path.failure.message == words


def test_a_device_that_is_not_here_is_a_mistake_of_the_call(
    spec: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "cuda_devices", lambda: (0, "there is none"))
    with pytest.raises(UsageError, match="there is no device `cuda` here: there is none"):
        _plan(spec(ON_A_GPU))
