"""Moves a spec to another point: `x=95` gives an input this value instead of its value in the
file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.decimals import nested
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.specfile.input_model import WORDS

FLAG = "--at"


class _Elsewhere(Exception):
    """The spec cannot have this point; the message says why."""


def specs_at_point(specs: Iterable[Spec], point: Sequence[str]) -> Iterator[Spec]:
    """The specs at this point only. Specs that cannot have the point are left out. Raises
    UsageError if no spec can have it, and for texts that are not values of an input."""
    values = dict(map(_parse_assignment, point))
    why, fits = "", False
    for spec in specs:
        try:
            yield _at_values(spec, values)
            fits = True
        except _Elsewhere as error:
            why = why or f"{spec.name}: {error}"
    if why and not fits:
        raise UsageError(f"{FLAG}: {why}")


def _parse_assignment(text: str) -> tuple[str, Array]:
    name, separator, value = text.partition("=")
    if value in WORDS:
        return name.strip(), np.asarray(WORDS[value])
    try:
        array = np.asarray(json.loads(value, parse_float=_finite, parse_int=_integer))
    except ValueError:
        array = np.asarray(None)
    if not separator or array.dtype.kind not in "bif":
        raise UsageError(
            f"{FLAG}: {text!r} is not an input with its value", f"{FLAG} x=1.5, {FLAG} 'x=[1, 2]'"
        )
    return name.strip(), array


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise UsageError(
            f"{FLAG}: {text if len(text) < 40 else f'{text[:37]}...'} is larger than any "
            "floating-point number",
            f"infinity is written inf: {FLAG} x=inf",
        )
    return number


def _integer(text: str) -> int:
    _finite(text)
    return int(text)


def _at_values(spec: Spec, values: Mapping[str, Array]) -> Spec:
    inputs = dict(spec.inputs)
    for name, value in values.items():
        if name not in inputs:
            raise _Elsewhere(f"there is no input `{name}`")
        inputs[name] = _with_value(inputs[name], value)
    return replace(spec, points=(inputs,), pointed=False, train=None)


def _with_value(entry: Input, value: Array) -> Input:
    if entry.is_complex:
        raise _Elsewhere(f"`{entry.name}` is complex")
    if value.shape != entry.value.shape:
        raise _Elsewhere(f"`{entry.name}` has shape {entry.value.shape}, not {value.shape}")
    if np.any((value < entry.low) | (value > entry.high)):
        raise _Elsewhere(f"`{entry.name}` is outside the domain [{entry.low:g}, {entry.high:g}]")
    return replace(entry, value=value.astype(entry.value.dtype), seed=None)


def at_words(values: Mapping[str, Array], dtype: str) -> list[str]:
    """The arguments of a command line that give inputs these values, which are numbers of the
    dtype."""
    words = []
    for name, value in values.items():
        words += [FLAG, f"{name}={nested(np.asarray(value).tolist(), dtype)}"]
    return words
