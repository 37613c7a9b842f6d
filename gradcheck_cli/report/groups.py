"""Groups findings that say the same thing about several engines, dtypes and modes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.report import Finding


def grouped(findings: Iterable[Finding]) -> list[tuple[Finding, ...]]:
    """Groups in the order of their first finding.

    Two findings belong together if they have the same code, place, input, point, operation to blame
    and pattern; engine, dtype and mode may differ. Notes on the same operation belong together for
    all inputs. So do gradients that are missing because of one detached path, and derivatives that
    do not exist. Dtypes are separate if the message differs ("overflows float16", "overflows
    float32"). Findings without entries must also have the same message.
    """
    groups: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_key(finding), []).append(finding)
    return [part for group in groups.values() for part in _by_dtype(group)]


def _key(finding: Finding) -> Hashable:
    cause = finding.cause
    of_all = of_all_inputs(finding) or (cause is not None and finding.severity == "note")
    return (
        finding.code,
        finding.severity,
        finding.span,
        finding.place,
        None if of_all else finding.input,
        finding.point,
        finding.at,
        finding.pattern,
        finding.allowed,
        finding.reason,
        None if cause is None else (cause.op, cause.span, cause.source),
        "" if finding.entries or of_all_inputs(finding) else finding.message,
    )


def of_all_inputs(finding: Finding) -> bool:
    """Whether one sentence holds for every input: there is no derivative, or a detached path leaves
    no gradient."""
    cause = finding.cause
    detached = cause is not None and cause.kind == "detached path"
    return finding.code == Codes.UNDEFINED_DERIVATIVE or (
        finding.code == Codes.MISSING_GRADIENT and detached
    )


def detail_of(group: Sequence[Finding]) -> str:
    """The text at the caret. If it holds for every input, it names the inputs of the group."""
    first = group[0]
    detail = first.cause.detail if first.cause and first.cause.detail else first.message
    names = list(dict.fromkeys(f"`{one.input}`" for one in group if one.input is not None))
    if not of_all_inputs(first) or len(names) < 2:
        return detail
    return detail.replace(names[0], ", ".join(names), 1)


def _by_dtype(group: Sequence[Finding]) -> list[tuple[Finding, ...]]:
    told: dict[str | None, set[str]] = {}
    for finding in group:
        told.setdefault(finding.dtype, set()).add(finding.cause.detail if finding.cause else "")
    parts: dict[Hashable, list[Finding]] = {}
    for finding in group:
        parts.setdefault(frozenset(told[finding.dtype]), []).append(finding)
    return [tuple(part) for part in parts.values()]


def described(findings: Iterable[Finding], among: Sequence[Finding] = ()) -> str:
    """The engines, dtypes and modes of findings: "torch, tensorflow float32 reverse, forward".

    The text is exact: combinations that are not a full product are written in parts, separated by
    semicolons. Words that all findings in `among` share are left out.
    """
    common = [
        len({getattr(finding, name) for finding in among}) == 1
        for name in ("engine", "dtype", "mode")
    ]
    engines: dict[str, dict[str, dict[str, None]]] = {}
    for finding in findings:
        who = (finding.engine, finding.dtype, finding.mode)
        engine, dtype, mode = (
            "" if shared else name or "" for name, shared in zip(who, common, strict=True)
        )
        engines.setdefault(engine, {}).setdefault(dtype, {})[mode] = None
    alike: dict[Hashable, list[str]] = {}
    for engine, dtypes in engines.items():
        alike.setdefault(_frozen(dtypes), []).append(engine)
    parts = []
    for names in alike.values():
        for dtypes_alike, modes in _products(engines[names[0]]):
            words = (_listed(names), _listed(dtypes_alike), _listed(modes))
            parts.append(" ".join(word for word in words if word))
    return "; ".join(part for part in parts if part)


def _frozen(dtypes: dict[str, dict[str, None]]) -> Hashable:
    return frozenset((dtype, frozenset(modes)) for dtype, modes in dtypes.items())


def _products(dtypes: dict[str, dict[str, None]]) -> list[tuple[list[str], list[str]]]:
    alike: dict[Hashable, tuple[list[str], list[str]]] = {}
    for dtype, modes in dtypes.items():
        alike.setdefault(frozenset(modes), ([], list(modes)))[0].append(dtype)
    return list(alike.values())


def _listed(names: Iterable[str]) -> str:
    return ", ".join(name for name in names if name)
