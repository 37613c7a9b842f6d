"""The table of README: every example on every engine, and why cells of a row differ.

`python docs/generate.py --matrix` runs the examples and puts the table in. It is made of the JSON
report alone, so that whatever explains a cell is a finding that everybody gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gradcheck_cli.engines.registry import engines

ENGINES = ("reference", "torch", "tensorflow", "jax", "jax-jit", "eigen", "symbolic", "numpy")
FOLDERS = ("specs/examples", "specs/layers/ported")
COMMAND = ("run", *FOLDERS, "--engine", ",".join(ENGINES))
REFUSED = "GC705"
_BEGIN = "<!-- Made by `python docs/generate.py --matrix`; do not edit. -->\n"
_END = "<!-- end -->"

Report = dict[str, Any]
Finding = dict[str, Any]


def matrix(report: Report) -> str:
    """The table, and below it a line for whatever is not the same in a row."""
    results = sorted(report["results"], key=lambda result: str(result["path"]))
    lines = [f"| | the point | {' | '.join(ENGINES)} |", "|---" * (len(ENGINES) + 2) + "|"]
    for result in results:
        row = " | ".join([of_the_point(result), *(cell(result, engine) for engine in ENGINES)])
        lines.append(f"| `{result['spec']}` | {row} |")
    notes = [*disagreements(results), *refusals(results), *_remarks()]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)]) + "\n"


def placed(readme: str, table: str) -> str:
    """README with this table in its place. Raises ValueError where it has no place."""
    before, _, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"README has no place for the table: {_BEGIN}{_END}")
    return f"{before}{_BEGIN}\n{table}\n{_END}{after}"


def of_the_point(result: Report) -> str:
    """What was found of the point itself, whatever an engine gives there."""
    found = {f"{f['code']} {f['name']}" for f in result["findings"] if not f["engine"]}
    return ", ".join(sorted(found))


def cell(result: Report, engine: str) -> str:
    """ "pass", the codes that were found, or why there is neither."""
    codes = sorted({f["code"] for f in result["findings"] if f["engine"] == engine})
    if codes == [REFUSED]:
        return f"refused: {REFUSED}"
    if codes:
        return ", ".join(codes)
    checks = {check["status"] for check in result["checks"] if check["engine"] == engine}
    if not checks:
        return "-"
    return "pass" if checks == {"passed"} else "fail"


def disagreements(results: Sequence[Report]) -> Iterator[str]:
    """A line a row: which engines pass, what the others do, and what makes the difference."""
    for result in results:
        groups: dict[tuple[str, ...], list[str]] = {}
        for engine in ENGINES:
            if cell(result, engine) not in ("-", f"refused: {REFUSED}"):
                groups.setdefault(tuple(_told(result, engine)), []).append(engine)
        if len(groups) < 2:
            continue
        told = [f"{f['code']}, {f['message']}" for f in result["findings"] if not f["engine"]]
        parts = [f"here {one}" for one in dict.fromkeys(told)]
        parts += [
            f"{', '.join(names)}: {_blamed(result, names, '; '.join(told)) or 'pass'}"
            for told, names in groups.items()
        ]
        yield f"`{result['spec']}`: {'. '.join(parts)}."


def _told(result: Report, engine: str) -> Iterator[str]:
    """What was found of an engine: code, message, dtypes and points."""
    places: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for finding in result["findings"]:
        if finding["engine"] == engine:
            wheres = places.setdefault((finding["code"], finding["message"]), {})
            points = wheres.setdefault(finding["dtype"], {})
            if finding["point"] is not None:
                points[str(finding["point"])] = None
    for (code, message), wheres in sorted(places.items()):
        shown = [f"{dtype} at points {', '.join(p)}" if p else dtype for dtype, p in wheres.items()]
        yield f"{code} ({', '.join(shown)}), {message}"


def _blamed(result: Report, names: Sequence[str], told: str) -> str:
    """The same, and the operations that were proven to be the cause."""
    mine = [f for f in result["findings"] if f["engine"] in names and f["cause"]]
    causes = sorted({f"`{finding['cause']['op']}`" for finding in mine})
    return f"{told}; by {' and '.join(causes)}" if causes else told


def refusals(results: Sequence[Report]) -> Iterator[str]:
    """A line a reason: which examples an engine refuses."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for result in results:
        refused: dict[str, str] = {}  # of each engine the first reason
        for finding in result["findings"]:
            if finding["code"] == REFUSED:
                refused.setdefault(finding["engine"], finding["message"])
        for engine, message in refused.items():
            reasons.setdefault((engine, message), []).append(result["spec"])
    for (engine, message), names in reasons.items():
        of = f"`{names[0]}`" if len(names) == 1 else f"{len(names)} examples"
        yield f"{engine} refuses {of} ({REFUSED}): {message}."


def _remarks() -> Iterator[str]:
    """What an engine's numbers are, where it is unlike the others."""
    for name in ENGINES:
        engine = engines()[name].engine
        if engine is not None and engine.capabilities.remark:
            yield f"{name}: {engine.capabilities.remark}."
