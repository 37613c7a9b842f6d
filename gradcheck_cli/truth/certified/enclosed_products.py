"""Enclose products of the Jacobian of a large program, cotangent @ J and J @ tangent, in balls of
float64 that are computed for whole arrays at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.program import Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import DECIDABLE, USUAL_EXPONENT
from gradcheck_cli.truth.certified.ball_program import Nodes
from gradcheck_cli.truth.certified.one_thread import one_thread
from gradcheck_cli.truth.certified.still_elements import still_elements
from gradcheck_cli.truth.certified.ties import Mask
from gradcheck_cli.truth.plain import inlined, moving

MOST_NUMBERS = 2**23
"""Numbers of all nodes together, inputs included. The tape keeps a midpoint and a radius for each,
128 MiB in all, and a backward pass over them takes a second."""

MOST_SINGLY = 2**17
"""Numbers that rows without an enclosure for whole arrays take and return, for all products
together. Each takes a microsecond to a dozen in Arb, compared with 50 nanoseconds in an array: a
second in all."""


class TooManyNumbers(Exception):
    """Enclosing the program would take too long. The message says why."""


def require_few(numbers: int) -> None:
    """Raise TooManyNumbers if a program has more moving `numbers` than can be enclosed."""
    if numbers > MOST_NUMBERS:
        raise TooManyNumbers(f"it computes more than {MOST_NUMBERS} numbers")


class _FloatNodes(Nodes):
    """The nodes of a program on float balls."""

    def exactly(self, value: Any) -> Any:
        from reference_engine.arithmetic.float_enclosures import exactly_floats

        return exactly_floats(value)

    def collecting_ties(self, still: bool, noted: bool) -> AbstractContextManager[set[str]]:
        from reference_engine.arithmetic.float_enclosures import standing

        return standing() if still else nullcontext(set())

    def held(self, node: Node, value: Any, args: Sequence[Any], still: Mask) -> Any:
        """The same; a comparison is decided where equal numbers are `still`."""
        from reference_engine.arithmetic.float_enclosures import Doubtful, standing
        from reference_engine.traced import ROWS

        found = _ball(value)
        if not isinstance(found, Doubtful):
            return super().held(node, value, args, still)
        with standing():
            alone = ROWS[node.op](*map(_ball, args), **node.keywords)
        doubt = found.doubt & np.where(still, getattr(alone, "doubt", False), True)
        return Doubtful(found.value, doubt) if np.any(doubt) else found.value

    def check_moved(self, node: Node, value: Any) -> None:
        """Raise Undecided at a jump."""
        from reference_engine.arithmetic.arbs import Undecided
        from reference_engine.arithmetic.float_enclosures import Doubtful, FloatBall

        bottom = _ball(value)
        jumps = node.op == "sign" and isinstance(bottom, FloatBall) and np.any(bottom.radii != 0)
        if isinstance(bottom, Doubtful) or jumps:
            raise Undecided("an operation is at a jump")


def _ball(value: Any) -> Any:
    """The float ball or comparison inside of a value that is differentiated."""
    from reference_engine.arithmetic.float_enclosures import Doubtful, FloatBall
    from reference_engine.traced import Traced

    while isinstance(value, Traced) and not isinstance(value, (Doubtful, FloatBall)):
        value = value.value
    return value


@dataclass(frozen=True, slots=True)
class EnclosedArray:
    """Numbers with a bound on their error: the exact ones are within `radius` of `value`. A radius
    that is not finite says nothing."""

    value: Array
    radius: Array

    def is_narrow(self, natural: Array) -> Array:
        """Mark the numbers whose radius is small compared with the number or with its `natural`
        size. A zero counts as known if its radius is below every number with a usual exponent."""
        fmt = FORMATS["float64"]
        least = 2.0 ** -(USUAL_EXPONENT * fmt.max_exponent)
        size = np.fmax(np.fmax(np.abs(self.value), natural), least)
        return np.asarray(self.radius <= 2.0 ** -(DECIDABLE * fmt.bits) * size)


class EnclosedProducts:
    """The products of a program with float64 constants at `values`, by inputs of `wrt`. Inputs with
    `radii` are known to within these. The run is recorded once for all cotangents.

    Raises TooManyNumbers. The methods raise Undecided if the program is at a jump or an operation
    cannot tell which of two numbers is larger, and NotInBalls.
    """

    def __init__(
        self,
        program: Program,
        values: Mapping[str, Array],
        wrt: tuple[str, ...],
        radii: Mapping[str, Array] | None = None,
    ) -> None:
        from reference_engine.arithmetic.float_enclosures import Singly

        self._program = inlined(program)
        moves = moving(self._program, wrt)
        require_few(sum(math.prod(self._program.nodes[i].shape) for i in moves))
        still = set(range(len(self._program.nodes))) - moves
        self._nodes = _FloatNodes(self._program, FORMATS["float64"], still)
        self._singly = Singly(MOST_SINGLY)
        self._values = values
        self._held = still_elements(self._program, values, wrt, "float64")
        self._radii = radii or {}
        self._wrt = wrt
        self._recorded: tuple[dict[str, Any], Any] | None = None

    @one_thread()
    def pulled(self, cotangent: Array) -> dict[str, EnclosedArray]:
        """cotangent @ J by input, each (n,)."""
        from reference_engine.tape import Node

        with self._singly:
            variables, y = self._run_recorded()
            return _pulled_back(y if isinstance(y, Node) else None, cotangent, variables)

    @one_thread()
    def bent(self, cotangent: Array, tangents: Mapping[str, Array]) -> dict[str, EnclosedArray]:
        """The derivative of cotangent @ J @ tangent by input, each (n,): the Hessian of cotangent @
        output times the tangent."""
        from reference_engine.tape import Node

        with self._singly:
            variables = self._variables()
            y_dot, _ = self._run_along(tangents, variables)
            linear = not isinstance(y_dot, Node) or y_dot.level != variables[self._wrt[0]].level
            return _pulled_back(None if linear else y_dot, cotangent, variables)

    @one_thread()
    def pushed(self, tangents: Mapping[str, Array]) -> EnclosedArray:
        """J @ tangent, (m,); inputs without a tangent do not move."""
        with self._singly:
            return _flat(*self._run_along(tangents, {}))

    def _variables(self) -> dict[str, Any]:
        """The inputs as leaves of a new tape."""
        from reference_engine.arithmetic.float_enclosures import exactly_floats
        from reference_engine.tape import Node
        from reference_engine.traced import new_level

        level = new_level()
        return {name: Node(level, exactly_floats(self._values[name])) for name in self._wrt}

    def _run_recorded(self) -> tuple[dict[str, Any], Any]:
        if self._recorded is None:
            variables = self._variables()
            self._recorded = variables, self._run(variables)
        return self._recorded

    def _run_along(
        self, tangents: Mapping[str, Array], variables: Mapping[str, Any]
    ) -> tuple[Any, int]:
        """The derivative along the tangents, on the tape of the `variables` (None if nothing
        moves), and its size."""
        from reference_engine.arithmetic.float_enclosures import exactly_floats
        from reference_engine.dual import Dual
        from reference_engine.traced import new_level

        level = new_level()
        duals = {}
        for name, tangent in tangents.items():
            value = self._values[name]
            at = variables[name] if name in variables else exactly_floats(value)
            duals[name] = Dual(level, at, exactly_floats(np.reshape(tangent, np.shape(value))))
        y = self._run({**variables, **duals})
        return (y.tangent if isinstance(y, Dual) and y.level == level else None), y.size

    def _run(self, moved: Mapping[str, Any]) -> Any:
        from reference_engine.arithmetic.float_enclosures import FloatBall, exactly_floats

        def given(name: str) -> Any:
            if name in moved:
                return moved[name]
            if name in self._radii:
                return FloatBall(self._values[name], self._radii[name])
            value = np.asarray(self._values[name])
            return exactly_floats(value) if value.dtype.kind == "f" else value

        (output,) = self._nodes.outputs(map(given, self._program.inputs), held=self._held)
        return output


def _pulled_back(
    y: Any, cotangent: Array, variables: Mapping[str, Any]
) -> dict[str, EnclosedArray]:
    """cotangent @ (dy / dx) for each variable x; y is None if no variable moves it."""
    from reference_engine.arithmetic.float_enclosures import exactly_floats
    from reference_engine.tape import pull_back

    seeds = [] if y is None else [(y, exactly_floats(np.reshape(cotangent, y.shape)))]
    reached = pull_back(seeds, list(variables.values()))
    return {name: _flat(reached.get(x.record), x.size) for name, x in variables.items()}


def _flat(found: Any, size: int) -> EnclosedArray:
    if found is None:
        return EnclosedArray(np.zeros(size), np.zeros(size))
    from reference_engine.arithmetic.float_enclosures import as_float_ball

    ball = as_float_ball(found)
    return EnclosedArray(ball.value.reshape(-1), ball.radii.reshape(-1))
