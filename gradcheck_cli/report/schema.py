"""The JSON Schema (draft 2020-12) of the JSON report."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from gradcheck_cli.domain.report import CauseKind, Rule
from gradcheck_cli.domain.search import KINDS

SCHEMA_VERSION = 1

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_PLACE: Schema = {"type": "integer", "minimum": 1}
_YES_OR_NO: Schema = {"type": "boolean"}
_SECONDS: Schema = {"type": "number", "minimum": 0}
_STATUS: Schema = {"enum": ["passed", "failed", "error"]}
_NUMBER: Schema = {
    "description": "A number, or a string if JSON has no literal for it.",
    "anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}],
}
_NUMBER_OR_NULL: Schema = {"anyOf": [*_NUMBER["anyOf"], {"type": "null"}]}
_POINT: Schema = {
    "description": "The place in the spec's list of points, from 0; null without such a list.",
    "type": ["integer", "null"],
    "minimum": 0,
}


_MERGE: Schema = {**_TEXT, "description": "Of a shard: what `gradcheck merge` reads."}
_IGNORED = "Findings by code that do not count: those of `suppressed`."


def report_schema() -> Schema:
    """What `--format json` writes. `schema_version` changes when this does."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gradcheck report",
        **_object(
            schema_version={"const": SCHEMA_VERSION},
            tool=_object(
                name={"const": "gradcheck"},
                version=_TEXT,
                engines=_mapping(_TEXT, "Version of every engine that took part."),
            ),
            seed={"type": "integer"},
            fail_on={
                "description": "Findings of this severity or worse make the run fail.",
                "enum": ["error", "warning"],
            },
            duration_s=_SECONDS,
            interrupted=_described(
                _YES_OR_NO,
                "Whether the run ended early: specs that were not finished are not in `results`.",
            ),
            signal=_described(
                _TEXT_OR_NULL, "The signal that interrupted the run, such as SIGINT."
            ),
            summary=_object(
                specs=_COUNT,
                passed=_COUNT,
                failed=_COUNT,
                errors=_COUNT,
                checks=_COUNT,
                findings=_mapping(_COUNT, "Findings by code, without the allowed ones."),
                allowed=_described(_COUNT, "The number of findings that specs allow."),
                ignored=_mapping(_COUNT, _IGNORED),
                suppressed=_mapping(
                    _COUNT, "Their number by reason: --ignore GC2, --select GC1, baseline FILE."
                ),
                unchanged=_described(_COUNT, "Specs that --changed-since left out."),
            ),
            results=_list(result_schema()),
            errors=_list(error_schema()),
            optional={
                "shard": _described(_TEXT, "The part of the run: K/N."),
                "elsewhere": _described(_COUNT, "Specs or operations in other shards."),
                "merge": _MERGE,
                "suite": _described(_TEXT, "Of `gradcheck suite`: its name."),
                "refused": _mapping(_TEXT, "Operations of the suite without a sample, and why."),
            },
        ),
    }


@cache
def error_schema() -> Schema:
    return _object(
        code=_TEXT,
        path=_TEXT,
        line={**_PLACE, "type": ["integer", "null"]},
        column={**_PLACE, "type": ["integer", "null"]},
        message=_TEXT,
        help=_described(_TEXT, "How to correct the mistake, if that is known."),
    )


@cache
def result_schema() -> Schema:
    return _object(
        spec=_TEXT,
        path=_TEXT,
        status=_STATUS,
        checks=_list(check_schema()),
        findings=_list(finding_schema()),
        ignored=_mapping(_COUNT, _IGNORED),
        suppressed=_described(
            _list(finding_schema()), "Findings that do not count, each with its `reason`."
        ),
        unmatched_allows=_described(
            _list(_TEXT),
            "Findings that the spec allows but that did not occur, each as a sentence.",
        ),
        by_design=_described(
            _list(accepted_schema()),
            "Intended deviations that the spec declares inside its layers, and "
            "what they matched. The checks then have the truth `declared`.",
        ),
        notes=_described(
            _list(_TEXT),
            "Sentences about what was left out, and what ran in another way, such as uncompiled.",
        ),
        duration_s=_described(_SECONDS, "Seconds that workers computed for this spec."),
        compile_s=_mapping(
            _SECONDS,
            "Seconds that each engine compiled, where it did. A time limit does not count them.",
        ),
        cached=_described(_YES_OR_NO, "Whether this result comes from an earlier run."),
        optional={"merge": _MERGE},
    )


@cache
def check_schema() -> Schema:
    return _object(
        engine=_TEXT,
        dtype=_TEXT,
        mode=_TEXT,
        input=_TEXT,
        point=_POINT,
        status=_STATUS,
        max_ulps=_NUMBER_OR_NULL,
        passed_by=_described(
            _list(
                _object(
                    rule={"enum": list(get_args(Rule))},
                    entries=_COUNT,
                    ulps=_NUMBER_OR_NULL,
                )
            ),
            "The rules by which numbers passed that are more than a few "
            "ulps off: how many, and the largest of their errors.",
        ),
        truth=_described(_TEXT, "Where the truth came from."),
        truth_error_ulps=_described(
            _NUMBER_OR_NULL, "Its widest error bar, or its radius if it is certified."
        ),
        caught=_described(
            _NUMBER_OR_NULL,
            "If not every entry was compared: the error in a single entry that "
            "would have been found with probability `power`.",
        ),
        power=_NUMBER_OR_NULL,
        evaluations=_object(
            forward=_COUNT,
            backward=_COUNT,
            batched=_described(
                _COUNT, "Points for differences of a layer that were evaluated several per call."
            ),
            looped=_described(_COUNT, "Points that were evaluated one per call."),
        ),
        duration_s=_SECONDS,
    )


