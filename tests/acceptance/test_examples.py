"""Every example on every engine, run once as a user runs them; and the page with its table."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from docs import generate
from tests.acceptance.conftest import (
    ENGINES,
    EXAMPLES,
    LAYERS,
    ROOT,
    WITHOUT_COMPILERS,
    Run,
    examples_on,
)

FOLDER = f"{EXAMPLES}/"
NO_NUMPY = ("numpy", "GC705")  # it differentiates no formulas
NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan)"


@pytest.fixture
def run(examples: Run) -> Run:
    return examples


def test_the_folders_fail_with_an_exit_code(run: Run) -> None:
    assert run.code == 1
    assert run.report["errors"] == []
    names = {path.stem for path in (ROOT / FOLDER).glob("*.yaml")}
    formulas = {r["spec"] for r in run.report["results"] if r["path"].startswith(FOLDER)}
    assert formulas == names == set(EXPECTED)


def test_the_demo_shows_what_tests_run() -> None:
    """So that CI, which runs all tests, need not run the demo as well."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (folders,) = re.findall(r"^demo:.*\n\t\S+/gradcheck run (.*) --exit-zero$", makefile, re.M)
    assert folders.split() == [EXAMPLES, LAYERS]


@pytest.fixture(params=["without compilers", pytest.param("all", marks=pytest.mark.exhaustive)])
def table(
    request: pytest.FixtureRequest, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The table of the run, and that of a run of all engines, two of which compile."""
    if request.param == "all":
        return examples_on(generate.ENGINES, tmp_path_factory.mktemp("matrix")).table
    return run.table


def rows_of(table: str) -> tuple[list[str], list[list[str]]]:
    """The engines, and the cells of each row: name, point, engines."""
    header, _, *rows = (
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|")
    )
    return header[2:], rows


def test_the_page_shows_the_table_of_a_fresh_run(table: str) -> None:
    page = generate.MATRIX_PAGE.read_text("utf-8")
    (engines, rows), (of_page, shown) = rows_of(table), rows_of(page)
    assert of_page == [*generate.ENGINES]
    kept = [0, 1, *(2 + of_page.index(engine) for engine in engines)]
    told = "run `python docs/generate.py --matrix`"
    assert [[row[place] for place in kept] for row in shown] == rows, told
    if engines == of_page:
        assert page == generate.with_matrix(page, table), told


def test_every_cell_of_the_table_is_a_verdict(run: Run, table: str) -> None:
    """A cell is a pass, a finding about numbers, or a refusal that says why; never a crash."""
    layers = ("reference", "symbolic")  # which run no layers
    formulas = {r["spec"] for r in run.report["results"] if r["path"].startswith(FOLDER)}
    engines, rows = rows_of(table)
    assert {*WITHOUT_COMPILERS} <= {*engines}
    for name, _, *cells in rows:
        formula = name in formulas
        for engine, shown in zip(engines, cells, strict=True):
            if shown == "-":
                assert not formula, (name, engine)
            elif engine == "numpy" and formula:
                assert shown == "refused: GC705"
            else:
                assert re.fullmatch(r"pass|GC[23]\d\d(, GC[23]\d\d)*", shown), shown
                assert formula or engine not in layers


# of the first four engines: two dtypes, two modes, every engine where it says x 4
EXPECTED: dict[str, dict[str, int]] = {
    "abs_at_zero": {"GC401": 2},
    "cube_root_at_zero": {"GC202": 4 * 4, "GC402": 2},
    "linear_regression": {},
    "linear_regression_trained": {},
    "norm_at_zero": {"GC201": 4 * 2, "GC401": 2},  # nan in TensorFlow and JAX
    "quadratic": {},
    # float32 alone: nan at 100; zero at 60, but not in the reference engine's forward mode, which
    # divides last; and zero at 45 in TensorFlow and JAX
    "reciprocal_exp": {"GC201": 2 * 4, "GC302": 2 * 4 - 1 + 2 * 2},
    "reciprocal_exp_custom_gradient": {},
    "reciprocal_exp_fixed": {},
    "relu_at_zero": {"GC401": 2},
    "sigmoid": {},
    "sin_dense": {},
    "sqrt_at_zero": {"GC202": 4 * 4, "GC402": 2},
}


@pytest.mark.parametrize("spec", EXPECTED)
def test_codes(run: Run, spec: str) -> None:
    found = [f for f in run.findings(spec) if f["engine"] in (None, *ENGINES)]
    assert Counter(finding["code"] for finding in found) == EXPECTED[spec]
    grave = {"GC201", "GC202", "GC302"} & set(EXPECTED[spec])
    checks = [c for c in run.result(spec)["checks"] if c["engine"] in ENGINES]
    assert any(check["status"] == "failed" for check in checks) == bool(grave)


# the stated figures, as they are printed there; each must come out to its last digit
FIGURES: list[tuple[str, str, str]] = [
    ("quadratic", "z", "11"),
    ("quadratic", "dz/dx", "8"),
    ("linear_regression", "loss", "18.6666666666667"),
    ("linear_regression", "dloss/dw", "-18.6666666666667"),
    ("linear_regression", "dloss/db", "-8"),
    ("sin_dense", "loss", "2.762641767681032"),
    ("sin_dense", "dloss/dW", "-1.7600984777091067"),
    ("sigmoid", "value", "0.8807970779778823"),
    ("sigmoid", "d/dx", "0.1049935854035065"),
    ("relu_at_zero", "d/dx", "0"),
    ("abs_at_zero", "value", "0"),
    ("sqrt_at_zero", "value", "0"),
    ("cube_root_at_zero", "value", "0"),
    ("norm_at_zero", "value", "0"),
]


def shown(text: str, name: str) -> float:
    """The first number that a reading gives for `name`."""
    found = re.search(rf"(?:^|[ ,]){re.escape(name)} = \[*({NUMBER})", text)
    assert found, f"no `{name}` in {text}"
    return float(found[1])


def digits(figure: str) -> int:
    """How many significant digits are printed."""
    return len(re.sub(r"e.*|[-.]", "", figure).lstrip("0")) or 1


@pytest.mark.parametrize(("spec", "name", "figure"), FIGURES)
def test_figures(run: Run, spec: str, name: str, figure: str) -> None:
    readings = run.readings(spec)
    for engine in ENGINES:
        for mode in ("reverse", "forward"):
            value = shown(readings[f"{engine} float64 {mode}"], name)
            assert f"{value:.{digits(figure)}g}" == figure, (engine, mode)


@pytest.mark.parametrize("engine", ENGINES)
def test_trained_parameters(run: Run, engine: str) -> None:
    readings = run.readings("linear_regression_trained")
    assert readings[f"{engine} float64"].startswith(
        "after 100 steps: w = [[1.745076887727999]], b = 0.5794645661516962"
    )
    narrow = readings[f"{engine} float32"]
    # a hundred steps, each rounded to 24 bits, leave six digits
    assert abs(shown(narrow, "w") - 1.745076887727999) < 1e-6
    assert abs(shown(narrow, "b") - 0.5794645661516962) < 1e-6


@pytest.mark.parametrize(
    ("point", "code", "truth"),
    [(0, "GC201", "-3.7200759760208e-44"), (1, "GC302", "-8.7565e-27")],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_reciprocal_of_exp(run: Run, engine: str, point: int, code: str, truth: str) -> None:
    found = run.findings("reciprocal_exp", engine=engine, point=point)
    assert {(f["code"], f["dtype"]) for f in found} == {(code, "float32")}
    for finding in found:
        assert f"{finding['truth']:.{digits(truth)}g}" == truth


@pytest.mark.parametrize("engine", ENGINES)
def test_reciprocal_of_exp_names_its_cause(run: Run, engine: str) -> None:
    (nan,) = run.findings("reciprocal_exp", engine=engine, point=0, mode="reverse")
    (zero,) = run.findings("reciprocal_exp", engine=engine, point=1, mode="reverse")
    assert (nan["cause"]["op"], nan["cause"]["phase"]) == ("exp", "forward")
    assert nan["cause"]["detail"] == "overflows float32: exp(100) = 2.69e+43 > 3.4e+38"
    lines = (ROOT / nan["location"]["path"]).read_text("utf-8").splitlines()
    assert lines[nan["cause"]["line"] - 1][nan["cause"]["column"] - 1 :] == "exp(x)"
    assert zero["cause"]["phase"] == "backward"
    assert "forward: exp(100) = inf, 1 / inf = 0; backward: 0 * inf = nan" in run.screen


def test_reciprocal_of_exp_at_45_is_lost_in_two_engines(run: Run) -> None:
    found = run.findings("reciprocal_exp", point=2)
    lossy = ("tensorflow", "jax")
    assert {(f["engine"], f["code"]) for f in found} == {(e, "GC302") for e in lossy} | {NO_NUMPY}


@pytest.mark.parametrize("spec", ["sqrt_at_zero", "cube_root_at_zero", "norm_at_zero"])
def test_undefined_derivative_is_neither_a_pass_nor_wrong(run: Run, spec: str) -> None:
    found = run.findings(spec)
    assert any(f["code"] in ("GC401", "GC402") for f in found)
    assert not any(f["code"] in ("GC101", "GC301", "GC302") for f in found)


def test_every_check_is_in_both_dtypes(run: Run) -> None:
    for result in run.report["results"]:
        assert {check["dtype"] for check in result["checks"]} == {"float32", "float64"}
