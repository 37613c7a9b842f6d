"""What a framework's layer says by default, and which arrays were written to."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.engines.layer.framework_layer import differing


def test_only_what_was_written_to_since_the_last_look_is_named() -> None:
    arrays = {"x": np.zeros(3), "w": np.ones(2)}
    written = differing(lambda: {name: array.tobytes() for name, array in arrays.items()})
    assert written() == ()
    arrays["w"][1] = 5.0
    assert written() == ("w",)
    assert written() == ()
    arrays["x"][0], arrays["w"][1] = -1.0, 1.0
    assert written() == ("x", "w")
