"""The values that the template of a spec is filled with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradcheck_cli.domain.codes import Severity
from gradcheck_cli.domain.place import Source
from gradcheck_cli.domain.report import Report
from gradcheck_cli.report.html.section import section
from tests.report import samples


def test_the_blamed_operation_is_in_the_graph(drawn: Report) -> None:
    unstable, bad_row, right = (section(result, 0) for result in drawn.results)
    (graph,) = unstable["graphs"]
    assert (graph["blamed"], graph["title"]) == (True, "reference float32 reverse at points[0]")
    assert 'class="node blamed"' in graph["svg"]
    assert "↓ inf" in graph["svg"]
    assert bad_row["graphs"][0]["svg"].count('class="node blamed"') == 1
    assert right["graphs"][0]["blamed"] is False


def test_gradients_with_the_same_wrong_entries_are_one_map(drawn: Report) -> None:
    (bad,) = section(drawn.results[1], 0)["maps"]
    assert bad["title"] == "w, float32"
    assert bad["map"].words.endswith("; row 1 is wrong throughout")
    assert "reference float64 reverse" in bad["others"]
    assert bad["scatter"].count('class="off"') >= 5
    (right,) = section(drawn.results[2], 0)["maps"]
    assert right["map"].words.startswith("all 2 entries are right")


def test_the_curve_is_there_where_it_was_drawn(drawn: Report) -> None:
    assert section(drawn.results[0], 0)["curve"].startswith("<svg")
    assert section(samples.quadratic(), 0)["curve"] is None


def test_without_pictures(drawn: Report) -> None:
    values = section(drawn.results[1], 0, pictures=False)
    assert (values["graphs"], values["maps"], values["curve"]) == ([], [], None)
    assert values["findings"]


def test_fixes_have_bars_of_the_digits_that_are_wrong() -> None:
    finding = replace(samples.nan_finding("torch"), fix=samples.tried_fix())
    values = section(replace(samples.reciprocal_exp(), findings=(finding, finding)), 0)
    (shown,) = values["findings"]
    (fix,) = shown["fixes"]
    assert [word for word, *_ in fix["bars"]] == ["before", "after"]
    before, after = (width for _, width, *_ in fix["bars"])
    assert after < before <= 100


def test_a_fix_where_nobody_knows_the_truth_has_no_bars() -> None:
    """Or "no number" would be said of what the fix gives."""
    fix = replace(samples.tried_fix(), ulps_before=None, ulps_after=None, value=None)
    finding = replace(samples.nan_finding("torch"), fix=fix)
    values = section(replace(samples.reciprocal_exp(), findings=(finding,)), 0)
    assert values["findings"][0]["fixes"][0]["bars"] == []


def test_each_engine_has_its_story() -> None:
    torch, jax = samples.nan_finding("torch"), samples.nan_finding("tensorflow")
    assert jax.cause is not None
    other = replace(jax, cause=replace(jax.cause, story="forward: another way"))
    (both,) = section(replace(samples.reciprocal_exp(), findings=(torch, other)), 0)["findings"]
    why = [text for label, text in both["labelled"] if label == "why"]
    assert len(why) == 1
    assert why[0].startswith("in torch: ")
    assert both["stories"] == ["in tensorflow: forward: another way"]
    (alone,) = section(replace(samples.reciprocal_exp(), findings=(torch,)), 0)["findings"]
    assert alone["stories"] == []
    assert ("why", torch.cause.story) in alone["labelled"]


@pytest.mark.parametrize(
    ("code", "severity", "shown"),
    [
        ("GC201", "error", "no number"),
        ("GC203", "error", "no number"),
        ("GC101", "error", "GC101"),
        ("GC701", "error", "GC701"),
        ("GC401", "note", "failed"),
    ],
)
def test_a_check_without_a_size_shows_what_was_found(
    code: str, severity: Severity, shown: str
) -> None:
    """As of a gradient that is too large to be compared entry by entry."""
    result = samples.wrong_sign()
    finding = replace(result.findings[0], code=code, severity=severity)
    checked = {name: getattr(finding, name) for name in ("engine", "dtype", "mode", "input")}
    check = replace(result.checks[0], max_ulps=None, status="failed", point=None, **checked)
    table = section(replace(result, findings=(finding,), checks=(check,)), 0)["checks"]
    assert table.rows[0][1] == [(shown, "x", "failed")]


def test_checks_are_a_table_of_inputs() -> None:
    table = section(samples.quadratic(), 0)["checks"]
    assert table.inputs == ["x"]
    assert table.rows[0] == ("reference float32 reverse", [("0 ulp", "0", "passed")])
    failed = section(samples.wrong_sign(), 0)["checks"]
    assert any(cell and cell[2] == "failed" for _, cells in failed.rows for cell in cells)


def test_engines_have_the_worst_of_their_findings() -> None:
    tones = {one["name"]: one["tone"] for one in section(samples.reciprocal_exp(), 0)["engines"]}
    assert "error" in tones.values()
    assert {one["tone"] for one in section(samples.quadratic(), 0)["engines"]} == {"ok"}


def test_the_source_has_its_neighbours_and_the_mark() -> None:
    shown = section(samples.reciprocal_exp(), 0)["findings"][0]["source"]
    marked = [line for line in shown if line["parts"][1]]
    assert len(marked) == 1
    assert "exp" in marked[0]["parts"][1]
    numbers = [line["number"] for line in shown]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_of_a_lifted_layer_the_operation_stands_where_the_cause_says(drawn: Report) -> None:
    unstable = drawn.results[0]
    (first, *_) = unstable.findings
    assert first.cause is not None
    place = Source("layers.py", "text")
    graph = unstable.graphs[0]
    nodes = tuple(replace(node, source=place) for node in graph.program.nodes)
    layer = replace(graph, lifted="torch", program=replace(graph.program, nodes=nodes))
    finding = replace(first, engine="torch", cause=replace(first.cause, source=place, node=None))
    result = replace(unstable, graphs=(layer,), findings=(finding,))
    (shown,) = section(result, 0)["graphs"]
    assert shown["title"].startswith("the torch layer, lifted")
    assert shown["svg"].count('class="node blamed"') == 1
    other = replace(finding, engine="jax")
    assert not section(replace(result, findings=(other,)), 0)["graphs"][0]["blamed"]
