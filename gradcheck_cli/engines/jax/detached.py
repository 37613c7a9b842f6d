"""Where a layer of JAX stops gradients, and what they are if it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.jax.walk import Walk
from gradcheck_cli.engines.layer.custom import MOST_CUTS, GradientBarrier
from gradcheck_cli.engines.layer.source_lines import Places


def uncut(
    call: Callable[..., list[Any]],
    leaves: Mapping[str, Any],
    wrt: Sequence[str],
    cotangents: Sequence[Any],
) -> list[GradientBarrier]:
    """The gradients with each stop let through. `call` takes the `leaves` in order."""
    places = Places(__name__)
    arrays = list(leaves.values())
    seen = Walk(call, arrays, places)
    jax.eval_shape(seen, *arrays)
    found = []
    for place in list(seen.stops)[:MOST_CUTS]:
        walk = Walk(call, arrays, places, opened=place)

        def moved(*given: Any, walk: Walk = walk) -> list[Any]:
            return walk(*{**leaves, **dict(zip(wrt, given, strict=True))}.values())

        _, pull = jax.vjp(moved, *[leaves[name] for name in wrt])
        gradients: dict[str, Array | None] = {
            name: np.asarray(grad).astype(np.float64).reshape(-1)
            for name, grad in zip(wrt, pull(list(cotangents)), strict=True)
        }
        found.append(GradientBarrier("jax.lax.stop_gradient()", place, gradients))
    return found
