"""A user's function template: numbers, matrices and tensors, in and out; what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli import specfile
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.eigen.engine import EigenEngine
from gradcheck_cli.engines.eigen.layer import EigenSubject, _stating
from gradcheck_cli.engines.errors import EngineFault, Unsupported
from gradcheck_cli.engines.layer.subject import Call, SubjectRequest
from tests.checks.making import layer_problem

FOLDER = Path(__file__).parent
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def subject(
    name: str,
    *,
    header: str = "layers.hpp",
    args: tuple[Any, ...] = (),
    dtype: str = "float64",
    **values: Any,
) -> EigenSubject:
    span = Span(1, 1, 1, 2)
    implementation = Implementation("eigen", f"{header}:{name}", str(FOLDER), span, args)
    arrays = {key: np.asarray(value) for key, value in values.items()}
    return EigenEngine().subject(SubjectRequest(implementation, arrays, dtype, dtype))


def test_matrices_vectors_numbers_and_fixed_arguments() -> None:
    x, w, b, t = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 4)), RNG.normal(size=4), 0.7
    layer = subject("dense", args=(0.5, True), x=x, w=w, b=b, t=t)
    assert [(leaf.name, leaf.differentiable) for leaf in layer.leaves] == [
        (n, True) for n in "xwbt"
    ]
    z = x @ w + b
    right = 0.5 * np.tanh(t * z)
    assert layer.outputs[0].shape == (2, 4)
    np.testing.assert_allclose(layer.value({}), right.ravel(), rtol=1e-14)
    row = RNG.normal(size=(2, 4))
    ran = layer.run(Call(cotangents=row.reshape(1, -1)))
    z_bar = row * 0.5 * t * (1 - np.tanh(t * z) ** 2)
    expected = {"x": z_bar @ w.T, "w": x.T @ z_bar, "b": z_bar.sum(0), "t": (z_bar * z / t).sum()}
    for name, gradient in ran.gradients.items():
        np.testing.assert_allclose(gradient[0], np.ravel(expected[name]), rtol=1e-12)
    tangent = RNG.normal(size=4)
    pushed = layer.jvp({"b": tangent, "t": np.array(2.0)})
    by_hand = 0.5 * (1 - np.tanh(t * z) ** 2) * (t * tangent + 2.0 * z)
    np.testing.assert_allclose(pushed, by_hand.ravel(), rtol=1e-12)
    moved = layer.value({"b": b + 1})
    np.testing.assert_allclose(moved, 0.5 * np.tanh(t * (z + 1)).ravel(), rtol=1e-14)


def test_arrays_of_whatever_kind() -> None:
    x, w = RNG.normal(size=(2, 3)), RNG.normal(size=3)
    layer = subject("kinds", x=x, w=w, v=w, at=np.array([0, 2]))
    assert layer.outputs[0].shape == (2,)
    np.testing.assert_allclose(layer.value({}), [(x @ w).sum(), w[2] * w[0]], rtol=1e-14)
    ran = layer.run(Call(cotangents=np.array([[1.0, 0.0]])))
    np.testing.assert_allclose(ran.gradients["x"], np.tile(w, 2)[None], rtol=1e-14)


@pytest.mark.parametrize(
    "name", ["by_column", pytest.param("by_row", marks=pytest.mark.exhaustive)]
)
def test_tensors_in_and_out(name: str) -> None:
    x, w = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(3, 4))
    layer = subject(name, header="tensors.hpp", x=x, w=w, one=[1.0])
    weights = np.arange(1, 4)[None, :, None]
    assert layer.outputs[0].shape == (2, 4)
    right = (weights * x * x * w).sum(1)
    np.testing.assert_allclose(layer.value({}).reshape(2, 4), right, rtol=1e-13)
    gradient = layer.run(Call(cotangents=np.ones((1, 8)))).gradients["x"]
    np.testing.assert_allclose(gradient.reshape(x.shape), 2 * weights * x * w)


def test_static_variables_belong_to_one_subject() -> None:
    layer, other = subject("kept", x=2.0), subject("kept", x=3.0)
    np.testing.assert_array_equal(layer.value({"x": np.array(5.0)}), [10.0])
    np.testing.assert_array_equal(other.value({"x": np.array(5.0)}), [15.0])
    other.close()
    np.testing.assert_array_equal(layer.value({}), [4.0])
    with pytest.raises(Unsupported, match="first derivatives only"):
        layer.hvp("forward-over-reverse", np.ones(1), {"x": np.array(1.0)})


STATED = """
// AutoDiffScalar decay(x) {
template <typename T>
T used(const T& x) {
  if (decay(x) > T(0)) { return x; }
  return -x;
}

template <typename R, int N>
Eigen::AutoDiffScalar<Eigen::Matrix<R, N, 1>>
    decay(const Eigen::AutoDiffScalar<Eigen::Matrix<R, N, 1>>& x) {
  return {std::exp(-x.value()), std::exp(-x.value()) * x.derivatives()};
}

