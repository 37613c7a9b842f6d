"""The end of a script: it prints both numbers, and exits with 1 if the computed one is wrong."""

from __future__ import annotations

from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.report import Entry, Finding
from gradcheck_cli.report.repro.languages import Language

_KNOWN = {
    "certified": "enclosed in ball arithmetic",
    "confirmed": "higher precision, which differences of the function confirm",
    "finite-difference": "differences of the function",
    "one-sided-difference": "one-sided differences of the function",
}
END = """
print({title!r})
print("with", {version}, "on Python", sys.version.split()[0])
print("computed:", computed)
print("true:    ", {truth!r}, {known!r})
"""
_WRONG = "sys.exit(0 if abs(computed - {truth!r}) <= {half!r} else 1)\n"
_WRONG_COMPILED = """print("without the compiler:", uncompiled)
right = max(2 * abs(uncompiled - {truth!r}), {part!r})
sys.exit(0 if abs(computed - {truth!r}) <= right else 1)
"""
_PART = 2.0**-6
"""Of the error of a finding, what counts as right of a compiler: its wrong numbers may differ from
run to run, as they may be what lies in memory."""
NOT_FINITE = "sys.exit(0 if abs(computed) < float('inf') else 1)\n"
_MISSING = "sys.exit(0 if computed is not None else 1)\n"


def ending(finding: Finding, language: Language) -> str:
    """The last statements of a script that has set `computed`."""
    entry, title = finding.entries[0], title_of(finding)
    end = END.format(
        title=f"{title}, {finding.mode} mode" if finding.mode else title,
        version=language.version,
        truth="not known" if entry.truth is None else entry.truth,
        known=known_by(finding),
    )
    if is_of_compiler(finding):
        return end + _WRONG_COMPILED.format(truth=entry.truth, part=2 * _PART * half_of(entry))
    if entry.truth is None:
        return end + NOT_FINITE
    if entry.computed is None:
        return end + _MISSING
    return end + _WRONG.format(truth=entry.truth, half=half_of(entry))


def known_by(finding: Finding) -> str:
    """How the true number is known, in brackets."""
    source, error = finding.truth_source or "known", finding.entries[0].truth_error
    known = next((words for key, words in _KNOWN.items() if source.startswith(key)), "")
    bar = "" if error is None else f"± {error:.1e}, "
    return f"({bar}{source}{': ' * bool(known)}{known})" if source != "undecided" else ""


def is_of_compiler(finding: Finding) -> bool:
    """Whether the compiler alone computes a wrong number."""
    if finding.code != Codes.COMPILED_GRADIENT or not finding.entries:
        return False
    return finding.entries[0].computed is not None and finding.entries[0].truth is not None


def title_of(finding: Finding) -> str:
    return f"{finding.code} {CODES[finding.code].name}: {finding.engine}, {finding.dtype}"


def half_of(entry: Entry) -> float:
    """Half of the distance between the computed number and the true one."""
    off = abs((entry.computed or 0.0) - (entry.truth or 0.0))
    return off / 2 if off < float("inf") else 0.0
