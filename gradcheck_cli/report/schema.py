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
            duration_s={"type": "number", "minimum": 0},
            interrupted={
                "description": "Whether the run ended early: specs that were not finished are not "
                "in `results`.",
                "type": "boolean",
            },
            signal={
                **_TEXT_OR_NULL,
                "description": "The signal that interrupted the run, such as SIGINT.",
            },
            summary=_object(
                specs=_COUNT,
                passed=_COUNT,
                failed=_COUNT,
                errors=_COUNT,
                checks=_COUNT,
                findings=_mapping(_COUNT, "Findings by code, without the allowed ones."),
                allowed={**_COUNT, "description": "The number of findings that specs allow."},
                ignored=_mapping(_COUNT, _IGNORED),
                suppressed=_mapping(
                    _COUNT, "Their number by reason: --ignore GC2, --select GC1, baseline FILE."
                ),
                unchanged={
                    **_COUNT,
                    "description": "Specs that --changed-since left out.",
                },
            ),
            results=_list(result_schema()),
            errors=_list(error_schema()),
            optional={
                "shard": {
                    **_TEXT,
                    "description": "The part of the run: K/N.",
                },
                "elsewhere": {
                    **_COUNT,
                    "description": "Specs or operations in other shards.",
                },
                "merge": _MERGE,
                "suite": {**_TEXT, "description": "Of `gradcheck suite`: its name."},
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
        help={**_TEXT, "description": "How to correct the mistake, if that is known."},
    )


@cache
def result_schema() -> Schema:
    return _object(
        spec=_TEXT,
        path=_TEXT,
        status={"enum": ["passed", "failed", "error"]},
        checks=_list(check_schema()),
        findings=_list(finding_schema()),
        ignored=_mapping(_COUNT, _IGNORED),
        suppressed={
            **_list(finding_schema()),
            "description": "Findings that do not count, each with its `reason`.",
        },
        unmatched_allows={
            **_list(_TEXT),
            "description": "Findings that the spec allows but that did not occur, each as a "
            "sentence.",
        },
        by_design={
            **_list(accepted_schema()),
            "description": "Intended deviations that the spec declares inside its layers, and "
            "what they matched. The checks then have the truth `declared`.",
        },
        duration_s={
            "type": "number",
            "minimum": 0,
            "description": "Seconds that workers computed for this spec.",
        },
        compile_s={
            "type": "object",
            "additionalProperties": {"type": "number", "minimum": 0},
            "description": "Seconds that each engine compiled, where it did. A time limit does not "
            "count them.",
        },
        cached={"type": "boolean", "description": "Whether this result comes from an earlier run."},
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
        status={"enum": ["passed", "failed", "error"]},
        max_ulps=_NUMBER_OR_NULL,
        passed_by={
            **_list(
                _object(
                    rule={"enum": list(get_args(Rule))},
                    entries=_COUNT,
                    ulps=_NUMBER_OR_NULL,
                )
            ),
            "description": "The rules by which numbers passed that are more than a few "
            "ulps off: how many, and the largest of their errors.",
        },
        truth={**_TEXT, "description": "Where the truth came from."},
        truth_error_ulps={
            **_NUMBER_OR_NULL,
            "description": "Its widest error bar, or its radius if it is certified.",
        },
        caught={
            **_NUMBER_OR_NULL,
            "description": "If not every entry was compared: the error in a single entry that "
            "would have been found with probability `power`.",
        },
        power=_NUMBER_OR_NULL,
        evaluations=_object(
            forward=_COUNT,
            backward=_COUNT,
            batched={
                **_COUNT,
                "description": "Points for differences of a layer that were evaluated several "
                "per call.",
            },
            looped={**_COUNT, "description": "Points that were evaluated one per call."},
        ),
        duration_s={"type": "number", "minimum": 0},
    )


