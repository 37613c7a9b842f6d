"""The table of benchmarks/cases.py: shares, targets, and every miss and false alarm by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from case_verdicts import DEFECTS, ENGINES, POINTS, QUIET, Told

FOUND = 0.99  # share of the wrong gradients, in each engine
TOLD = 0.95  # share of points without a derivative, overflows and flushed subnormal numbers
PROVEN = 0.95  # share of the causes
FIXED = 0.90  # share of the defects with a known fix

# title, which results count, which of these are good, the required share (None: only shown)
Row = tuple[str, Callable[[Told], bool], Callable[[Told], bool], float | None]

ROWS: tuple[Row, ...] = (
    ("defects found", lambda t: t.kind in DEFECTS, lambda t: t.verdict == "found", None),
    ("  of gradients", lambda t: t.kind == "gradient", lambda t: t.verdict == "found", FOUND),
    ("  of values only", lambda t: t.kind == "value", lambda t: t.verdict == "found", None),
    ("  exceptions", lambda t: t.kind == "raised", lambda t: t.verdict == "found", None),
    ("controls quiet", lambda t: t.kind == "control", lambda t: t.verdict == "quiet", 1.0),
    ("fixes quiet", lambda t: t.kind == "fix", lambda t: t.verdict != "alarm", 1.0),
    ("right here, quiet", lambda t: t.kind == "right", lambda t: t.verdict == "quiet", 1.0),
    (
        "points and overflow told",
        lambda t: t.kind in POINTS or t.subnormal,
        lambda t: t.verdict in ("told", "quiet"),
        TOLD,
    ),
    ("  undefined", lambda t: t.kind == "undefined", lambda t: t.verdict == "told", None),
    ("  overflow", lambda t: t.kind == "overflow", lambda t: t.verdict == "told", None),
    ("  subnormal", lambda t: t.subnormal, lambda t: t.verdict == "quiet", None),
    ("cause named", lambda t: t.verdict == "found", lambda t: bool(t.cause), None),
    ("cause as the hint", lambda t: t.verdict == "found", lambda t: t.agrees, None),
    ("cause proven", lambda t: t.verdict == "found", lambda t: t.proven, PROVEN),
    ("fix offered", lambda t: t.kind in DEFECTS and t.fixable, lambda t: bool(t.fix), FIXED),
    ("  right when run again", lambda t: bool(t.fix), lambda t: not _bad(t.fixed), 1.0),
    (
        "as in the data",
        lambda t: bool(t.measured) and bool(t.expected) and t.engine != "reference",
        lambda t: _bad(t.measured) == _bad(t.expected),
        None,
    ),
)


def _bad(name: str) -> bool:
    return name not in ("ok", "slightly-inaccurate", "flush", "finite")


def summary(told: Iterable[Told]) -> dict[str, Any]:
    """Counts by row and engine, and whether every target is reached."""
    told = list(told)
    rows: dict[str, dict[str, tuple[int, int]]] = {}
    reached = True
    for title, counts, good, target in ROWS:
        of_row = rows[title.strip()] = {}
        for engine in ENGINES:
            counted = [one for one in told if one.engine == engine and counts(one)]
            right = sum(map(good, counted))
            of_row[engine] = (right, len(counted))
            reached &= target is None or right >= target * len(counted)
    return {"rows": rows, "reached": reached}


def print_table(report: dict[str, Any], told: list[Told]) -> None:
    print(f"{'':26}" + "".join(f"{engine:>18}" for engine in ENGINES) + f"{'target':>10}")
    for title, _, _, target in ROWS:
        line = f"{title:26}"
        for right, count in report["rows"][title.strip()].values():
            share = f"{right} of {count}" + (f" {right / count:4.0%}" if count else "     ")
            line += f"{share:>18}"
        print(line + (f"{target:>9.0%}" if target is not None else ""))
    _print_lines("missed", [t for t in told if t.verdict == "missed"])
    _print_lines("false alarms", [t for t in told if t.kind in QUIET and t.verdict == "alarm"])
    _print_lines("refused", [t for t in told if t.verdict == "refused"])
    unlike = [t for t in told if t.measured and t.expected and t.engine != "reference"]
    _print_lines("not as in the data", [t for t in unlike if _bad(t.measured) != _bad(t.expected)])
    _print_lines("not told apart", [t for t in told if t.verdict == "not told"])
    _print_lines(
        "without the known fix",
        [t for t in told if t.verdict == "found" and t.fixable and not t.fix],
        short=True,
    )
    _print_lines("wrong fixes", [t for t in told if t.fix and _bad(t.fixed)], fix=True)
    causes = [t for t in told if t.verdict == "found" and not t.agrees]
    print(f"\nother causes than the hints: {len(causes)}")
    for one in causes:
        print(f"  {one.id} {one.engine}: {one.cause or 'none'}, hint {one.hint}")


def _print_lines(title: str, told: list[Told], short: bool = False, fix: bool = False) -> None:
    """Print lines; engines with the same text share one."""
    print(f"\n{title}: {len(told)}")
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in told:
        head = f"{one.id} ({one.kind}; data {one.expected or '-'}, here {one.measured or '-'})"
        lines = one.said or ("nothing was said",)
        if short:
            head, lines = one.id, ()
        if fix:
            head, lines = f"{one.id}: {one.fixed}", (one.fix,)
        groups.setdefault((head, lines), []).append(one.engine)
    for (head, lines), engines in groups.items():
        print(f"  {head}: {', '.join(engines)}")
        for line in lines:
            print(f"      {line}")
