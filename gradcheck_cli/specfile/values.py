"""The numbers of an input: written out, or drawn from a distribution.

A recipe's numbers are the same for ever. They come from NumPy's PCG64, in float64, from a stream of
the input's own: `rng = numpy.random.default_rng([seed, *name.encode()])`, with the point's number
(from 1) appended for a recipe that stands under `points`. Then

    normal       mean + std * rng.standard_normal(shape)
    uniform      low + (high - low) * rng.random(shape)
    log_uniform  exp(log(low) + (log(high) - log(low)) * rng.random(shape))
    integers     rng.integers(low, high, shape, endpoint=True)

and once more for the imaginary parts of a complex input.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import COMPLEX, FORMATS, Array, parts_of
from gradcheck_cli.specfile.collect import Collector, Path, locate
from gradcheck_cli.specfile.input_model import MAX_AXES, WORDS, number_in
from gradcheck_cli.specfile.problems import text_help, value_words
from gradcheck_cli.specfile.yaml_values import Mapping, Scalar, Sequence, Tree

MAX_ENTRIES = 10_000_000
"""Entries of one input: 80 MB in float64, beyond what a check of every gradient can use."""
MAX_TOTAL = 2 * MAX_ENTRIES
"""Entries of all inputs at all points of one spec."""

_SHOWN = 5  # that many bad entries of one input are reported


class Budget:
    """Counts the entries of one spec, so that no spec can ask for more memory than a machine
    has."""

    def __init__(self) -> None:
        self.left = MAX_TOTAL

    def take(self, shape: tuple[int, ...], path: Path, collector: Collector) -> bool:
        """Whether an array of this shape is allowed. If not, an error is reported."""
        count = math.prod(shape)
        if count > MAX_ENTRIES:
            message = f"{count:,} entries exceed the limit of {MAX_ENTRIES:,} for an input"
        elif count > self.left:
            message = f"the inputs of this spec have more than {MAX_TOTAL:,} entries in total"
        else:
            self.left -= count
            return True
        collector.add(message, path)
        return False


def parse_array(tree: Tree, dtype: str | None, path: Path, collector: Collector) -> Array | None:
    """A number or nested list as an array of float64, complex128, int64 or bool; None after an
    error."""
    numbers = _Numbers(path, collector)
    shape = numbers.shape(tree)
    if shape is None:
        return None
    numbers.read(tree, shape, path)
    if numbers.bad:
        if numbers.bad > _SHOWN:
            collector.add(f"{numbers.bad - _SHOWN} more entries are not numbers", path)
        return None
    array = _typed(numbers.entries, dtype, path, collector)
    return None if array is None else array.reshape(shape)


def number(path: Path, collector: Collector) -> bool | int | float | None:
    """The single number at the path as a Python number; None after an error."""
    _, tree = locate(collector.root, path)
    if isinstance(tree, Scalar):
        value = tree.value
        if isinstance(value, str) and value in WORDS:
            return WORDS[value]
        if isinstance(value, bool | int | float):
            return value
    message = f"`{path[-1]}` must be a number, not {value_words(tree)}"
    collector.add(message, path, help=text_help(tree, ""))
    return None


class _Numbers:
    """Reads nested lists entry by entry, so that every mistake has its place."""

    def __init__(self, path: Path, collector: Collector) -> None:
        self.path = path
        self.collector = collector
        self.entries: list[bool | int | float | complex] = []
        self.bad = 0

    def shape(self, tree: Tree) -> tuple[int, ...] | None:
        """The shape according to the first entry of every list."""
        sizes: list[int] = []
        path = self.path
        while isinstance(tree, Sequence):
            if not tree.items:
                self.collector.add("an empty list has no numbers", path)
                return None
            sizes.append(len(tree.items))
            tree = tree.items[0]
            path = (*path, 0)
        if len(sizes) > MAX_AXES:
            message = f"lists are nested {len(sizes)} deep; an input has at most {MAX_AXES} axes"
            self.collector.add(message, self.path)
            return None
        return tuple(sizes)

    def read(self, tree: Tree, shape: tuple[int, ...], path: Path) -> None:
        """Appends the entries of a subtree, which must have this shape."""
        if not shape:
            self._entry(tree, path)
        elif not isinstance(tree, Sequence):
            self._wrong(f"{value_words(tree)}, but the first entry is a list", path)
        elif len(tree.items) != shape[0]:
            count, first = len(tree.items), shape[0]
            self._wrong(f"a ragged list: {count} entries here, but {first} in the first one", path)
        else:
            for index, item in enumerate(tree.items):
                self.read(item, shape[1:], (*path, index))

    def _entry(self, tree: Tree, path: Path) -> None:
        if isinstance(tree, Scalar):
            value = tree.value
            if isinstance(value, str):
                value = number_in(value)
            if isinstance(value, bool | int | float | complex):
                self.entries.append(value)
                return
            self._wrong(f"{value_words(tree)} is not a number", path, text_help(tree, ""))
            return
        self._wrong(f"{value_words(tree)}, but the first entry is a number", path)

    def _wrong(self, message: str, path: Path, help: str = "") -> None:
        self.bad += 1
        if self.bad <= _SHOWN:
            self.collector.add(message, path, help=help)


def _typed(
    entries: list[bool | int | float | complex], dtype: str | None, path: Path, collector: Collector
) -> Array | None:
    """The flat entries in the requested kind."""
    imaginary = next((entry for entry in entries if isinstance(entry, complex)), None)
    if imaginary is not None and dtype is not None and dtype not in COMPLEX:
        collector.add(f"{imaginary} is complex, and no number of dtype {dtype}", path)
        return None
    logical = sum(isinstance(entry, bool) for entry in entries)
    if 0 < logical < len(entries):
        collector.add("true and false are mixed with numbers", path)
        return None
    if dtype == "bool" or (dtype is None and logical):
        if not logical:
            collector.add("dtype bool needs true and false, not numbers", path)
            return None
        return np.array(entries, dtype=np.bool_)
    if logical:
        collector.add(f"true and false are not numbers of dtype {dtype}", path)
        return None
    if dtype in COMPLEX or imaginary is not None:
        return as_float(np.array(entries, dtype=np.complex128), dtype, path, collector)
    real = [entry for entry in entries if not isinstance(entry, complex)]
    if dtype == "int64":
        return _int64_array(real, path, collector)
    return as_float(np.array(real, dtype=np.float64), dtype, path, collector)


def _int64_array(
    entries: list[bool | int | float], path: Path, collector: Collector
) -> Array | None:
    for entry in entries:
        if isinstance(entry, float) and not entry.is_integer():
            collector.add(f"{entry!r} is not a whole number, as dtype int64 needs", path)
            return None
        if not -(2**63) <= entry < 2**63:
            collector.add("a number is too large for dtype int64", path)
            return None
    return np.array([int(entry) for entry in entries], dtype=np.int64)


def as_float(values: Array, dtype: str | None, path: Path, collector: Collector) -> Array | None:
    """The values in float64 or complex128, rounded to `dtype` first if one is given (complex
    numbers in both parts). An overflow is an error."""
    if dtype is None:
        return values
    if dtype in COMPLEX:
        parts = np.stack([values.real, values.imag], axis=-1).astype(np.float64)
        found = as_float(parts, parts_of(dtype), path, collector)
        return None if found is None else found.view(np.complex128)[..., 0]
    rounded = FORMATS[dtype].round(values)
    lost = np.isinf(rounded) & np.isfinite(values)
    if lost.any():
        worst = float(values[lost][0])
        message = f"{worst:g} is too large for {dtype}, whose largest number is"
        collector.add(f"{message} {FORMATS[dtype].largest:.6g}", path)
        return None
    return rounded


def draw_recipe(
    recipe: dict[str, Any], stream: list[int], dtype: str | None, path: Path, collector: Collector
) -> Array | None:
    """The numbers of the recipe from the stream (see the top of this file); None after an error."""
    distribution = recipe.get("distribution", "normal")
    whole = distribution == "integers"
    if dtype == "bool" or (dtype == "int64" and not whole):
        message = f"the distribution {distribution} does not give numbers of dtype {dtype}"
        help = "leave `dtype` out, or use distribution: integers with dtype: int64"
        collector.add(message, (*path, "dtype"), help=help)
        return None
    rng = np.random.default_rng(stream)
    values = _sample(distribution, recipe, rng)
    if dtype in COMPLEX:
        values = values + 1j * _sample(distribution, recipe, rng)
        return as_float(values, dtype, path, collector)
    if whole and dtype in (None, "int64"):
        return values.astype(np.int64)
    return as_float(values.astype(np.float64), dtype, path, collector)


def _sample(distribution: str, recipe: dict[str, Any], rng: np.random.Generator) -> Array:
    shape = tuple(recipe["shape"])
    if distribution == "normal":
        values = recipe.get("mean", 0.0) + recipe.get("std", 1.0) * rng.standard_normal(shape)
    elif distribution == "uniform":
        values = recipe["low"] + (recipe["high"] - recipe["low"]) * rng.random(shape)
    elif distribution == "log_uniform":
        low, high = math.log(recipe["low"]), math.log(recipe["high"])
        values = np.exp(low + (high - low) * rng.random(shape))
    else:
        values = rng.integers(recipe["low"], recipe["high"], shape, endpoint=True)
    return np.asarray(values)


def recipe_tree(tree: Tree) -> Tree:
    """The part of an input that holds its numbers: the value under `value`, or the input itself."""
    if isinstance(tree, Mapping) and "value" in tree.values:
        return tree.values["value"]
    return tree
