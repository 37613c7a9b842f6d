"""What a check along random directions was certain to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from gradcheck_cli.domain.layer import LayerProblem
from gradcheck_cli.truth.differences import Float
from gradcheck_cli.truth.probes import is_gaussian, size_of, smallest
from gradcheck_cli.truth.projections import TARGET, Projections
from gradcheck_cli.truth.quick import Look

SHOWS = 4.0  # times the bar: twice to leave it, and twice again with steps half as long


class Promise:
    """Of the `looks` by number of their direction, whose products with the gradient are `of`."""

    def __init__(
        self, truth: Projections, looks: Mapping[int, Look | None], of: Callable[[int], Float]
    ) -> None:
        self._truth = truth
        self._looks = looks
        self._of = of

    def kept(self, power: float) -> bool:
        """Whether an error of TARGET of the gradient, whatever its pattern, would have been found
        with this probability."""
        return self._part(power) <= TARGET

    def caught(self) -> dict[str, float]:
        """By leaf, the error of a single entry that would have been found: signs show it as it is,
        so that it shows in any of their products."""
        return {
            leaf.name: self._single() * self._output() / self._truth.draws.least_scale(leaf)
            for leaf in self._truth.leaves
        }

    def words(self, name: str, problem: LayerProblem) -> Iterator[str]:
        """The promise as a sentence."""
        power, count = problem.power, len(self._truth.rows)
        if self._norm() == 0:
            return
        single = f"{max(self.caught().values()):.1g} in any single entry"
        if self._truth.draws.by_entry:
            single = f"{self._single():.1g} in the product of any single entry with its input"
        many = f"{count} cotangent{'s' * (count > 1)}"
        yield (
            f"{name} {problem.dtype}: checked along {len(self._looks)} random directions and "
            f"{many}; an error of {single}, or of {self._part(power):.1g} of the gradient in any "
            f"pattern, would have been found with probability {power:g}"
        )

    def _part(self, power: float) -> float:
        """The error in any pattern that would have been found, as a part of the gradient."""
        norm = self._norm()
        if norm == 0:
            return 0.0
        widest = SHOWS * float(np.max(self._bars(gaussian=True)))
        return widest * smallest(len(self._looks), len(self._truth.rows), power) / norm

    def _single(self) -> float:
        return SHOWS * float(np.min(self._bars(gaussian=False)))

    def _bars(self, gaussian: bool) -> Float:
        """The bars of the products that are Gaussian, or of Rademacher, on both sides."""
        count = len(self._truth.rows)
        return np.array(
            [
                look.estimate.error[k]
                for number, look in self._looks.items()
                if look is not None and is_gaussian(number) == gaussian
                for k in range(count)
                if is_gaussian(k) == gaussian or count == 1
            ]
        )

    def _norm(self) -> float:
        """The size of the products, which is the gradient's norm where entries are of one size."""
        return float(np.sqrt(np.mean([self._of(number) ** 2 for number in self._looks])))

    def _output(self) -> float:
        """The largest of several outputs, whose cotangents are that much smaller."""
        outputs, values = self._truth.subject.outputs, self._truth.output
        if len(outputs) == 1:
            return 1.0
        return max(size_of(values[o.start : o.start + o.size]) for o in outputs)
