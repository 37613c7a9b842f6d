"""Compare the value of a compiled layer with the value of the same layer as written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer, output_shape
from gradcheck_cli.checks.compiled import any_of
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.report import SHOWN_ENTRIES, Entry, Finding
from gradcheck_cli.domain.thresholds import SAME_ERROR
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.engines.tracebacks import where_it_runs
from gradcheck_cli.judge.measures import error_in_ulps
from gradcheck_cli.judge.outputs import worst_first

OTHER_DRAWS = (
    "the compiled layer draws different random numbers from the layer as written, so its "
    "gradient has no truth to compare with"
)


IN_ONE_PRECISION = "differs from the layer as written, in this precision alone"


def wrong_value(
    layer: BoundLayer, compiled_in: Callable[[str], Subject], of_program: Callable[[], Array | None]
) -> Finding | None:
    """GC104 if the compiled value differs from the value of the layer as written by the same amount
    in another precision, which rounding does not do. GC501, with the entries, if it differs in one
    precision alone, as the cost of rounding is unknown here; also if the two draw different random
    numbers. `compiled_in` binds the compiled layer in another dtype. `of_program` gives the value
    of the layer's lifted program, if there is one. If it is the same, the layer as written need not
    run: JAX would compile each of its operations."""
    narrow = layer.narrow
    if not narrow.stages:
        return None
    compiled, stated = _value(narrow), of_program()
    if stated is not None and not np.any(_half_lost(narrow, compiled, stated)):
        return None
    written = _value(narrow, narrow.stages[0])
    off = _half_lost(narrow, compiled, written)
    if not np.any(off):
        return None
    with narrow.at_stage(narrow.stages[0]):
        draws = narrow.run(Call(watch=True)).random
    if draws:  # the truth is the derivative of `value`
        known = not np.any(_half_lost(narrow, compiled, narrow.value({})))
        return None if known else layer.finding(Codes.UNDECIDED, OTHER_DRAWS)
    dtype = "float32" if narrow.dtype == "float64" else "float64"
    error = compiled - written
    there = where_it_runs(partial(_error, compiled_in, dtype), np.full(error.shape, np.nan))
    same = off & (np.abs(error - there) <= SAME_ERROR * np.abs(error))
    exact = written if layer.highest is narrow else layer.highest.value({})
    if np.any(same):
        words = "differs from the layer as written, in every precision"
        return _finding(layer, Codes.WRONG_OUTPUT, words, compiled, exact, written, same)
    off &= _half_lost(narrow, compiled, exact)
    if not np.any(off):
        return None
    return _finding(layer, Codes.UNDECIDED, IN_ONE_PRECISION, compiled, exact, written, off)


def _value(subject: Subject, stage: str = "") -> Array:
    with subject.at_stage(stage):
        return subject.run(Call()).output


def _error(compiled_in: Callable[[str], Subject], dtype: str) -> Array:
    """The compiled value minus the value as written, in another dtype."""
    with closing(compiled_in(dtype)) as subject:
        return _value(subject) - _value(subject, subject.stages[0])


def _half_lost(subject: Subject, compiled: Array, written: Array) -> Array:
    """A mask of the elements that have lost half of the digits of the largest element in their
    output. GC203 reports nan and inf."""
    off = np.zeros(written.shape, dtype=bool)
    half = FORMATS[subject.dtype].half
    for output in subject.outputs:
        part = slice(output.start, output.start + output.size)
        largest = np.max(np.abs(written[part]), initial=0.0)
        off[part] = np.abs(compiled[part] - written[part]) > half * largest
    return np.asarray(off & np.isfinite(compiled) & np.isfinite(written))


def _words_of_stage(subject: Subject, written: Array, off: Array) -> tuple[str, str]:
    """The stage from which on the value is wrong: a sentence, and the name of the stage."""
    before, *between, last = subject.stages
    silent: list[str] = []
    for stage in between:
        value = where_it_runs(partial(_value, subject, stage), None)
        if value is None:
            silent.append(stage)
        elif np.any(_half_lost(subject, value, written) & off):
            last = stage
            break
        else:
            before, silent = stage, []
    last = any_of(silent, last)
    return f"right with {before}, wrong from {last} on", last


def _finding(
    layer: BoundLayer,
    code: str,
    words: str,
    compiled: Array,
    exact: Array,
    written: Array,
    off: Array,
) -> Finding:
    ulps = error_in_ulps(compiled, exact, FORMATS[layer.narrow.dtype])
    places = worst_first(off, ulps)
    shape = output_shape(layer.narrow)
    entries = tuple(
        Entry(
            index_of(place, shape),
            computed=float(compiled[place]),
            truth=float(exact[place]),
            ulps=float(ulps[place]),
        )
        for place in places[:SHOWN_ENTRIES]
    )
    of_stage, name = _words_of_stage(layer.narrow, written, off)
    many = "the output" if exact.size == 1 else f"{len(places)} of {exact.size} outputs"
    return replace(
        layer.finding(code, f"{many}: {words}; {of_stage}"),
        entries=entries,
        more=len(places) - len(entries),
        truth_source="confirmed",
        stage=name,
    )
