"""`gradcheck search`."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from gradcheck_cli.cli.one_file import read_specs, show_mistakes
from gradcheck_cli.cli.option_types import Choice, Engines, Integer, Listed, Number
from gradcheck_cli.cli.settings import DTYPES
from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.search import KINDS

if TYPE_CHECKING:
    from gradcheck_cli.domain.report import SearchReport, SpecError
    from gradcheck_cli.domain.spec import Spec
    from gradcheck_cli.run.searching import SearchOptions

EPILOG = """Exit codes: 0 proven absent, 1 something was found, 4 something is undecided, 2 usage
or spec error, or nothing to search, 3 internal error, 130 interrupted."""


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--format",
    "written",
    type=Choice(("human", "json")),
    default="human",
    help="Format of the results; default: human.",
)
@click.option(
    "--engine", type=Engines(), multiple=True, help="Engines; default: the spec's, else torch."
)
@click.option(
    "--dtype",
    type=Listed(DTYPES),
    multiple=True,
    help="Dtypes; default: the spec's, else float32 and float64.",
)
@click.option(
    "--kind", type=Listed(KINDS), multiple=True, help="Kinds of failure; default: all six."
)
@click.option(
    "--budget",
    type=Number(min=0, min_open=True),
    default=10.0,
    help="Seconds of processor time per spec; default: 10.",
)
@click.option("--seed", type=Integer(min=0), default=0, help="Seed of random points; default: 0.")
@click.option(
    "--svg",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write a picture for each spec, engine and dtype to this folder.",
)
@click.option(
    "--resume",
    type=click.Path(),
    metavar="FILE",
    help="Write each finished spec to this file, and reuse results that are already in it.",
)
@click.option(
    "--jobs",
    "-j",
    type=Integer(min=1),
    help="Maximum number of workers per engine; default: the number of processors.",
)
@color_option
def command(
    paths: tuple[str, ...],
    written: str,
    engine: tuple[tuple[str, ...], ...],
    dtype: tuple[tuple[str, ...], ...],
    kind: tuple[tuple[str, ...], ...],
    budget: float,
    seed: int,
    jobs: int | None,
    svg: str | None,
    resume: str | None,
    color: str | None,
) -> int:
    """Find inputs where a gradient breaks, or prove that there are none.

    The inputs of the specs in FILE have a `domain: [low, high]`: every number of the dtype in it is
    searched. An input without a domain keeps its value.
    """
    from gradcheck_cli.run.workers.launch import prewarm_named

    engines = [name for names in engine for name in names]
    prewarm_named(engines or ["torch"])
    from gradcheck_cli.domain.options import Layered
    from gradcheck_cli.run.searching import SearchOptions

    prepare_streams()
    specs, mistakes = read_specs(*paths)
    chosen = {name for names in kind for name in names}
    options = SearchOptions(
        engines=Layered(override=tuple(engines) or None),
        dtypes=Layered(override=tuple(name for names in dtype for name in names) or None),
        seed=seed,
        jobs=jobs,
        resume=resume or "",
        kinds=tuple(one for one in KINDS if one in chosen) or KINDS,
        budget=budget,
        drawn=svg is not None,
    )
    report = _run_search(specs, mistakes, options)
    show_mistakes(mistakes, color)
    if svg is not None:
        _draw(report, svg)
    _print(report, written, color)
    return _code(report)


def _run_search(
    specs: list[Spec], mistakes: list[SpecError], options: SearchOptions
) -> SearchReport:
    """The results of the search until its end, or until an interruption."""
    from gradcheck_cli.cli.listeners import SearchLine
    from gradcheck_cli.domain.report import SearchReport
    from gradcheck_cli.domain.search import SearchResult
    from gradcheck_cli.run.searching import search

    results: list[SearchResult] = []
    interrupted = False
    line = SearchLine(sys.stderr)
    try:
        for result in search(specs, options, line.hear):
            results.append(result)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        line.clear()
    return SearchReport(tuple(results), tuple(mistakes), interrupted)


def _print(report: SearchReport, written: str, color: str | None) -> None:
    if written == "json":
        from gradcheck_cli.report.search_json import search_as_json

        click.echo(json.dumps(search_as_json(report), indent=2, allow_nan=False))
        return
    from gradcheck_cli.report.console import print_lines
    from gradcheck_cli.report.search_screen import search_lines

    style = style_for(sys.stdout, color)
    print_lines(sys.stdout, style, search_lines(report, style))


def _draw(report: SearchReport, folder: str) -> None:
    """Write SPEC.ENGINE.DTYPE.svg for everything that was searched. A second spec of the same name
    gets a number."""
    from gradcheck_cli.report.search_svg import search_svg

    written: Counter[str] = Counter()
    try:
        os.makedirs(folder, exist_ok=True)
        for result in report.results:
            for engine, dtype in dict.fromkeys((one.engine, one.dtype) for one in result.searches):
                name = re.sub(r"[^\w.-]+", "_", f"{result.spec}.{engine}.{dtype}")
                if picture := search_svg(result, (engine, dtype)):
                    written[name] += 1
                    number = "" if written[name] == 1 else f".{written[name]}"
                    path = os.path.join(folder, f"{name}{number}.svg")
                    with open(path, "w", encoding="utf-8") as stream:
                        stream.write(picture)
    except OSError as error:
        raise UsageError(f"--svg: cannot write to {folder}: {error.strerror}") from error


def _code(report: SearchReport) -> int:
    from gradcheck_cli.cli import exits
    from gradcheck_cli.run.searching import NO_DOMAIN

    if report.interrupted:
        raise KeyboardInterrupt
    if report.errors:
        return exits.USAGE
    verdicts = {search.verdict for result in report.results for search in result.searches}
    if not verdicts:
        if all(NO_DOMAIN in result.notes for result in report.results):
            words = "nothing was searched: no input has a domain"
            raise UsageError(words, "write `domain: [low, high]` for an input")
        raise UsageError("nothing was searched")
    if "found" in verdicts:
        return exits.FOUND
    return exits.UNDECIDED if "undecided" in verdicts else exits.PASSED
