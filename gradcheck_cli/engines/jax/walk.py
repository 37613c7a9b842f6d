"""Runs a JAX layer's equations again so that each can be identified.

The layer is traced once. Its equations are then bound anew, each in its own scope, and JAX
differentiates the result. The name stack of an equation of the derivative then names the layer's
equation, also in loops and branches. Each result passes through an identity, which marks its
cotangent in the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.extend import linear_util as lu
from jax.extend import source_info_util as source_info
from jax.interpreters import ad

from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.jax.recorder import SCOPE
from gradcheck_cli.engines.jax.wide import bound, evaluated, inner_of
from gradcheck_cli.engines.layer.recording import TooLarge
from gradcheck_cli.engines.layer.source_lines import Places

# JAX takes about three milliseconds to bind, differentiate, transpose and evaluate an equation, and
# the search that follows has 20 seconds in total (`checks/causes/blame.py`).
MOST_EQUATIONS = 5000

STOP = "stop_gradient"
CUSTOM_JVP, CUSTOM_VJP = "custom_jvp_call", "custom_vjp_call"
CALLS = ("jit", "closed_call", "core_call", "checkpoint", "remat2")


def _handed_on(name: str) -> Any:
    primitive = core.Primitive(name)
    primitive.def_impl(lambda x, **which: x)
    primitive.def_abstract_eval(lambda x, **which: x)
    return primitive


VALUE = _handed_on("gradcheck_value")
"""The identity of result `index` of the equation `tag`."""

BAR = _handed_on("gradcheck_bar")
"""The identity of that result's cotangent, in the backward pass."""

ad.deflinear2(VALUE, lambda y_bar, x, **which: [BAR.bind(y_bar, **which)])


@dataclass(frozen=True, slots=True)
class Tag:
    """An equation of the layer: the name of its primitive, and the user's expression."""

    name: str
    place: Place | None


class Walk:
    """The equations of `call` for arrays of these shapes, ready to run. With `opened`, the gradient
    is not stopped at that place. `stops` has all places that stop a gradient."""

    def __init__(
        self,
        call: Callable[..., list[Any]],
        arrays: Sequence[Any],
        places: Places,
        opened: Place | None = None,
    ) -> None:
        self._closed = jax.make_jaxpr(call)(*arrays)
        self._places = places
        self._opened = opened
        self.tags: list[Tag] = []
        self.stops: dict[Place, None] = {}

    @property
    def constants(self) -> Sequence[Any]:
        """The arrays that the layer uses but does not take as arguments."""
        return list(self._closed.consts)

    def __call__(self, *arrays: Any) -> list[Any]:
        return self._run(self._closed, None, *arrays)

    def _run(self, closed: Any, around: Place | None, *arrays: Any) -> list[Any]:
        """The results of a jaxpr that is called at the place `around`."""

        def evaluate(equation: Any, args: list[Any]) -> list[Any]:
            traceback = equation.source_info.traceback
            place = self._places.of_stack(*traceback.raw_frames()) if traceback else None
            return self._equation(equation, place or around, args)

        return evaluated(closed.jaxpr, closed.consts, arrays, evaluate)

    def _equation(self, equation: Any, place: Place | None, args: list[Any]) -> list[Any]:
        name = equation.primitive.name
        if name in CALLS:
            return self._run(inner_of(equation), place, *args)
        if name == STOP and place is not None:
            self.stops[place] = None
            if place == self._opened:
                return args
        tag = len(self.tags)
        if tag >= MOST_EQUATIONS:
            raise TooLarge(f"not traced: it has more than {MOST_EQUATIONS} operations")
        self.tags.append(Tag(name, place))
        params = self._marked(name, equation.params, place)
        with jax.named_scope(f"{SCOPE}{tag}"):
            results = bound(equation, args, params)
            if self._opened is not None:  # this run is not recorded
                return results
            return [
                VALUE.bind(y, tag=tag, index=index) if _is_floating(y) else y
                for index, y in enumerate(results)
            ]

    def _marked(self, name: str, params: Mapping[str, Any], place: Place | None) -> dict[str, Any]:
        """The parameters of an equation. Programs that it runs repeatedly or conditionally get tags
        of their own."""
        marked = dict(params)
        if name == CUSTOM_VJP:
            stated = params["bwd"]
            marked["bwd"] = lu.wrap_init(
                partial(_run_backward, stated), debug_info=stated.debug_info
            )
        if name == "cond":
            marked["branches"] = tuple(self._tagged(b, place) for b in params["branches"])
        if name == "while":
            for part in ("cond_jaxpr", "body_jaxpr"):
                marked[part] = self._tagged(params[part], place)
        if name == "scan":
            marked["jaxpr"] = self._tagged(params["jaxpr"], place)
        return marked

    def _tagged(self, closed: Any, place: Place | None) -> Any:
        arrays = [
            jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in closed.in_avals
        ]
        return jax.make_jaxpr(partial(self._run, closed, place))(*arrays)


def _run_backward(stated: Any, *args: Any) -> Any:
    """Run a custom backward so that its own lines are known. JAX gives equations of a backward pass
    the line of the forward pass."""
    with source_info.user_context(None):
        source_info.current().traceback = None
        return stated.call_wrapped(*map(_as_traced, args))


def _as_traced(value: Any) -> Any:
    """A NumPy array as a JAX array, which traced numbers can index."""
    known = isinstance(value, np.ndarray) and value.dtype != jax.dtypes.float0
    return jax.numpy.asarray(value) if known else value


def _is_floating(array: Any) -> bool:
    return bool(jax.numpy.issubdtype(array.dtype, jax.numpy.floating))
