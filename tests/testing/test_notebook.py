"""What a notebook shows of a check."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli import assert_gradients, check, torch
from gradcheck_cli.domain.errors import UsageError, user_frames
from gradcheck_cli.engines.layer.source_lines import displayed_path
from gradcheck_cli.testing.api import CheckReport, GradientError
from gradcheck_cli.testing.notebook import COLUMNS


def scaled(x: Any) -> Any:
    return np.stack([3 * x, x**2])


def scaled_backward(y_bar: Any, x: Any) -> Any:
    return 3 * y_bar[0] + x * y_bar[1]  # 2 is missing


@pytest.fixture(scope="module")
def report() -> CheckReport:
    return check(
        scaled, np.array([0.5, 2.0]), backward=scaled_backward, dtypes=["float64"], name="scaled"
    )


class Frame:
    """Stands for pandas.DataFrame, and keeps what it is made of."""

    def __init__(self, rows: list[tuple[Any, ...]], columns: list[str]) -> None:
        self.rows = [dict(zip(columns, row, strict=True)) for row in rows]
        self.columns = columns


class Axes:
    """Stands for what matplotlib draws on."""

    def imshow(self, values: Any, **_: Any) -> Any:
        self.values = values
        return self

    def set(self, **words: str) -> None:
        self.words = words

    def locator_params(self, **_: Any) -> None:
        pass


class Figure:
    def __init__(self, columns: int) -> None:
        self.axes = np.array([[Axes() for _ in range(columns)]])

    def colorbar(self, image: Any, **_: Any) -> None:
        assert image.values.ndim == 2


def module(name: str, **contents: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(contents)
    return made


def subplots(rows: int, columns: int, **_: Any) -> tuple[Figure, Any]:
    figure = Figure(columns)
    return figure, figure.axes


def test_one_line_and_one_section(report: CheckReport) -> None:
    assert repr(report) == "<CheckReport: GC101 wrong-gradient in scaled; 1 check>"
    html = report._repr_html_()
    assert html.startswith('<div class="gradcheck">')
    assert 'class="heat"' in html
    assert report.to_dict()["results"][0]["spec"] == "scaled"


def test_a_row_for_each_entry(report: CheckReport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", module("pandas", DataFrame=Frame))
    frame = report.to_dataframe()
    assert frame.columns == list(COLUMNS)
    assert len(frame.rows) == 2 * 2 * 2
    (row,) = [r for r in frame.rows if (r["output_index"], r["index"]) == ((1, 1), (1,))]
    assert (row["engine"], row["dtype"], row["mode"], row["input"]) == (
        *("numpy", "float64", "reverse", "x"),
    )
    assert (row["computed"], row["truth"]) == (2.0, pytest.approx(4.0))
    assert row["ulps"] > 1e15


@pytest.mark.parametrize("backend", ["agg", "module://matplotlib_inline.backend_inline"])
def test_a_map_for_each_input(
    backend: str, report: CheckReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell that returns it shows it once: a notebook shows every figure that is left open."""
    closed: list[Figure] = []
    pyplot = module(
        "matplotlib.pyplot", subplots=subplots, get_backend=lambda: backend, close=closed.append
    )
    monkeypatch.setitem(sys.modules, "matplotlib", module("matplotlib", pyplot=pyplot))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    figure = report.plot()
    assert closed == ([figure] if "inline" in backend else [])
    (axes,) = figure.axes[0]
    assert axes.words == {
        "title": "x: numpy float64 reverse",
        "xlabel": "entry of x",
        "ylabel": "entry of the output",
    }
    assert axes.values.shape == (4, 2)
    assert (axes.values > 15).sum() == 2


class Lacking:
    """Finds no module of one name, because another is not there."""

    def __init__(self, name: str, missing: str) -> None:
        self.name, self.missing = name, missing

    def find_spec(self, name: str, *_: Any) -> None:
        if name == self.name:
            raise ModuleNotFoundError(f"No module named {self.missing!r}", name=self.missing)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, self.name, raising=False)
        monkeypatch.setattr(sys, "meta_path", [self, *sys.meta_path])


