"""The screen of a search: a line for each kind, with its witness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from gradcheck_cli.domain.report import SearchReport
from gradcheck_cli.domain.search import Search, SearchedFix, SearchResult
from gradcheck_cli.report.search_picture import picture_lines
from gradcheck_cli.report.search_words import example, searched_words
from gradcheck_cli.report.style import Style, plain

_WORDS = {"found": "found", "proven-absent": "absent", "undecided": "open"}
_COLORS = {"found": "bold red", "proven-absent": "green", "undecided": "yellow"}


def search_lines(report: SearchReport, style: Style) -> Iterator[Text]:
    """The results of all specs."""
    for number, result in enumerate(report.results):
        if number:
            yield Text()
        yield from _result_lines(result, style)


def _result_lines(result: SearchResult, style: Style) -> Iterator[Text]:
    for place in dict.fromkeys((one.engine, one.dtype) for one in result.searches):
        engine, dtype = place
        yield Text(f"{plain(result.spec)}  {dtype}  {engine}", "bold")
        for search in result.searches:
            if (search.engine, search.dtype) == place:
                yield _line(search)
        yield from picture_lines(result, place, style)
        yield from (Text(f"rerun   {plain(command)}") for command in _commands(result, place))
        for fix in result.fixes:
            if (fix.engine, fix.dtype) == place:
                yield from _fix_lines(fix)
    for note in result.notes:
        yield Text(f"note    {plain(note)}")


def _line(search: Search) -> Text:
    line = Text(f"{_WORDS[search.verdict]:<8}", _COLORS[search.verdict])
    line.append(f"{search.kind:<28}", "not bold default")
    if search.region.predicate:
        line.append(f"{search.region.predicate}    ", "not bold default")
    if search.witness is not None:
        line.append(example(search.witness, search.dtype), "not bold default")
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
