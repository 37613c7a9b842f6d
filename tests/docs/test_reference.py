"""The reference pages have every key, command and function."""

import re

import gradcheck_cli
from docs.reference import causes_page, commands_page, python_page, report_page, spec_page
from gradcheck_cli.cli.app import app
from gradcheck_cli.explain.blame.causes import CAUSES
from gradcheck_cli.report.schema import report_schema
from gradcheck_cli.specfile.model import schema


def rows(page: str) -> dict[str, set[str]]:
    """By heading, the keys of the table below."""
    found: dict[str, set[str]] = {}
    heading = ""
    for line in page.splitlines():
        if title := re.fullmatch(r"#+ `?(.*?)`?", line):
            heading = title[1]
        elif key := re.match(r"\| `(\w+)`", line):
            found.setdefault(heading, set()).add(key[1])
    return found


def test_every_key_of_a_spec_has_a_row() -> None:
    found = rows(spec_page())
    assert found["Top level"] == set(schema()["properties"])
    assert {"code", "reason"} <= found["allow[]"]
    assert found["train"] == {"optimizer", "steps", "parameters"}
    assert {"lr"} <= found["train.optimizer.sgd"]
    assert {"ulps"} <= set.union(*(keys for title, keys in found.items() if "tolerance" in title))
    assert {"low", "high"} <= found["inputs.NAME (uniform)"]


def test_keys_with_an_example_link_to_it() -> None:
    page = spec_page()
    for key in ("allow", "points", "train", "wrt", "by_design", "order"):
        assert f"[`{key}`](#example-{key})" in page
        example = page.split(f"### Example: {key}\n")[1].split("###")[0]
        assert f"\n{key}:" in example


def test_every_key_of_the_report_has_a_row() -> None:
    found = rows(report_page())
    assert found["Top level"] == set(report_schema()["properties"])
    assert {"code", "cause", "fingerprint"} <= found["results[].findings[]"]


def test_every_command_has_its_help() -> None:
    page = commands_page()
    for name in app.list_commands(app.make_context("gradcheck", [], resilient_parsing=True)):
        assert f"## gradcheck {name}\n\n```text\nUsage: gradcheck {name}" in page


def test_everything_that_python_may_import_is_there() -> None:
    page = python_page()
    for name in (*gradcheck_cli.__all__, "gradgradcheck", "check_grads", "compute_gradient"):
        assert f"### {name}\n" in page


def test_every_cause_is_there() -> None:
    page = causes_page()
    assert [line.split(" | ")[0] for line in page.splitlines()[6:]] == [f"| {n}" for n in CAUSES]
