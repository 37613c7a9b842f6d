"""The screen of a search: a line for each kind, with its witness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from gradcheck_cli.domain.report import SearchReport
from gradcheck_cli.domain.search import Search, SearchedFix, SearchResult
from gradcheck_cli.report.search_picture import picture_lines
from gradcheck_cli.report.search_words import example, searched_words
from gradcheck_cli.report.style import Style, plain, wrapped

_MARGIN = 8  # of labels
_NARROWEST = 24
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
                yield from _lines(search, style)
        yield from picture_lines(result, place, style)
        yield from (Text(f"rerun   {plain(command)}") for command in _commands(result, place))
        for fix in result.fixes:
            if (fix.engine, fix.dtype) == place:
                yield from _fix_lines(fix, style)
    for note in result.notes:
        yield from _labelled(Text("note    "), note, style)


def _lines(search: Search, style: Style) -> Iterator[Text]:
    words = f"{search.kind:<28}"
    if search.region.predicate:
        words += f"{search.region.predicate}    "
    if search.witness is not None:
        words += example(search.witness, search.dtype)
    label = Text(f"{_WORDS[search.verdict]:<{_MARGIN}}", _COLORS[search.verdict])
    yield from _labelled(label, words, style)


def _labelled(label: Text, words: str, style: Style) -> Iterator[Text]:
    """The label, and words that are wrapped behind it."""
    first, *more = wrapped(words, max(style.width - _MARGIN, _NARROWEST))
    yield label.append(first.rstrip(), "not bold default")
    yield from (Text(" " * _MARGIN + line.rstrip()) for line in more)


def _commands(result: SearchResult, place: tuple[str, str]) -> Iterable[str]:
    """What shows the witnesses, each once."""
    mine = (one for one in result.searches if (one.engine, one.dtype) == place)
    return dict.fromkeys(one.repeat for one in mine if one.repeat)


def _fix_lines(fix: SearchedFix, style: Style) -> Iterator[Text]:
    """The formula that may stand in its place, and what is known of it."""
    lines = fix.model.splitlines()
    yield Text(f"fix     {lines[0]}", "bold")
    yield from (Text(f"        {line}", "bold") for line in lines[1:])
    for words in searched_words(fix):
        yield from _labelled(Text(" " * _MARGIN), words, style)
