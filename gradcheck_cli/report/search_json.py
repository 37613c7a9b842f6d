"""The JSON of a search: a contract (docs/search.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gradcheck_cli.domain.report import SearchReport
from gradcheck_cli.domain.search import Box, Kind, Region, Search, SearchedFix, SearchResult

if TYPE_CHECKING:
    from gradcheck_cli.domain.dtypes import Array


def search_as_json(report: SearchReport) -> dict[str, Any]:
    """The report as plain lists and dictionaries."""
    return {
        "results": [_result(result) for result in report.results],
        "interrupted": report.interrupted,
    }


def _result(result: SearchResult) -> dict[str, Any]:
    return {
        "spec": result.spec,
        "file": result.file,
        "notes": list(result.notes),
        "searches": [_search(search) for search in result.searches],
        "fixes": [fix_as_json(fix) for fix in result.fixes],
    }


def fix_as_json(fix: SearchedFix) -> dict[str, Any]:
    """A fix, with the result of searching it over the same domain."""
    return {
        "engine": fix.engine,
        "dtype": fix.dtype,
        "model": fix.model,
        "rules": list(fix.rules),
        "proven": list(fix.proven),
        "found": [_search(search) for search in fix.found],
    }


def _search(search: Search) -> dict[str, Any]:
    witness = search.witness
    proof = {
        "semantics": "float",
        "assumptions": list(search.assumptions),
        "boxes": search.boxes,
    }
    return {
        "engine": search.engine,
        "dtype": search.dtype,
        "kind": search.kind,
        "verdict": search.verdict,
        "witness": None
        if witness is None
        else {name: array.tolist() for name, array in witness.values.items()},
        "entry": None if witness is None else _entry(witness.entry, search.kind),
        "computed": None if witness is None else _number(witness.computed),
        "truth": None if witness is None else _number(witness.truth),
        "genuine_overflow": witness is not None and witness.genuine,
        "value_lost": witness is not None and witness.value_lost,
        "region": region_as_json(search.region),
        "proof": proof if search.verdict == "proven-absent" else None,
        "boxes": search.boxes,
        "runs": search.runs,
        "seconds": round(search.seconds, 3),
        "why": search.why,
        "repeat": search.repeat or None,
    }


def _entry(entry: str, kind: Kind) -> str:
    """The entry in the JSON of a search: the gradient with respect to a scalar is entry 0 of its
    array."""
    name, of, row = entry.partition(" of ")
    is_value = name.split("[")[0] == "value" and not kind.startswith("gradient")
    return entry if is_value or name.endswith("]") else f"{name}[0]{of}{row}"


def _number(number: float) -> str:
    """All digits of a number as text, because JSON has no nan."""
    return repr(float(number))


def region_as_json(region: Region) -> dict[str, Any]:
    """The boxes of a region, or None if they are not known."""
    return {
        "boxes": None if region.whole is None else [_box(box) for box in region.whole],
        "inner": [_box(box) for box in region.inner],
        "open": [_box(box) for box in region.open],
        "predicate": region.predicate,
        "fraction": region.fraction,
    }


def _box(box: Box) -> dict[str, Any]:
    """[low, high] for a scalar; nested lists of such pairs for an array."""
    return {name: _pairs(low, high) for name, (low, high) in box.items()}


def _pairs(low: Array, high: Array) -> Any:
    if low.ndim:
        return [_pairs(a, b) for a, b in zip(low, high, strict=True)]
    pair = float(low), float(high)
    assert all(map(math.isfinite, pair))
    return list(pair)
