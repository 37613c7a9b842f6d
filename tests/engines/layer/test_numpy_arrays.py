"""NumPy arrays in one dtype, without derivatives of functions."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.numpy_arrays import NumpyArrays


def test_floats_get_the_dtype_and_other_numbers_keep_theirs() -> None:
    fw = NumpyArrays("float32", "", "")
    given = np.array([0.1, 2.0])
    made = fw.array(given)
    made[0] = 7.0
    assert (fw.dtype_of(made), given[0]) == ("float32", 0.1)
    assert fw.dtype_of(fw.array(np.array([1, 2]))) == "int64"
    np.testing.assert_array_equal(fw.numpy(fw.array(given)), [np.float64(np.float32(0.1)), 2.0])


def test_why_there_are_no_derivatives_is_said() -> None:
    fw = NumpyArrays("float64", "no backward", "no tangents")
    with pytest.raises(Unsupported, match="no backward"):
        fw.vjp(lambda moved, _: (moved, None), [])
    with pytest.raises(Unsupported, match="no tangents"):
        fw.jvp(lambda moved: (moved, None), [], [])