template <typename T>
T own(const T& x) {
  T y = x;
  y.derivatives() *= 2;
  return y;
}
"""


@pytest.mark.parametrize(
    ("name", "place"), [("used", None), ("decay", (11, 5)), ("own", (16, 3)), ("none", None)]
)
def test_a_function_that_states_its_derivatives_is_found_in_its_header(
    name: str, place: tuple[int, int] | None
) -> None:
    found = _stating(name, {Path("a.hpp"): STATED})
    assert (None if found is None else (found.span.line, found.span.column)) == place


def test_a_wrong_derivative_of_its_own_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.hpp").write_text("#include <cmath>\n" + STATED)
    implementation = Implementation("eigen", "a.hpp:decay", str(tmp_path), Span(1, 1, 1, 2))
    problem = layer_problem("", {"x": 0.7}, modes=("forward",), engine="eigen")
    spec = replace(problem.spec, implementations=(implementation,))
    problem = replace(problem, spec=spec, implementation=implementation)
    answer = examine(EigenEngine(), problem)
    (found,) = answer.findings
    assert found.cause is not None
    assert (found.code, found.cause.kind, found.cause.span.line) == ("GC101", "wrong rule", 12)
    assert "called at" not in found.cause.story
    assert not any("could not be examined" in note for note in answer.notes)


def test_what_is_not_initialised_has_no_derivative() -> None:
    layer = subject("unset", x=[1.0, 2.0])
    assert np.isnan(layer.run(Call(cotangents=np.ones((1, 1)))).gradients["x"]).all()


def test_float_loses_what_float_loses() -> None:
    layer = subject("mine::reciprocal_exp", dtype="float32", x=100.0)
    assert layer.outputs[0].shape == ()
    assert np.isnan(layer.run(Call(cotangents=np.ones((1, 1)))).gradients["x"]).all()
    with pytest.raises(Unsupported, match="float and double"):
        subject("mine::reciprocal_exp", dtype="float16", x=1.0)


def test_sizes_that_do_not_fit_are_told_and_crash_nothing() -> None:
    with pytest.raises(EngineFault, match=r"it threw: Eigen: .*rows\(\)"):
        subject("misfit<T>", x=[1.0, 2.0, 3.0])  # T cannot be deduced


def test_an_output_that_grows_is_told_and_crashes_nothing() -> None:
    layer = subject("Positive{}", x=[1.0, -2.0, 3.0])
    assert layer.outputs[0].shape == (2,)
    np.testing.assert_array_equal(layer.value({}), [1.0, 3.0])
    with pytest.raises(EngineFault, match="the output has 3 entries, and 2 were expected"):
        layer.value({"x": np.ones(3)})


def test_a_mistake_is_told_with_its_line_in_the_users_file(tmp_path: Path) -> None:
    (tmp_path / "bad.hpp").write_text(
        "template <typename T>\nT f(const T& x) { return expp(x); }\n"
    )
    implementation = Implementation("eigen", "bad.hpp:f", str(tmp_path), Span(1, 1, 1, 2))
    request = SubjectRequest(implementation, {"x": np.array(1.0)}, "float64", "float64")
    with pytest.raises(EngineFault, match="expp") as caught:
        EigenEngine().subject(request)
    place = caught.value.place
    assert place is not None
    assert (place.source.line(2)[:4], place.span.line, place.text) == ("T f(", 2, "expp(x)")


def test_a_header_that_is_included_from_wherever_is_part_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def compiled(text: str, theirs: dict[Path, str]) -> None:
        texts.append(text)
        raise EngineFault(" ".join(sorted(file.name for file in theirs)))

    monkeypatch.setattr("gradcheck_cli.engines.eigen.layer.compiled", compiled)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("CPATH", str(elsewhere))
    (tmp_path / "a.hpp").write_text('#include <cmath>\n#  include "b.hpp"\n')
    (tmp_path / "b.hpp").write_text("#include <c.hpp>\n")
    implementation = Implementation("eigen", "a.hpp:f", str(tmp_path), Span(1, 1, 1, 2))
    request = SubjectRequest(implementation, {"x": np.array(1.0)}, "float64", "float64")
    for text in ("// once", "// once", "// again"):
        (elsewhere / "c.hpp").write_text(text)
        with pytest.raises(EngineFault, match=r"a\.hpp b\.hpp c\.hpp"):
            EigenEngine().subject(request)
    assert texts[0] == texts[1] != texts[2]


def test_a_header_that_is_not_there_is_told_when_the_spec_is_read(tmp_path: Path) -> None:
    spec = tmp_path / "a.yaml"
    spec.write_text("inputs: {x: 1}\nimplementations: {eigen: 'cpp/layer.hpp:mine::f'}\n")
    _, (mistake,) = specfile.read(str(spec))
    assert mistake.message == "there is no file cpp/layer.hpp"
    (tmp_path / "cpp").mkdir()
    (tmp_path / "cpp" / "layer.hpp").touch()
    (read,), mistakes = specfile.read(str(spec))
    assert not mistakes
    assert read.implementations[0].target == "cpp/layer.hpp:mine::f"
    for name in ("f<T>", "mine::F{}", "F<T>{}"):
        spec.write_text(f"inputs: {{x: 1}}\nimplementations: {{eigen: 'cpp/layer.hpp:{name}'}}\n")
        assert not specfile.read(str(spec))[1]
    spec.write_text("inputs: {x: 1}\nimplementations: {eigen: 'cpp/layer.hpp:f(1)'}\n")
    (mistake,) = specfile.read(str(spec))[1]
    assert mistake.message == "`f(1)` is not a name in cpp/layer.hpp"
