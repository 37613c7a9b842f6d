"""Displays of a result in a notebook: a table of pandas, and a figure of matplotlib.

Neither is a dependency. If one is missing, the error shows the command that installs it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.report import Comparison, SpecResult

COLUMNS = (
    *("engine", "dtype", "mode", "point", "input", "output_index", "index"),
    *("computed", "truth", "ulps"),
)


def data_frame(result: SpecResult) -> Any:
    """A pandas.DataFrame with a row for each entry of each gradient that was computed entry by
    entry.

    Raises UsageError if pandas is not installed.
    """
    pandas = _import_or_explain("pandas", "to_dataframe")
    return pandas.DataFrame(list(_rows(result)), columns=list(COLUMNS))


def _rows(result: SpecResult) -> Iterator[tuple[object, ...]]:
    for reading in result.readings:
        who = reading.engine, reading.dtype, reading.mode, reading.point
        for name, compared in reading.compared.items():
            shape = *compared.output_shape, *compared.input_shape
            numbers = (a.reshape(shape) for a in (compared.computed, compared.truth, compared.ulps))
            computed, truth, ulps = numbers
            for index in np.ndindex(*shape):
                split = len(compared.output_shape)
                values = (float(array[index]) for array in (computed, truth, ulps))
                yield *who, name, index[:split], index[split:], *values


def figure(result: SpecResult) -> Any:
    """A matplotlib Figure: for each input a map of the error of every entry, as log10 of ulps, for
    the worst reading. Entries that are not numbers, or have no truth, are left blank.

    Raises UsageError if matplotlib is not installed, or no gradient was computed entry by entry.
    """
    pyplot = _import_or_explain("matplotlib.pyplot", "plot")
    worst: dict[str, tuple[str, Comparison]] = {}
    for reading in result.readings:
        for name, compared in reading.compared.items():
            who = f"{reading.engine} {reading.dtype} {reading.mode}"
            if name not in worst or _largest(compared) > _largest(worst[name][1]):
                worst[name] = who, compared
    if not worst:
        raise UsageError(f"no gradient of `{result.spec}` was computed entry by entry")
    drawn, axes = pyplot.subplots(1, len(worst), figsize=(5 * len(worst), 4), squeeze=False)
    for place, (name, (who, compared)) in zip(axes[0], worst.items(), strict=True):
        image = place.imshow(_map(compared), cmap="YlOrRd", vmin=0, aspect="auto")
        place.set(
            title=f"{name}: {who}",
            xlabel=f"entry of {name}",
            ylabel="entry of the output" if compared.output_shape else "leading axes",
        )
        place.locator_params(integer=True)
        drawn.colorbar(image, ax=place, label="log10 of the error in ulps")
    if "inline" in pyplot.get_backend():  # a notebook shows what is open, and what a cell returns
        pyplot.close(drawn)
    return drawn


def _largest(compared: Comparison) -> float:
    """The largest error in ulps; inf if an entry is not a number although its truth is."""
    errors = np.where(np.isfinite(compared.truth), compared.ulps, 0.0)
    return float(np.max(np.nan_to_num(errors, nan=np.inf), initial=0.0))


def _map(compared: Comparison) -> Array:
    """The errors, arranged by the axes of the input, or by output and input."""
    with np.errstate(all="ignore"):
        errors = np.log10(np.maximum(compared.ulps, 1.0))
    columns = compared.input_shape[-1] if compared.input_shape else 1
    return errors if compared.output_shape else errors.reshape(-1, columns)


def _import_or_explain(module: str, method: str) -> ModuleType:
    name = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name != name:
            raise
        raise UsageError(
            f"`{method}` needs {name}, which is not installed", f"pip install {name}"
        ) from None
