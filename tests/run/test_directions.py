"""The direction along which third derivatives begin."""

from __future__ import annotations

import numpy as np

from gradcheck_cli import specfile
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.directions import direction_along

NARROW, WIDE = FORMATS["float32"], FORMATS["float64"]


def read(inputs: str) -> tuple[Spec, dict[str, Array]]:
    (spec,), errors = specfile.read("spec.yaml", f"inputs: {{{inputs}}}\nmodel: sum(x * x)\n")
    assert not errors
    return spec, {name: entry.value for name, entry in spec.inputs.items()}


def test_of_one_number_it_is_one() -> None:
    spec, values = read("x: 0.25")
    assert direction_along(spec, values, WIDE, (0, 0, 0)) == {"x": 1.0}


def test_it_is_seeded_and_a_number_of_the_dtype() -> None:
    spec, values = read("x: {shape: [20], distribution: normal, seed: 0}")
    wide, narrow, other = (
        direction_along(spec, values, fmt, (seed, 0, 0))["x"]
        for fmt, seed in ((WIDE, 0), (NARROW, 0), (WIDE, 1))
    )
    np.testing.assert_array_equal(narrow, NARROW.round(wide))
    assert not np.array_equal(wide, other)
    assert np.all(wide != 0)