@pytest.mark.parametrize(("method", "name"), [("to_dataframe", "pandas"), ("plot", "matplotlib")])
def test_what_is_missing_is_named_with_what_installs_it(
    report: CheckReport, monkeypatch: pytest.MonkeyPatch, method: str, name: str
) -> None:
    Lacking(name, name).install(monkeypatch)
    with pytest.raises(UsageError, match=f"`{method}` needs {name}") as caught:
        getattr(report, method)()
    assert caught.value.help == f"pip install {name}"


def test_an_error_inside_of_them_is_theirs(
    report: CheckReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lacking("pandas", "dateutil").install(monkeypatch)
    with pytest.raises(ModuleNotFoundError, match="dateutil"):
        report.to_dataframe()


def test_no_frame_of_ours_in_ipython() -> None:
    with pytest.raises(GradientError) as caught:
        assert_gradients(scaled, np.array([0.5]), backward=scaled_backward)
    lines = caught.value._render_traceback_()
    assert lines[-1].startswith("GradientError: GC101 wrong-gradient in scaled\n")
    assert len(lines) == 2
    assert "in test_no_frame_of_ours_in_ipython" in lines[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda _: check("x", x=1.0, modes="sideways"), "help  valid: reverse, forward"),
        (lambda _: check(scaled, np.ones(2), seed=-1), "`seed` is -1"),
        (lambda _: check("1 / exp(x", x=1.0), "error[GC904] formula-syntax"),
        (lambda _: check("1 / exp(x)", 1.0), 'help: check("1 / exp(x)", x=100.0)'),
        (lambda _: assert_gradients(scaled, fail_on="note"), 'help: "error" or "warning"'),
        (lambda report: report.plot(), "help: pip install matplotlib"),
        (lambda report: report.to_dataframe(), "help: pip install pandas"),
        (lambda _: torch.gradcheck(abs, 1.0), "no input has requires_grad=True"),
    ],
)
def test_no_frame_of_ours_in_ipython_where_the_call_is_wrong(
    report: CheckReport, monkeypatch: pytest.MonkeyPatch, call: Any, words: str
) -> None:
    for name in ("matplotlib.pyplot", "pandas"):
        Lacking(name, name.partition(".")[0]).install(monkeypatch)
    with pytest.raises(UsageError) as caught:
        call(report)
    first, *frames_and_words = caught.value._render_traceback_()
    assert "in test_no_frame_of_ours_in_ipython_where_the_call_is_wrong" in first
    assert "in <lambda>" in frames_and_words[0]
    shown = "\n".join(frames_and_words[1:])
    assert "  File" not in shown
    assert words in shown


def test_frames_of_the_shell_are_hidden_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = module("IPython", __file__=__file__.replace("test_notebook", "__init__"))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    with pytest.raises(ZeroDivisionError) as caught:
        eval(compile("1 / 0", "<cell 1>", "eval"))
    (line,) = user_frames(caught.value)
    assert '"<cell 1>"' in line


def test_a_cell_is_called_what_the_shell_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def format_code_name(path: str) -> tuple[str, str] | None:
        return ("Cell", "In[3]") if path == "/tmp/kernel/17.py" else None

    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=format_code_name))
    library = __file__.replace("test_notebook", "__init__")
    ipython = module("IPython", __file__=library, get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    with pytest.raises(ZeroDivisionError) as caught:
        eval(compile("1 / 0", "/tmp/kernel/17.py", "eval"))
    (line,) = user_frames(caught.value)
    assert line.strip().startswith("Cell In[3], line 1")
    assert displayed_path("/tmp/kernel/17.py") == "Cell In[3]"
    assert displayed_path(__file__) == os.path.relpath(__file__)
