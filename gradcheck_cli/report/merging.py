"""The additional keys in the JSON report of a shard, from which the report of the whole run can be
made.

Any format can be made from them without the spec files. The report and each result have a key
`merge`: the bytes of `domain.wire`, compressed, as base64.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.report import Report, SpecError, SpecResult
from gradcheck_cli.domain.wire import Malformed, as_text, of_text
from gradcheck_cli.version import VERSION


def of_result(result: SpecResult) -> dict[str, Any]:
    """The key `merge` of an element of `results`."""
    return {"merge": as_text(result)}


def of_report(report: Report) -> dict[str, Any]:
    """The keys `shard`, `elsewhere` and `merge` of a report."""
    rest = as_text((tuple(report.errors), report.command))
    return {"shard": report.shard, "elsewhere": report.elsewhere, "merge": rest}


def read_shard(file: str) -> Report:
    """The report of a shard. Raises UsageError."""
    try:
        data = json.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"cannot read {file}: it is no JSON report ({error})") from error
    try:
        version = data["tool"]["version"]
        if version != VERSION:
            words = f"{file} was written by gradcheck {version}, but this is {VERSION}"
            raise UsageError(words, "merge it with the version that wrote it")
        errors, command = of_text(data["merge"])
        return Report(
            version=version,
            engines=data["tool"]["engines"],
            seed=data["seed"],
            duration_s=data["duration_s"],
            results=tuple(_read_result(one) for one in data["results"]),
            errors=errors,
            interrupted=data["interrupted"],
            command=command,
            unchanged=data["summary"]["unchanged"],
            fail_on=data["fail_on"],
            shard=data["shard"],
            suite=data.get("suite", ""),
            refused=data.get("refused", {}),
        )
    except (KeyError, TypeError, ValueError, Malformed) as error:
        raise UsageError(
            f"{file} is not the report of a shard",
            "`gradcheck run --shard K/N --format json` writes one",
        ) from error


def _read_result(data: dict[str, Any]) -> SpecResult:
    result = of_text(data["merge"])
    if not isinstance(result, SpecResult):
        raise ValueError("no result")
    return result


def merged(reports: Sequence[Report]) -> Report:
    """One report of all shards of a run, in the order of files and lines. Raises UsageError if a
    shard is missing or occurs twice, or if the reports are from different runs."""
    _complete([report.shard for report in reports])
    first = reports[0]
    if any(_settings(one) != _settings(first) for one in reports):
        raise UsageError("the shards are of different runs: the suite, --seed or --fail-on differ")
    results = (result for report in reports for result in report.results)
    errors: dict[SpecError, None] = {e: None for report in reports for e in report.errors}
    return replace(
        first,
        engines={name: version for one in reports for name, version in one.engines.items()},
        duration_s=sum(report.duration_s for report in reports),
        results=tuple(sorted(results, key=lambda one: (one.source.path, one.line))),
        errors=tuple(errors),
        interrupted=any(report.interrupted for report in reports),
        unchanged=sum(report.unchanged for report in reports),
        refused={op: why for report in reports for op, why in report.refused.items()},
        shard="",
    )


def _settings(report: Report) -> tuple[str, int, str]:
    return report.suite, report.seed, report.fail_on


def _complete(shards: Sequence[str]) -> None:
    counts = {shard.partition("/")[2] for shard in shards}
    if len(counts) > 1:
        raise UsageError(f"these are shards of different runs: {', '.join(sorted(shards))}")
    count = int(counts.pop())
    for number in range(1, count + 1):
        times = shards.count(f"{number}/{count}")
        if times != 1:
            words = "is missing" if not times else f"is there {times} times"
            raise UsageError(f"shard {number}/{count} {words}")
