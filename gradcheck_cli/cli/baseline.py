"""A baseline: a file of the findings that a project already knows. Later runs count only new
findings.

A finding is identified by its fingerprint, which does not depend on a line or on the name of a
file.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradcheck_cli.cli.outputs import Output
from gradcheck_cli.cli.streams import talk
from gradcheck_cli.cli.words import counted
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.report import Finding, Report, SpecResult

SCHEMA_VERSION = 1
_OURS = "baseline "
"""The start of the reason of a finding that a baseline suppresses."""


def read_baseline(file: str) -> dict[str, int]:
    """How often each fingerprint is in a baseline. Raises UsageError."""
    return dict(Counter(str(finding["fingerprint"]) for finding in _findings(file)))


def _findings(file: str) -> list[dict[str, Any]]:
    try:
        data = json.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        help = f"--write-baseline {file} writes it"
        raise UsageError(f"cannot read the baseline {file}: {error.strerror}", help) from error
    except ValueError as error:
        raise UsageError(f"the baseline {file} is not JSON: {error}") from error
    ours = isinstance(data, dict) and data.get("schema_version") == SCHEMA_VERSION
    findings: Any = data.get("findings") if ours else None
    whole = isinstance(findings, list) and all(
        isinstance(one, dict) and "fingerprint" in one for one in findings
    )
    if not whole:
        raise UsageError(f"{file} is not a baseline", f"--write-baseline {file} writes one")
    return list(findings)


def write_baseline(file: str, report: Report) -> None:
    """Write the errors and warnings of a report to a baseline, including those that an old baseline
    suppressed. Raises UsageError."""
    folder = os.path.dirname(file)
    entries = [
        _entry(finding, result, folder)
        for result in report.results
        for finding in (*result.findings, *result.suppressed)
        if _is_of_a_baseline(finding)
    ]
    entries.sort(key=lambda entry: [str(value) for value in entry.values()])
    data = {"schema_version": SCHEMA_VERSION, "findings": entries}
    with Output(file) as output:
        output.put(json.dumps(data, indent=1, ensure_ascii=True) + "\n")
    talk(f"wrote {counted(len(entries), 'finding')} to {file}")


def _is_of_a_baseline(finding: Finding) -> bool:
    suppressed = bool(finding.reason) and not finding.allowed
    if finding.allowed or finding.severity == "note":
        return False
    return not suppressed or finding.reason.startswith(_OURS)


def _entry(finding: Finding, result: SpecResult, folder: str) -> dict[str, Any]:
    """What a reader needs to recognise the finding, and the fingerprint that identifies it. The
    path is relative to `folder`, where the baseline is."""
    entry = {
        "spec": result.spec,
        "code": finding.code,
        "engine": finding.engine,
        "dtype": finding.dtype,
        "mode": finding.mode,
        "input": finding.input,
        "point": finding.point,
        "fingerprint": finding.fingerprint,
    }
    if os.path.isfile(result.source.path):  # not for a layer on the command line
        entry["path"] = Path(os.path.relpath(result.source.path, folder or ".")).as_posix()
    return entry


def unmet(file: str, report: Report, whole: bool) -> int:
    """The number of findings of a baseline that no longer occur: their specs ran, with the same
    engines, dtypes and modes, without them. If a `whole` project ran, specs that were renamed or
    removed count too, because they have no findings any more."""
    folder = os.path.dirname(file)
    specs = {result.spec for result in report.results}
    files = {os.path.abspath(result.source.path) for result in report.results}
    checks = [check for result in report.results for check in result.checks]
    ran = {
        "engine": {None, *report.engines},
        "dtype": {None, *(check.dtype for check in checks)},
        "mode": {None, *(check.mode for check in checks)},
    }

    def is_seen(finding: Mapping[str, Any]) -> bool:
        if finding.get("spec") in specs:
            return True
        path = os.path.abspath(os.path.join(folder, finding.get("path", "")))
        return whole and "path" in finding and (path in files or not os.path.exists(path))

    expected = Counter(
        str(finding["fingerprint"])
        for finding in _findings(file)
        if is_seen(finding) and all(finding.get(key) in values for key, values in ran.items())
    )
    met = Counter(
        finding.fingerprint
        for result in report.results
        for finding in (*result.findings, *result.suppressed)
    )
    return (expected - met).total()
