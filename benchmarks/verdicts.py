"""Stores every finding of specs/ and of benchmarks/cases on every engine, and compares them with
the findings of another time or checkout. A change of the code alone must not change any of them.

    python benchmarks/verdicts.py store FILE [PATH ...] [--checkout FOLDER] [--engine NAME,...]
    python benchmarks/verdicts.py compare BEFORE AFTER
    python benchmarks/verdicts.py plain [PATH ...] [--engine NAME,...]

PATH is a spec file or a folder of the checkout, or `cases`, the cases of benchmarks/cases as specs;
the default is `specs cases`.

A finding is identified by its spec, code, engine, dtype, mode, point, input and entry, the
operation that is blamed, and the fix; texts and numbers do not count. `compare` prints what only
one side has, and its exit code is 1 if there is anything. `plain` compares ordinary runs with runs
in which gradcheck replaces nothing in frameworks (GRADCHECK_PLAIN_FRAMEWORKS=1). Findings that
depend on time or on the machine (GC703, GC704) may differ on a busy machine: store again before you
believe one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cases
from against import environment

from gradcheck_cli.engines.kit.startup import SWITCH

HERE = Path(__file__).resolve().parents[1]
FORMULA_ENGINES = "reference,torch,tensorflow,jax,jax-jit,eigen,symbolic"
CASES = "cases"
# Layers with state, of Keras, with an autograd.Function, and with complex numbers inside.
LAYERS = ("batch_norm", "custom_layer", "fused_layer_norm", "spectral_filter")
SAMPLE = ["specs/examples", "specs/planted", *(f"specs/layers/code/{name}.yaml" for name in LAYERS)]
WHERE = ("code", "engine", "dtype", "mode", "point", "input", "index", "allowed")
BLAMED = ("kind", "op", "phase", "engine_op", "line", "column", "proven")
FIX = ("after", "rules", "condition", "custom_gradient")

Verdicts = dict[str, list[str]]  # by spec: its status, checks and findings, each a line of JSON


def store(checkout: Path, paths: Sequence[str], engines: str) -> Verdicts:
    """Run these specs with the code of that checkout."""
    found: Verdicts = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variables = environment(checkout, folder)
        specs = [path for path in paths if path != CASES]
        if specs:
            named = ("--engine", engines) if engines else ()
            found |= verdicts(_run((*specs, *named), checkout, variables, folder))
        if CASES in paths:
            _write_cases(folder / CASES)
            named = ("--engine", engines or FORMULA_ENGINES)
            found |= verdicts(_run((CASES, *named), folder, variables, folder))
    return found


def _write_cases(folder: Path) -> None:
    folder.mkdir()
    for name, (row, formula) in cases.formulas_of(cases.load(cases.DATA, set())).items():
        (folder / f"{name}.yaml").write_text(cases.document(name, row, formula), "utf-8")


def _run(
    arguments: tuple[str, ...], where: Path, variables: Mapping[str, str], folder: Path
) -> dict[str, Any]:
    report = folder / "report.json"
    command = [sys.executable, "-m", "gradcheck_cli", "run", *arguments]
    command += ["--report", f"json={report}", "--quiet", "--exit-zero"]
    ended = subprocess.run(
        command, cwd=where, env={**variables, "GRADCHECK_NO_CACHE": "1"}, stdout=subprocess.DEVNULL
    )
    if not report.exists():
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode} and without a report")
    made: dict[str, Any] = json.loads(report.read_text("utf-8"))
    report.unlink()
    return made


def verdicts(report: Mapping[str, Any]) -> Verdicts:
    """The decisions of a JSON report by spec, sorted."""
    found: Verdicts = {}
    for error in report["errors"]:
        line = _line("error", {key: error[key] for key in ("code", "line", "column")})
        found.setdefault(str(error["path"]), []).append(line)
    for result in report["results"]:
        lines = found.setdefault(f"{result['path']}: {result['spec']}", [])
        lines.append(_line("spec", {"status": result["status"], "ignored": result["ignored"]}))
        lines += [_line("check", _check(check)) for check in result["checks"]]
        lines += [_line("finding", _finding(finding)) for finding in result["findings"]]
    return {spec: sorted(lines) for spec, lines in sorted(found.items())}


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
    return {key: check[key] for key in ("engine", "dtype", "mode", "input", "point", "status")}


def _finding(finding: Mapping[str, Any]) -> dict[str, Any]:
    cause, fix = finding["cause"], finding["fix"]
    return {
        **{key: finding[key] for key in WHERE},
        "cause": cause and {key: cause[key] for key in BLAMED},
        "fix": fix and {key: fix[key] for key in FIX},
    }


def _line(what: str, keys: Mapping[str, Any]) -> str:
    return f"{what} {json.dumps(keys, sort_keys=True)}"


def differences(before: Verdicts, after: Verdicts) -> Iterator[str]:
    """What only one side has, one line each, under the name of the spec."""
    for spec in sorted({*before, *after}):
        old, new = Counter(before.get(spec, ())), Counter(after.get(spec, ()))
        lines = [f"  - {line}" for line in (old - new).elements()]
        lines += [f"  + {line}" for line in (new - old).elements()]
        if lines:
            yield spec
            yield from lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    storing = commands.add_parser("store", help="run everything and store what is found")
    storing.add_argument("file", type=Path)
    storing.add_argument("--checkout", type=Path, default=HERE, help="whose code runs")
    storing.add_argument("paths", nargs="*", default=["specs", CASES], metavar="PATH")
    storing.add_argument("--engine", default="", help="these engines alone, with commas between")
    comparing = commands.add_parser("compare", help="print what differs between two stored runs")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    plain = commands.add_parser("plain", help="compare with frameworks as they are")
    plain.add_argument("paths", nargs="*", default=SAMPLE, metavar="PATH")
    plain.add_argument("--engine", default="", help="these engines alone, with commas between")
    given = parser.parse_args()
    if given.command == "plain":
        return compare(*_both_ways(given.paths, given.engine))
    if given.command == "store":
        found = store(given.checkout.resolve(), given.paths, given.engine)
        given.file.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        counts = Counter(line.split()[0] for lines in found.values() for line in lines)
        print(", ".join(f"{count} {what}s" for what, count in sorted(counts.items())))
        return 0
    before, after = (json.loads(file.read_text("utf-8")) for file in (given.before, given.after))
    return compare(before, after)


def _both_ways(paths: Sequence[str], engines: str) -> list[Verdicts]:
    """The verdicts with gradcheck's replacements in frameworks, and without them."""
    found = []
    for value in ("", "1"):
        os.environ[SWITCH] = value
        found.append(store(HERE, paths, engines))
    return found


def compare(before: Verdicts, after: Verdicts) -> int:
    apart = list(differences(before, after))
    print("\n".join(apart) or f"the same in {len(before)} specs")
    return int(bool(apart))


if __name__ == "__main__":
    sys.exit(main())
