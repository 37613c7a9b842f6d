"""Runs all cases of benchmarks/cases on every engine, and counts hits, misses and false alarms.

    python benchmarks/cases.py [FILE] [--only ID,...] [--forward] [--json FILE]

The exit code is 1 if a target is missed (case_table.py has the targets).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import case_classes as classes
from case_table import print_table, summary
from case_verdicts import FIX, Told, judged, offers, refused
from mpmath import mpf, nstr

from gradcheck_cli import specfile
from gradcheck_cli.domain.events import SpecFinished
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import SpecError, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.run.session import run
from gradcheck_cli.truth import compute

DATA = Path(__file__).parent / "cases" / "instability.jsonl"

# Names of the data that are other words or other calls here; their log1mexp is log(1 - exp(x)).
TRANSLATED = (
    (r"\beigh_v\((\w+)\)", r"eigh(\1)[1]"),
    (r"\bbce_logits\(", "bce_with_logits("),
    (r"\blog1mexp\(([^()]*)\)", r"log1mexp(-(\1))"),
)

Formulas = dict[str, tuple[dict[str, Any], str]]  # a case and a formula, by the spec's name

TRUTH_AGREES = 1e-12  # relative; `true_gradient` is rounded to float64


def load(path: Path, only: set[str]) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    unknown = only - {row["id"] for row in rows}
    if unknown:
        raise SystemExit(f"{path} has no case {', '.join(sorted(unknown))}")
    return [row for row in rows if not only or row["id"] in only]


def formulas_of(rows: list[dict[str, Any]]) -> Formulas:
    """The cases and their verified fixes in the formula language, by the names of their specs."""
    found: Formulas = {}
    for row in rows:
        found[row["id"]] = (row, translated(row["expression"]))
        if row["fix"] and row["fix_verified"]:
            found[row["id"] + FIX] = (row, translated(row["fix"]))
    return found


def translated(formula: str) -> str:
    for theirs, ours in TRANSLATED:
        formula = re.sub(theirs, ours, formula)
    return formula


def specs_of(formulas: Formulas) -> tuple[dict[str, Spec], dict[str, list[SpecError]]]:
    """The specs of these formulas at the points of their cases, and the mistakes of those that
    cannot be read, by name."""
    specs: dict[str, Spec] = {}
    errors: dict[str, list[SpecError]] = {}
    for name, (row, formula) in formulas.items():
        read, mistakes = specfile.read(f"{name}.yaml", document(name, row, formula))
        specs.update((spec.name, spec) for spec in read)
        if mistakes:
            errors[name] = mistakes
    return specs, errors


def document(name: str, row: dict[str, Any], formula: str) -> str:
    """A case as the text of a spec; JSON is YAML."""
    keys = {"name": name, "inputs": row["inputs"], "wrt": row["wrt"], "dtypes": [row["dtype"]]}
    return json.dumps({**keys, "model": formula})


def results_of(specs: dict[str, Spec], options: RunOptions) -> dict[str, SpecResult]:
    """Run the specs, all in one run."""
    events = run(specs.values(), options)
    finished = (event.result for event in events if isinstance(event, SpecFinished))
    return {result.spec: result for result in finished}


def disagreements(rows: list[dict[str, Any]], specs: dict[str, Spec]) -> Iterator[str]:
    """Cases whose truth differs from the data by more than 1e-12 and the truth's own error bar."""
    registered = {"reference": engines()["reference"]}
    options = RunOptions(modes=Layered(override=("reverse",)))
    for row in rows:
        if row["id"] not in specs or row["true_gradient"] is None:
            continue
        truth = compute(make_plan(specs[row["id"]], options, registered).looks[0].truth)
        for name, nested in zip(row["wrt"], row["true_gradient"], strict=True):
            block = truth.blocks["reverse", name]
            for i, exact in enumerate(classes.numbers(nested)):
                value, error = float(block.value.flat[i]), float(block.error.flat[i])
                bar = abs(exact) * TRUTH_AGREES + 2.0**-1074 + error
                if not abs(mpf(value) - exact) <= bar:
                    kind = PointKind(block.kind.flat[i]).name.lower()
                    data = nstr(exact, 17)
                    yield f"{row['id']} {name}[{i}]: {value:.17g} ± {error:.1g} {kind}, data {data}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=DATA)
    parser.add_argument("--only", default="", help="identifiers of cases, with commas between")
    parser.add_argument("--forward", action="store_true", help="show forward mode too")
    parser.add_argument("--json", type=Path, help="write everything that was told")
    arguments = parser.parse_args()
    rows = load(arguments.file, set(filter(None, arguments.only.split(","))))
    modes = ("reverse", "forward") if arguments.forward else ("reverse",)
    options = RunOptions(modes=Layered(override=modes))
    specs, errors = specs_of(formulas_of(rows))
    started = time.monotonic()
    results = results_of(specs, options)
    by_name = {row["id"]: row for row in rows}
    models = {
        name: (by_name[name.split(".")[0]], model) for name, model in offers(rows, results).items()
    }
    results |= results_of(specs_of(models)[0], options)
    seconds = time.monotonic() - started
    tables: dict[str, Any] = {}
    for mode in modes:
        told: list[Told] = []
        for row in rows:
            told += refused(row, errors) if row["id"] in errors else judged(row, results, mode)
        tables[mode] = {"summary": summary(told), "told": [asdict(one) for one in told]}
        print(f"{mode} mode: {len(rows)} cases, {len(results)} specs")
        print_table(tables[mode]["summary"], told)
    print_truth(rows, results, errors, apart := list(disagreements(rows, specs)))
    print(f"{seconds:.0f} s, {seconds / max(len(results), 1):.2f} s a spec")
    if arguments.json:
        text = json.dumps({"modes": tables, "truth_differs": apart}, indent=1)
        arguments.json.write_text(text + "\n", "utf-8")
    return int(not tables["reverse"]["summary"]["reached"])


def print_truth(
    rows: list[dict[str, Any]],
    results: dict[str, SpecResult],
    errors: dict[str, list[SpecError]],
    apart: list[str],
) -> None:
    """Print the sources of the truth, its differences from the data, and what cannot be read."""
    sources: dict[str, int] = {}
    for row in rows:
        checks = results[row["id"]].checks if row["id"] in results else ()
        for source in {check.truth for check in checks}:
            sources[source] = sources.get(source, 0) + 1
    print("truth of the cases: " + ", ".join(f"{n} {source}" for source, n in sources.items()))
    print(f"truth and data differ: {len(apart)}")
    for line in apart:
        print(f"  {line}")
    print(f"refused by the reader: {len(errors)}")
    for name, mistakes in errors.items():
        print(f"  {name}: " + "; ".join(f"{e.code} {e.message}" for e in mistakes))


if __name__ == "__main__":
    sys.exit(main())
