import json
import shlex
from pathlib import Path

import pytest

from gradcheck_cli.cli.search import _draw
from gradcheck_cli.domain.report import SearchReport
from tests.report.test_search_map import one_number

from .calling import call_here

RECIPROCAL = "name: small\ninputs: {x: {value: 1, domain: [-100, 100]}}\nmodel: 1 / exp(x)\n"


@pytest.mark.exhaustive  # a run of the command line
def test_the_json_has_an_entry_for_each_kind_with_its_witness(tmp_path: Path) -> None:
    options = ("--engine", "reference", "--dtype", "float32", "--format", "json")
    screen = call_here("search", "-", *options, cwd=tmp_path, stdin=RECIPROCAL)
    assert screen.code == 1
    (result,) = json.loads(screen.out)["results"]
    assert (result["spec"], len(result["searches"])) == ("small", 6)
    entry = next(one for one in result["searches"] if one["kind"] == "gradient-nonfinite")
    assert (entry["verdict"], entry["computed"], entry["entry"]) == ("found", "nan", "x[0]")
    assert entry["witness"]["x"] == 90


@pytest.mark.exhaustive  # five runs of the command line
def test_the_command_below_a_witness_shows_it(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(RECIPROCAL, "utf-8")
    options = ("--engine", "reference", "--dtype", "float32", "--format", "json")
    screen = call_here("search", "small.yaml", *options, cwd=tmp_path)
    (result,) = json.loads(screen.out)["results"]
    found = [one for one in result["searches"] if one["verdict"] == "found"]
    assert len(found) >= 4
    for one in {one["repeat"]: one for one in found}.values():
        words = shlex.split(one["repeat"])
        shown = call_here(*words[1:], "--format", "json", cwd=tmp_path)
        (run,) = json.loads(shown.out)["results"]
        assert run["findings"], one
        assert one["genuine_overflow"] or shown.code == 1, one


def test_without_a_domain_there_is_nothing_to_search(tmp_path: Path) -> None:
    screen = call_here("search", "-", cwd=tmp_path, stdin="inputs: {x: 1}\nmodel: x\n")
    assert (screen.code, "no input has a domain" in screen.err) == (2, True)


def test_a_layer_of_another_engine_is_not_searched_and_told_so(tmp_path: Path) -> None:
    (tmp_path / "layer.py").write_text("def f(x):\n    return x\n", "utf-8")
    spec = (
        "inputs: {x: {value: 1, domain: [0, 2]}}\nengines: [torch]\n"
        "implementations: {numpy: {target: 'layer.py:f'}}\n"
    )
    screen = call_here("search", "-", cwd=tmp_path, stdin=spec)
    assert screen.code == 2
    assert "has a layer for numpy, but none for torch" in screen.out + screen.err
    assert "domain" not in screen.out + screen.err


def test_two_specs_of_one_name_have_two_pictures(tmp_path: Path) -> None:
    _draw(SearchReport((one_number(), one_number())), str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "odd.torch.float32.2.svg",
        "odd.torch.float32.svg",
    ]
