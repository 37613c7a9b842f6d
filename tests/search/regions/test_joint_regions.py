"""What several kinds ask for is looked at once, and each is sent what is known of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gradcheck_cli.checks.protocol import Steps, drive
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.search import Kind
from gradcheck_cli.search.box import Ordinals
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.proof import Proof, bit_of
from gradcheck_cli.search.regions.joint_regions import Asking, absent, fails, run_together

VALUE: Kind = "value-nonfinite"
GRADIENT: Kind = "gradient-nonfinite"


class Half(Proof):
    """The value is finite in boxes that end below 0, the gradient in all."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def proven(
        self,
        low: Ordinals,
        high: Ordinals,
        kinds: Iterable[Kind] = (),
        budget: Budget | None = None,
    ) -> Array:
        self.calls.append(len(low))
        return np.where(high[:, 0] < 0, bit_of(VALUE), 0) | bit_of(GRADIENT)


def test_equal_boxes_and_points_are_looked_at_once() -> None:
    run: list[int] = []

    def region(shift: int) -> Asking[tuple[list[bool], list[bool]]]:
        ends = np.array([[-5], [3 + shift]])
        proven = yield from absent(ends, ends)
        failing = yield from fails(ends)
        return proven.tolist(), failing.tolist()

    def failing(points: Ordinals, kinds: Sequence[Kind]) -> Steps[Mapping[Kind, Array]]:
        yield from ()
        run.append(len(points))
        return {kind: points[:, 0] > (0 if kind == VALUE else 3) for kind in kinds}

    proof = Half()
    found = drive(
        run_together({VALUE: region(0), GRADIENT: region(1)}, proof, failing, Budget(60)),
        lambda ask: None,
    )
    assert found[VALUE] == ([True, False], [False, True])
    assert found[GRADIENT] == ([True, True], [False, True])
    assert proof.calls == run == [3]
