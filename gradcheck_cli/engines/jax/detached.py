"""Where a JAX layer stops gradients, and what the gradients would be otherwise."""

from __future__ import annotations

import jax
import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.jax.walk import Walk
from gradcheck_cli.engines.jax.wide import Pure
from gradcheck_cli.engines.layer.custom import MOST_CUTS, GradientBarrier
from gradcheck_cli.engines.layer.source_lines import Places


def uncut(layer: Pure) -> list[GradientBarrier]:
    """The gradients with each stop let through in turn."""
    places = Places(__name__)
    seen = Walk(layer.call, layer.arrays, places)
    jax.eval_shape(seen, *layer.arrays)
    barriers = []
    for place in list(seen.stops)[:MOST_CUTS]:
        _, pull = layer.vjp(Walk(layer.call, layer.arrays, places, opened=place))
        gradients: dict[str, Array | None] = {
            name: np.asarray(grad).astype(np.float64).reshape(-1)
            for name, grad in zip(layer.wrt, pull(layer.bars), strict=True)
        }
        barriers.append(GradientBarrier("jax.lax.stop_gradient()", place, gradients))
    return barriers