@cache
def accepted_schema() -> Schema:
    return _object(
        engine=_TEXT,
        function=_TEXT_OR_NULL,
        detach=_TEXT_OR_NULL,
        surrogate=_described(_TEXT_OR_NULL, "The formula that stands for the function."),
        reason=_TEXT,
        line=_described(_PLACE, "Where the spec says so."),
        calls=_COUNT,
        places=_described(_list(_TEXT), "Where the calls are in the code of the layer."),
    )


@cache
def finding_schema() -> Schema:
    return _object(
        code={"type": "string", "pattern": "^GC[0-9]{3}$"},
        name=_TEXT,
        severity={"enum": ["error", "warning", "note"]},
        engine=_TEXT_OR_NULL,
        dtype=_TEXT_OR_NULL,
        mode=_TEXT_OR_NULL,
        input=_TEXT_OR_NULL,
        point=_POINT,
        at=_or_null(
            _list(_TEXT),
            "Where a search found it: the inputs that differ from the spec's, as --at takes them.",
        ),
        region=_or_null(_region()),
        index=_or_null(
            _list(_COUNT),
            "The worst entry; the index of the output comes first if that is not a scalar.",
        ),
        message=_TEXT,
        computed=_NUMBER_OR_NULL,
        truth=_NUMBER_OR_NULL,
        truth_error=_NUMBER_OR_NULL,
        finite_difference=_NUMBER_OR_NULL,
        finite_difference_error=_NUMBER_OR_NULL,
        ulps=_NUMBER_OR_NULL,
        cause=_or_null(cause_schema()),
        stage=_described(_TEXT_OR_NULL, "The stage of a compiler that is to blame."),
        pattern=_TEXT_OR_NULL,
        fix=_or_null(fix_schema()),
        no_fix=_described(_TEXT_OR_NULL, "Why there is no fix, if one was searched for."),
        location=_object(path=_TEXT, line=_PLACE, column=_PLACE),
        fingerprint=_TEXT,
        repeat=_TEXT,
        allowed=_YES_OR_NO,
        reason=_described(_TEXT_OR_NULL, "Why the spec allows it, or why it does not count."),
    )


@cache
def cause_schema() -> Schema:
    return _object(
        op=_TEXT,
        phase={"enum": ["forward", "backward"]},
        path=_described(_TEXT, "The spec's file, or a file of the code of a layer."),
        line=_PLACE,
        column=_PLACE,
        detail=_TEXT,
        kind={"enum": list(get_args(CauseKind))},
        engine_op=_described(
            _TEXT_OR_NULL, "The operation that the engine executed, in its own words."
        ),
        proven=_described(_YES_OR_NO, "Whether a run confirmed it; `proof` says what was run."),
        proof=_TEXT,
        repaired_ulps=_described(_NUMBER_OR_NULL, "The error of the entry with the cause removed."),
    )


@cache
def fix_schema() -> Schema:
    """A stable formula that the engine of the finding was tried with."""
    return _object(
        before=_TEXT,
        after=_TEXT,
        ulps_before=_NUMBER_OR_NULL,
        ulps_after=_NUMBER_OR_NULL,
        code=_mapping(_TEXT, "Python with a function f of the inputs, by framework."),
        value=_described(_NUMBER_OR_NULL, "The result for the worst entry."),
        model=_described(_TEXT, "The whole new formula."),
        rules=_described(_list(_TEXT), "The rewrites in order."),
        condition=_described(_TEXT, "Where the two are equal; empty: everywhere."),
        kink=_described(_TEXT, "What it has where the old one has no derivative."),
        custom_gradient={"type": "boolean", "description": "Whether the fix states a derivative."},
        location=_or_null(
            _object(path=_TEXT, line=_PLACE, column=_PLACE),
            "For a layer: where `before` is; `after` is code of its framework.",
        ),
        points=_object(tried=_COUNT, right=_COUNT),
        searched=_or_null(
            _searched(), "What a search of the domain says about it (`gradcheck search`)."
        ),
    )


def _region() -> Schema:
    """The region of a kind of failure, found by a search of the domain."""
    boxes = _list(_mapping({}, "[low, high] of each number, by input."))
    return _object(
        boxes=_or_null(
            boxes, "Every failing point lies in one of them; null where that is not known."
        ),
        inner=_described(boxes, "Every point of them fails."),
        open=_described(boxes, "Boxes for which it is not known whether any point fails."),
        predicate=_described(_TEXT, "The same, in words."),
        fraction=_described(_NUMBER_OR_NULL, "The part of the domain, by volume."),
    )


def _searched() -> Schema:
    """A fix that was searched over the domain."""
    kinds = {"enum": list(KINDS)}
    return _object(
        engine=_TEXT,
        dtype=_TEXT,
        model=_TEXT,
        rules=_list(_TEXT),
        proven=_described(_list(kinds), "The kinds of failure that are proven absent."),
        found=_described(
            _list({"type": "object"}),
            "Where it fails, each as an entry of `searches` of `gradcheck search`.",
        ),
    )


def _object(optional: Mapping[str, Schema] = MappingProxyType({}), **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {**properties, **optional},
        "required": list(properties),
        "additionalProperties": False,
    }


def _mapping(values: Schema, description: str) -> Schema:
    return {"type": "object", "description": description, "additionalProperties": values}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _or_null(schema: Schema, description: str = "") -> Schema:
    told = {"description": description} if description else {}
    return {**told, "anyOf": [schema, {"type": "null"}]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}
