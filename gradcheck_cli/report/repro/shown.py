"""Whether a script that was run showed its finding."""

from __future__ import annotations

import re

from gradcheck_cli.domain.report import Finding
from gradcheck_cli.report.repro.ending import half_of


def shows(printed: str, finding: Finding) -> bool:
    """Whether a script printed the number, dtype, shape, refusal or behaviour of the finding. A
    wrong number of a compiler may differ from run to run, so a right number without the compiler is
    enough."""
    lines = [line.partition(": ") for line in printed.splitlines()]
    words = {said: " ".join(rest.split()) for said, _, rest in reversed(lines)}
    computed = words.get("computed", "")
    number = computed.partition(" ")[0]
    if not finding.entries:
        return _says(computed, " ".join(finding.message.split()))
    entry = finding.entries[0]
    if entry.computed is None or number in ("", "None"):
        return bool(number) and entry.computed is None and number == "None"
    if number == repr(entry.computed) or abs(float(number) - entry.computed) <= half_of(entry):
        return True
    uncompiled = words.get("without the compiler")
    if uncompiled is None:
        return False
    # such a script ends with 1 only where the compiled number is wrong
    return abs(float(uncompiled) - (entry.truth or 0.0)) <= half_of(entry)


def _says(computed: str, message: str) -> bool:
    """Whether a message contains the words that a script printed: a dtype, a shape, an exception,
    or the words in brackets after a number, which belongs to another cotangent."""
    in_brackets = re.fullmatch(r"\S+ \((.*)\)", computed)
    words = in_brackets[1] if in_brackets else computed
    dtype, _, is_kind = words.partition(" of shape ")
    wrong, *own = _SHAPE.findall(message.partition("has shape")[2]) or [None]
    shapes = _SHAPE.findall(_PLACE.sub("", words))
    if wrong is not None and shapes[:1] == [wrong] and shapes[1:] in ([], own):
        return True
    if is_kind:
        return f" is {dtype}," in message
    is_first = words and re.match(rf"{re.escape(words)}(?![\w.])", message.partition(" is ")[2])
    words = words.removesuffix(".")
    return bool(is_first) or (" " in words and words in message)


_SHAPE = re.compile(r"[\[(]([\d, ]*?),?[\])]")  # (3,) or [3]
_PLACE = re.compile(r"\boutput\[\d+\]")  # one of several, in JAX's words
