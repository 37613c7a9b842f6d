"""Suggestions for unknown words: typing errors, and other projects' names for engines, dtypes,
modes and distributions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

_SYNONYMS = {
    "pytorch": "torch",
    "tf": "tensorflow",
    "keras": "tensorflow",
    "np": "numpy",
    "fp64": "float64",
    "f64": "float64",
    "double": "float64",
    "fp32": "float32",
    "f32": "float32",
    "float": "float32",
    "single": "float32",
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "rev": "reverse",
    "backward": "reverse",
    "vjp": "reverse",
    "fwd": "forward",
    "jvp": "forward",
    "gaussian": "normal",
    "gauss": "normal",
    "randn": "normal",
    "loguniform": "log_uniform",
    "randint": "integers",
    "integer": "integers",
    "int": "integers",
}


def synonym(word: object, choices: Collection[str]) -> str | None:
    """The choice that other projects call `word`; None if there is none."""
    found = _SYNONYMS.get(str(word).lower())
    return found if found in choices else None


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """The choice that other projects call `word`, or else the most similar one; None if none is
    similar."""
    import difflib  # slow to import, and only a mistake needs it

    options = list(choices)
    other = synonym(word, options)
    if other is not None:
        return other
    text = str(word)[:100].lower()
    folded = {option.lower(): option for option in options}
    matches = difflib.get_close_matches(text, folded, 3, 0.6)
    # Swapped letters are the most common slip, and difflib's ratio does not consider them.
    matches.sort(key=lambda choice: sorted(choice) != sorted(text))
    return folded[matches[0]] if matches else None


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """A question like "did you mean `exp`?"; empty if no choice is similar."""
    near = nearest(word, choices)
    return f"did you mean `{near}`?" if near else ""
