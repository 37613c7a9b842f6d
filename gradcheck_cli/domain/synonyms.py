"""Names of engines, dtypes, modes and distributions in other projects."""

from __future__ import annotations

from collections.abc import Collection

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
    """The choice that other projects call `word`; None where they call none of them so."""
    found = _SYNONYMS.get(str(word).lower())
    return found if found in choices else None
