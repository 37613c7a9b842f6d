"""The screen of a search: a line for each kind, with its witness."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from rich.text import Text

from gradcheck_cli.domain.decimals import nested
from gradcheck_cli.domain.report import SearchReport
from gradcheck_cli.domain.search import (
    KINDS,
    Search,
    SearchedFix,
    SearchProgress,
    SearchResult,
    Witness,
)
from gradcheck_cli.report.search_picture import picture_lines
from gradcheck_cli.report.style import Style, plain

_WORDS = {"found": "found", "proven-absent": "absent", "undecided": "open"}
_COLORS = {"found": "bold red", "proven-absent": "green", "undecided": "yellow"}


def search_lines(report: SearchReport, style: Style) -> Iterator[Text]:
    """The results of all specs."""
    for number, result in enumerate(report.results):
        if number:
            yield Text()
        yield from _result_lines(result, style)


def progress_words(progress: SearchProgress) -> str:
    """`sigmoid torch float32: 312 boxes open, 97 % proven; gradient-nonfinite at x = 95.0`."""
    known = progress.known
    words = f"{plain(progress.spec)} {progress.engine} {progress.dtype}: "
    words += f"{known.open_boxes} boxes open, {100 * known.proven:.0f} % proven"
    found = [one for one in known.searches if one.witness is not None]
    if found:
        worst = max(found, key=lambda one: one.witness.size if one.witness else 0.0)
        assert worst.witness is not None
        words += f"; {worst.kind} at {_place(worst.witness, progress.dtype)}"
    return words


def _result_lines(result: SearchResult, style: Style) -> Iterator[Text]:
    for place in dict.fromkeys((one.engine, one.dtype) for one in result.searches):
        engine, dtype = place
        yield Text(f"{result.spec}  {dtype}  {engine}", "bold")
        for search in result.searches:
            if (search.engine, search.dtype) == place:
                yield _line(search)
        yield from picture_lines(result, place, style)
        yield from (Text(f"rerun   {command}") for command in _commands(result, place))
        for fix in result.fixes:
            if (fix.engine, fix.dtype) == place:
                yield from _fix_lines(fix)
    for note in result.notes:
        yield Text(f"note    {note}")


def _line(search: Search) -> Text:
    line = Text(f"{_WORDS[search.verdict]:<8}", _COLORS[search.verdict])
    line.append(f"{search.kind:<28}", "not bold default")
    if search.region.predicate:
        line.append(f"{search.region.predicate}    ", "not bold default")
    if search.witness is not None:
        line.append(_example(search.witness, search.dtype), "not bold default")
    return line


def _commands(result: SearchResult, place: tuple[str, str]) -> Iterable[str]:
    """What shows the witnesses, each once."""
    mine = (one for one in result.searches if (one.engine, one.dtype) == place)
    return dict.fromkeys(one.repeat for one in mine if one.repeat)


def _fix_lines(fix: SearchedFix) -> Iterator[Text]:
    """The formula that may stand in its place, and what is known of it."""
    lines = fix.model.splitlines()
    yield Text(f"fix     {lines[0]}", "bold")
    yield from (Text(f"        {line}", "bold") for line in lines[1:])
    yield from (Text(f"        {words}") for words in searched_words(fix))


def searched_words(fix: SearchedFix) -> Iterator[str]:
    """What is known of a fix over the domain, in sentences."""
    known = "all six kinds" if len(fix.proven) == len(KINDS) else ", ".join(fix.proven)
    if known:
        yield f"proven absent over the same domain: {known}"
    for search in fix.found:
        if search.witness is not None:
            example = _example(search.witness, search.dtype)
            yield f"over the same domain it fails, {search.kind}: {example}"
    if not known and not fix.found:
        yield "over the same domain no failure was found, and nothing is proven"


def _example(witness: Witness, dtype: str) -> str:
    values = _place(witness, dtype)
    if witness.genuine:
        return f"e.g. {values}: {witness.entry} is {witness.truth:.7g}, beyond the dtype"
    truth = "undefined" if math.isnan(witness.truth) else f"truth {witness.truth:.7g}"
    return f"e.g. {values}: {witness.entry} is {witness.computed:.7g}, {truth}"


def _place(witness: Witness, dtype: str) -> str:
    """Decimals that read back, as the command has them."""
    values = witness.values.items()
    return ", ".join(f"{name} = {nested(array.tolist(), dtype)}" for name, array in values)
