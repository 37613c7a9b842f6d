"""Reports of shards become one report again, in any format."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.report import Report, SpecResult
from gradcheck_cli.report import FORMATS, merging, open_writer
from gradcheck_cli.report.schema import report_schema
from gradcheck_cli.report.style import Style
from tests.report import samples


def _printed(name: str, report: Report) -> str:
    stream = io.StringIO()
    writer = open_writer(name, stream, Style(width=120))
    for result in report.results:
        writer.spec(result)
    writer.finish(report)
    return stream.getvalue()


def _written(folder: Path, shard: str, *results: SpecResult) -> str:
    file = folder / f"{shard.replace('/', 'of')}.json"
    file.write_text(_printed("json", replace(samples.report(*results), shard=shard)), "utf-8")
    return str(file)


def test_every_format_can_be_made_of_shards(tmp_path: Path) -> None:
    results = [samples.quadratic(), samples.reciprocal_exp()]
    files = [_written(tmp_path, f"{n + 1}/2", result) for n, result in enumerate(results)]
    jsonschema.validate(json.loads(Path(files[0]).read_text("utf-8")), report_schema())
    found = merging.merged([merging.read_shard(file) for file in reversed(files)])
    whole = samples.report(*sorted(results, key=lambda result: result.source.path))
    assert [one.spec for one in found.results] == [one.spec for one in whole.results]
    for name in FORMATS:
        same = replace(found, duration_s=whole.duration_s)
        assert _printed(name, same) == _printed(name, whole), name


def test_a_shard_that_is_missing_or_twice_is_an_error(tmp_path: Path) -> None:
    first = merging.read_shard(_written(tmp_path, "1/3", samples.quadratic()))
    second = replace(first, shard="2/3")
    with pytest.raises(UsageError, match="shard 3/3 is missing"):
        merging.merged([first, second])
    with pytest.raises(UsageError, match="shard 2/3 is there 2 times"):
        merging.merged([first, second, second, replace(first, shard="3/3")])
    with pytest.raises(UsageError, match="shards of different runs: 1/2, 1/3"):
        merging.merged([first, replace(first, shard="1/2")])
    with pytest.raises(UsageError, match="different runs"):
        merging.merged([first, replace(second, seed=1), replace(first, shard="3/3")])


def test_what_is_no_shard_is_an_error(tmp_path: Path) -> None:
    whole = tmp_path / "whole.json"
    whole.write_text(_printed("json", samples.report(samples.quadratic())), "utf-8")
    with pytest.raises(UsageError, match="is not the report of a shard"):
        merging.read_shard(str(whole))
    with pytest.raises(UsageError, match=r"cannot read .*nothing.json: No such file or directory$"):
        merging.read_shard(str(tmp_path / "nothing.json"))
    whole.write_text("name: a spec", "utf-8")
    with pytest.raises(UsageError, match="it is no JSON report"):
        merging.read_shard(str(whole))