@cache
def accepted_schema() -> Schema:
    return _object(
        engine=_TEXT,
        function=_TEXT_OR_NULL,
        detach=_TEXT_OR_NULL,
        surrogate={**_TEXT_OR_NULL, "description": "The formula that stands for the function."},
        reason=_TEXT,
        line={**_PLACE, "description": "Where the spec says so."},
        calls=_COUNT,
        places={**_list(_TEXT), "description": "Where the calls are in the code of the layer."},
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
        at={
            "description": "Where a search found it: the inputs that differ from the spec's, as "
            "--at takes them.",
            "anyOf": [_list(_TEXT), {"type": "null"}],
        },
        region={"anyOf": [_region(), {"type": "null"}]},
        index={
            "description": "The worst entry; the index of the output comes first if that is not "
            "a scalar.",
            "anyOf": [_list(_COUNT), {"type": "null"}],
        },
        message=_TEXT,
        computed=_NUMBER_OR_NULL,
        truth=_NUMBER_OR_NULL,
        truth_error=_NUMBER_OR_NULL,
        finite_difference=_NUMBER_OR_NULL,
        finite_difference_error=_NUMBER_OR_NULL,
        ulps=_NUMBER_OR_NULL,
        cause={"anyOf": [cause_schema(), {"type": "null"}]},
        stage={**_TEXT_OR_NULL, "description": "The stage of a compiler that is to blame."},
        pattern=_TEXT_OR_NULL,
        fix={"anyOf": [fix_schema(), {"type": "null"}]},
        no_fix={**_TEXT_OR_NULL, "description": "Why there is no fix, if one was searched for."},
        location=_object(path=_TEXT, line=_PLACE, column=_PLACE),
        fingerprint=_TEXT,
        repeat=_TEXT,
        allowed={"type": "boolean"},
        reason={
            **_TEXT_OR_NULL,
            "description": "Why the spec allows it, or why it does not count.",
        },
    )


@cache
def cause_schema() -> Schema:
    return _object(
        op=_TEXT,
        phase={"enum": ["forward", "backward"]},
        path={
            **_TEXT,
            "description": "The spec's file, or a file of the code of a layer.",
        },
        line=_PLACE,
        column=_PLACE,
        detail=_TEXT,
        kind={"enum": list(get_args(CauseKind))},
        engine_op={
            **_TEXT_OR_NULL,
            "description": "The operation that the engine executed, in its own words.",
        },
        proven={
            "type": "boolean",
            "description": "Whether a run confirmed it; `proof` says what was run.",
        },
        proof=_TEXT,
        repaired_ulps={
            **_NUMBER_OR_NULL,
            "description": "The error of the entry with the cause removed.",
        },
    )


@cache
def fix_schema() -> Schema:
    """A stable form that was tried by the engine of the finding."""
    return _object(
        before=_TEXT,
        after=_TEXT,
        ulps_before=_NUMBER_OR_NULL,
        ulps_after=_NUMBER_OR_NULL,
        code=_mapping(_TEXT, "Python with a function f of the inputs, by framework."),
        value={**_NUMBER_OR_NULL, "description": "The result for the worst entry."},
        model={**_TEXT, "description": "The whole new formula."},
        rules={**_list(_TEXT), "description": "The rewrites in order."},
        condition={**_TEXT, "description": "Where the two are equal; empty: everywhere."},
        kink={**_TEXT, "description": "What it has where the old one has no derivative."},
        custom_gradient={"type": "boolean", "description": "Whether the fix states a derivative."},
        location={
            "description": "For a layer: where `before` is; `after` is code of its framework.",
            "anyOf": [_object(path=_TEXT, line=_PLACE, column=_PLACE), {"type": "null"}],
        },
        points=_object(tried=_COUNT, right=_COUNT),
        searched={
            "description": "What a search of the domain says about it (`gradcheck search`).",
            "anyOf": [_searched(), {"type": "null"}],
        },
    )


def _region() -> Schema:
    """Where a kind of failure happens, as a search of the domain found."""
    boxes = _list(_mapping({}, "[low, high] of each number, by input."))
    return _object(
        boxes={
            "description": "Every failing point lies in one of them; null where that is not known.",
            "anyOf": [boxes, {"type": "null"}],
        },
        inner={**boxes, "description": "Every point of them fails."},
        open={
            **boxes,
            "description": "Boxes for which it is not known whether any point fails.",
        },
        predicate={**_TEXT, "description": "The same, in words."},
        fraction={**_NUMBER_OR_NULL, "description": "The part of the domain, by volume."},
    )


def _searched() -> Schema:
    """A fix that was searched over the domain."""
    kinds = {"enum": list(KINDS)}
    return _object(
        engine=_TEXT,
        dtype=_TEXT,
        model=_TEXT,
        rules=_list(_TEXT),
        proven={**_list(kinds), "description": "The kinds of failure that are proven absent."},
        found={
            **_list({"type": "object"}),
            "description": "Where it fails, each as an entry of `searches` of `gradcheck search`.",
        },
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


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}
